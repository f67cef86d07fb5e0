package xsk

import (
	"errors"
	"fmt"
)

var (
	// ErrConfig says that the Config or the pool cannot work together.
	ErrConfig = errors.New("invalid AF_XDP configuration")
	// ErrNotSupported says that the kernel or the driver lacks what was asked
	// for: AF_XDP as such, or zero-copy on this device.
	ErrNotSupported = fmt.Errorf("AF_XDP: %w", errors.ErrUnsupported)
	// ErrQueueBusy says that another AF_XDP socket holds the queue, and kept it
	// for as long as Open waits.
	ErrQueueBusy = errors.New("queue is held by another AF_XDP socket")
)
