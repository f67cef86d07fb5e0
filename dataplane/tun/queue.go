package tun

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"flanx/dataplane/packet"
)

// room is what Room answers: a TUN without a send limit (TUNSETSNDBUF, by
// default none) takes whatever it is given.
const room = 1 << 16

// queue is the descriptor of one TUN queue, and -1 after Close.
type queue struct{ fd int }

// Room returns a large number: the kernel takes or drops each packet at once.
func (q *queue) Room() int { return room }

// Flush does nothing: Send leaves nothing unfinished.
func (q *queue) Flush() error {
	if q.fd < 0 {
		return errClosed()
	}
	return nil
}

// FD returns the queue's descriptor, or -1 after Close.
func (q *queue) FD() int { return q.fd }

// Close closes the descriptor. It may be called more than once.
func (q *queue) Close() error {
	if q.fd < 0 {
		return nil
	}
	fd := q.fd
	q.fd = -1
	if err := unix.Close(fd); err != nil {
		return fmt.Errorf("close TUN queue: %w", err)
	}
	return nil
}

func errClosed() error { return fmt.Errorf("TUN queue: %w", os.ErrClosed) }

// verdict is what an error number says about a queue.
type verdict uint8

const (
	again   verdict = iota // a signal came: do the same once more
	idle                   // nothing to read now
	refused                // this packet was refused; the next may not be
	gone                   // the device is no more
	broken                 // something that should not happen
)

// judgeRead sorts the errors of tun_chr_read_iter in drivers/net/tun.c. A
// device that is down shows as EAGAIN there; EIO is how the write path says it.
func judgeRead(errno unix.Errno) verdict {
	switch errno {
	case unix.EINTR:
		return again
	case unix.EAGAIN, unix.EIO:
		return idle
	case unix.EBADFD, unix.EBADF, unix.ENODEV:
		return gone
	}
	return broken
}

// judgeWrite sorts the errors of tun_chr_write_iter. EIO is a device that is
// down, EINVAL a packet that is no IP, EAGAIN, ENOBUFS and ENOMEM a lack of
// memory: all of them cost this packet and no other.
func judgeWrite(errno unix.Errno) verdict {
	switch errno {
	case unix.EINTR:
		return again
	case unix.EBADFD, unix.EBADF, unix.ENODEV:
		return gone
	}
	return refused
}

// failed words the error for a queue that is gone or broken.
func failed(what string, v verdict, errno unix.Errno) error {
	if v == gone {
		return fmt.Errorf("%s TUN queue: %w: %w", what, packet.ErrPortGone, errno)
	}
	return fmt.Errorf("%s TUN queue: %w", what, errno)
}
