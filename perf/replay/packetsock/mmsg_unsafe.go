package packetsock

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// perCall is how many packets one system call moves.
const perCall = 64

// mmsghdr is struct mmsghdr (recvmmsg(2)). The compiler pads it as C does.
type mmsghdr struct {
	hdr unix.Msghdr
	n   uint32 // bytes moved
}

// vector is what one system call carries. It is made once, on the heap, which
// does not move; the kernel reads and writes it during the call only.
type vector struct {
	msgs [perCall]mmsghdr
	iovs [perCall]unix.Iovec
}

func newVector() *vector {
	v := new(vector)
	for i := range v.msgs {
		v.msgs[i].hdr.Iov = &v.iovs[i]
		v.msgs[i].hdr.SetIovlen(1)
	}
	return v
}

// set points the i-th message to its memory.
func (v *vector) set(i int, mem []byte) {
	v.iovs[i].Base = unsafe.SliceData(mem)
	v.iovs[i].SetLen(len(mem))
}

// call is sendmmsg(2) or recvmmsg(2) of n messages. It does not block, so the
// scheduler is not told.
func (v *vector) call(trap uintptr, fd, n int) (int, unix.Errno) {
	done, _, errno := unix.RawSyscall6(trap, uintptr(fd),
		uintptr(unsafe.Pointer(&v.msgs)), uintptr(n), unix.MSG_DONTWAIT, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(done), 0
}
