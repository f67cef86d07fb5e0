package lab

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ifreqData is struct ifreq (linux/if.h) with ifr_data in its union. The kernel
// reads 40 bytes on 64-bit machines; the pointer is the first 8 of the union's 24.
type ifreqData struct {
	name [unix.IFNAMSIZ]byte
	data unsafe.Pointer
	_    [24 - unsafe.Sizeof(unsafe.Pointer(nil))]byte
}

// ethtoolIoctl passes req, a command of linux/ethtool.h, to a device and lets
// the kernel write its answer into it. req must be as long as the command says.
func ethtoolIoctl(fd int, dev string, req []byte) error {
	if len(dev) >= unix.IFNAMSIZ {
		return unix.ENODEV
	}
	ifr := ifreqData{data: unsafe.Pointer(unsafe.SliceData(req))}
	copy(ifr.name[:], dev)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&ifr)))
	runtime.KeepAlive(req)
	if errno != 0 {
		return errno
	}
	return nil
}
