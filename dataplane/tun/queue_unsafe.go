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

// readv is readv(2) into two pieces of memory, one after the other.
func (q *queue) readv(first, second []byte) (int, unix.Errno) {
	iovs := [2]unix.Iovec{
		{Base: unsafe.SliceData(first), Len: uint64(len(first))},
		{Base: unsafe.SliceData(second), Len: uint64(len(second))},
	}
	n, _, errno := unix.RawSyscall(unix.SYS_READV,
		uintptr(q.fd), uintptr(unsafe.Pointer(&iovs)), uintptr(len(iovs)))
	return int(n), errno
}

// vector is the memory of one writev(2), in order.
type vector struct {
	iovs [1 + maxPieces]unix.Iovec
	n    int
}

func (v *vector) reset() { v.n = 0 }

func (v *vector) add(b []byte) {
	v.iovs[v.n].Base = unsafe.SliceData(b)
	v.iovs[v.n].SetLen(len(b))
	v.n++
}

// writev is writev(2).
func (q *queue) writev(v *vector) (int, unix.Errno) {
	n, _, errno := unix.RawSyscall(unix.SYS_WRITEV,
		uintptr(q.fd), uintptr(unsafe.Pointer(&v.iovs)), uintptr(v.n))
	return int(n), errno
}
