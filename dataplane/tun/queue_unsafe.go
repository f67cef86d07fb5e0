package tun

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// read is read(2) on a descriptor that does not block. RawSyscall leaves out
// the scheduler's bookkeeping, which would cost more than a call that finds
// nothing.
func (q *queue) read(b []byte) (int, unix.Errno) {
	n, _, errno := unix.RawSyscall(unix.SYS_READ,
		uintptr(q.fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
	return int(n), errno
}

// write is write(2), in the same way.
func (q *queue) write(b []byte) (int, unix.Errno) {
	n, _, errno := unix.RawSyscall(unix.SYS_WRITE,
		uintptr(q.fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
	return int(n), errno
}
