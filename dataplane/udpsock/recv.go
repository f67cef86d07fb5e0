package udpsock

import (
	"fmt"

	"golang.org/x/sys/unix"

	"flanx/dataplane/packet"
)

// patience bounds how many calls one Recv makes, and how many errors in a row that
// are about earlier packets one Send takes away.
const patience = 64

// inbox receives.
type inbox struct {
	fam family
	vec *vector
}

func newInbox(fam family) inbox { return inbox{fam: fam, vec: newVector()} }

// Recv takes datagrams until the kernel has no more or the batch is full. One
// that is longer than its frame is dropped as Truncated.
func (p *Port) Recv(b *packet.Batch) error {
	if p.fd < 0 {
		return errClosed()
	}
	for range patience {
		first := b.Len()
		offered := p.in.offer(b)
		if offered == 0 {
			return nil
		}
		got, errno := p.in.vec.recv(p.fd, offered)
		p.in.collect(b, first, got)
		for range offered - got {
			b.Undo()
		}
		switch {
		case errno == 0 && got == perCall, passing(errno):
		case errno == 0, idle(errno):
			return nil
		default:
			return fmt.Errorf("receive from UDP socket: %w", errno)
		}
	}
	return nil
}

// offer extends b by as many frames as one call can fill. With UDP_GRO a
// message would be a run of datagrams, in one frame of 64 KiB or in several.
func (in *inbox) offer(b *packet.Batch) (n int) {
	for n < perCall {
		_, space, ok := b.Extend()
		if !ok {
			break
		}
		in.vec.set(n, space, uint32(len(sockaddr{})))
		n++
	}
	return n
}

// collect sets length and peer of the packets that were received into b from
// index first on.
func (in *inbox) collect(b *packet.Batch, first, n int) {
	for k := range n {
		msg, i := &in.vec.msgs[k], first+k
		if msg.hdr.Flags&unix.MSG_TRUNC != 0 {
			b.Drop(i, packet.Truncated)
			continue
		}
		b.Resize(i, int(msg.n))
		buf := b.At(i)
		buf.PeerPort = in.fam.get(&in.vec.names[k], &buf.Peer)
	}
}

// idle says whether there is nothing to receive now, or no memory for it.
func idle(errno unix.Errno) bool {
	return errno == unix.EAGAIN || errno == unix.ENOMEM || errno == unix.ENOBUFS
}

// passing says whether the next call may do better at once: a signal came, or
// the kernel had kept an error for us that an ICMP message brought (ip(7)).
func passing(errno unix.Errno) bool {
	switch errno {
	case unix.EINTR, unix.ECONNREFUSED, unix.EHOSTUNREACH, unix.ENETUNREACH, unix.EHOSTDOWN, unix.ENONET,
		unix.EPROTO, unix.ENOPROTOOPT, unix.EMSGSIZE, unix.EOPNOTSUPP, unix.EACCES:
		return true
	}
	return false
}
