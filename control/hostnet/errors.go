package hostnet

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Errors that callers tell apart.
var (
	// ErrNoInterface: nothing on this host matches what was asked for.
	ErrNoInterface = errors.New("no underlay interface")
	// ErrAmbiguous: more than one thing matches, and none comes first.
	ErrAmbiguous = errors.New("ambiguous")
	// ErrConflict: the host already uses what the overlay needs.
	ErrConflict = errors.New("in use on this host")
	// ErrLocked: another instance works with the same subnet file.
	ErrLocked = errors.New("another flanxd is running")
	// ErrNotSupported: the kernel lacks a feature.
	ErrNotSupported = errors.New("not supported by this kernel")
	// ErrSubnetFile: the subnet file holds what no flannel daemon writes.
	ErrSubnetFile = errors.New("invalid subnet file")
	// ErrMTU: the underlay's MTU leaves no room for the overlay.
	ErrMTU = errors.New("MTU too small")
)

// explain adds the cure to errors that all changes of the network have in common.
func explain(err error) error {
	if errors.Is(err, unix.EPERM) {
		return fmt.Errorf("%w: run as root or with CAP_NET_ADMIN", err)
	}
	return err
}
