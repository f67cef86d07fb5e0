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
	fam   family
	vec   *vector
	super super
}

func newInbox(fam family, cfg Config) inbox {
	return inbox{fam: fam, vec: newVector(), super: super{inner: cfg.TunnelHeader, maxInner: cfg.MaxInner}}
}

// Recv takes datagrams until the kernel has no more or the batch is full. One
// that is longer than its frame is dropped as Truncated, or, with Config.MaxInner,
// cut from then on.
func (p *Port) Recv(b *packet.Batch) error {
	if p.fd < 0 {
		return errClosed()
	}
	for range patience {
		if p.in.super.on() {
			return p.recvSupers(b)
		}
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

// offer extends b by as many frames as one call can fill.
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
			in.super.start() // the sender will send it again, and more like it
			continue
		}
		if in.super.tooLong(int(msg.n)) {
			in.super.start()
		}
		b.Resize(i, int(msg.n))
		buf := b.At(i)
		buf.PeerPort = in.fam.get(&in.vec.names[k], &buf.Peer)
	}
}

// recvSupers is Recv for as long as datagrams have to be cut. It takes one at a
// time, so that the pieces of one come before the next.
func (p *Port) recvSupers(b *packet.Batch) error {
	in := &p.in
	for range patience {
		if !in.drain(b) {
			return nil
		}
		i, space, ok := b.Extend()
		if !ok {
			return nil
		}
		in.vec.set(0, in.super.data, uint32(len(sockaddr{})))
		got, errno := in.vec.recv(p.fd, 1)
		switch {
		case errno == 0 && got == 1:
			in.take(b, i, space)
		case passing(errno):
			b.Undo()
		case errno == 0, idle(errno):
			b.Undo()
			return nil
		default:
			b.Undo()
			return fmt.Errorf("receive from UDP socket: %w", errno)
		}
	}
	return nil
}

// take puts the datagram in super.data, or the first piece of it, into the frame
// of packet i.
func (in *inbox) take(b *packet.Batch, i int, space []byte) {
	n := int(in.vec.msgs[0].n)
	in.super.left--
	reason := packet.Truncated
	if in.super.tooLong(n) {
		in.super.left = superSpan
		var ok bool
		if reason, ok = in.super.begin(n); ok {
			in.piece(b, i, space)
			return
		}
	}
	if n > len(space) {
		b.Drop(i, reason)
		return
	}
	b.Resize(i, copy(space, in.super.data[:n])) // not for us to judge
	in.from(b, i)
}

// drain puts the rest of a datagram into b, and says whether all of it is there.
func (in *inbox) drain(b *packet.Batch) bool {
	for in.super.pending() {
		i, space, ok := b.Extend()
		if !ok {
			return false
		}
		in.piece(b, i, space)
	}
	return true
}

func (in *inbox) piece(b *packet.Batch, i int, space []byte) {
	n := in.super.next(space)
	if n == 0 {
		in.super.total = 0
		b.Drop(i, packet.Truncated)
		return
	}
	b.Resize(i, n)
	in.from(b, i)
}

// from notes who sent the last datagram.
func (in *inbox) from(b *packet.Batch, i int) {
	buf := b.At(i)
	buf.PeerPort = in.fam.get(&in.vec.names[0], &buf.Peer)
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
