package lab

import (
	"errors"
	"fmt"
	"os"
)

// Errors that callers tell apart.
var (
	// ErrNotRoot: namespaces and devices need CAP_SYS_ADMIN and CAP_NET_ADMIN.
	ErrNotRoot = errors.New("a lab of network namespaces needs root: run it with sudo")
	// ErrExists: a lab of that name was left running, by this or another program.
	ErrExists = errors.New("a lab of this name exists already")
	// ErrClosed: the lab was closed before or meanwhile.
	ErrClosed = errors.New("the lab is closed")
	// ErrName: a name is not one that devices and namespaces can be named after.
	ErrName = errors.New("not a usable name")
)

// needRoot asks for the effective user only: a root without the capabilities
// learns of it from the first call that the kernel refuses.
func needRoot() error {
	if os.Geteuid() != 0 {
		return ErrNotRoot
	}
	return nil
}

// maxName leaves room for "pod-" in a device name (IFNAMSIZ is 16 with its
// final zero, linux/if.h).
const maxName = 11

// checkName accepts a lower-case letter followed by letters and digits.
func checkName(name string) error {
	ok := name != "" && len(name) <= maxName && name[0] >= 'a' && name[0] <= 'z'
	for _, c := range name {
		ok = ok && (c >= 'a' && c <= 'z' || c >= '0' && c <= '9')
	}
	if !ok {
		return fmt.Errorf("%q: %w: want 1 to %d lower-case letters and digits, a letter first", name, ErrName, maxName)
	}
	return nil
}
