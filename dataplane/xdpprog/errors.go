package xdpprog

import (
	"errors"
	"fmt"
)

var (
	// ErrConfig says that there is nothing to filter for.
	ErrConfig = errors.New("invalid XDP filter")
	// ErrForeignProgram says that the interface already runs an XDP program. It
	// stays there, and ours is not attached.
	ErrForeignProgram = errors.New("another XDP program is attached to the interface")
	// ErrNotSupported says that the driver, or the interface as it is set up
	// (its MTU), does not take the program in the mode asked for, or that the
	// kernel is too old.
	ErrNotSupported = fmt.Errorf("XDP: %w", errors.ErrUnsupported)
	// ErrDetached says that somebody took the program off the interface, or
	// that the interface is gone.
	ErrDetached = errors.New("XDP program is no longer attached")
)
