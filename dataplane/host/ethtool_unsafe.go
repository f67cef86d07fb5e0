package host

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ethtoolRequest is struct ifreq (linux/if.h) as the ethtool calls use it: the
// name of a device, and where the command and its answer lie.
type ethtoolRequest struct {
	name [unix.IFNAMSIZ]byte
	data uintptr
	_    [16]byte // the union is larger than a pointer
}

// ethtoolCall runs one ethtool command; data begins with its number. The kernel
// writes its answer over data.
func ethtoolCall(fd int, device string, data []byte) error {
	var req ethtoolRequest
	copy(req.name[:unix.IFNAMSIZ-1], device)
	var pin runtime.Pinner
	pin.Pin(&data[0])
	defer pin.Unpin()
	req.data = uintptr(unsafe.Pointer(&data[0]))
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&req)))
	if errno != 0 {
		return errno
	}
	return nil
}
