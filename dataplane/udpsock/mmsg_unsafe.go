package udpsock

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// mmsghdr is struct mmsghdr (recvmmsg(2)). The compiler pads it as C does.
type mmsghdr struct {
	hdr unix.Msghdr
	n   uint32 // bytes received
}

// vector is what one system call carries: perCall messages, each with one piece
// of memory and one address. It is made once; the kernel reads and writes it
// during the call only.
type vector struct {
	msgs  [perCall]mmsghdr
	iovs  [perCall]unix.Iovec
	names [perCall]sockaddr
}

// newVector joins the parts. They are on the heap, which does not move.
func newVector() *vector {
	v := new(vector)
	for i := range v.msgs {
		h := &v.msgs[i].hdr
		h.Name = &v.names[i][0]
		h.Iov = &v.iovs[i]
		h.SetIovlen(1)
	}
	return v
}

// set points the i-th message to its memory and tells the size of its address.
func (v *vector) set(i int, mem []byte, nameLen uint32) {
	v.iovs[i].Base = unsafe.SliceData(mem)
	v.iovs[i].SetLen(len(mem))
	v.msgs[i].hdr.Namelen = nameLen
}

// recv is recvmmsg(2) of up to n messages. It does not block, so the scheduler
// is not told.
func (v *vector) recv(fd, n int) (int, unix.Errno) { return v.call(unix.SYS_RECVMMSG, fd, n) }

// send is sendmmsg(2) of n messages, in the same way.
func (v *vector) send(fd, n int) (int, unix.Errno) { return v.call(unix.SYS_SENDMMSG, fd, n) }

func (v *vector) call(trap uintptr, fd, n int) (int, unix.Errno) {
	done, _, errno := unix.RawSyscall6(trap, uintptr(fd),
		uintptr(unsafe.Pointer(&v.msgs)), uintptr(n), unix.MSG_DONTWAIT, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(done), 0
}
