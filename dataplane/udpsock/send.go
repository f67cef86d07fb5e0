package udpsock

import (
	"fmt"

	"golang.org/x/sys/unix"

	"flanx/dataplane/packet"
)

// outbox sends. What Send takes passes through held, so that there is one order
// and one way out, whether the socket has room or not.
type outbox struct {
	fam  family
	vec  *vector
	held []packet.Buf  // its capacity is Config.Batch
	head int           // the first of held that is not sent yet
	from *packet.Batch // the batch that brought them
}

func newOutbox(fam family, batch int) outbox {
	return outbox{fam: fam, vec: newVector(), held: make([]packet.Buf, 0, batch)}
}

func (o *outbox) len() int { return len(o.held) - o.head }

func (o *outbox) room() int {
	if o.len() > 0 {
		return 0
	}
	return cap(o.held)
}

// Send takes every packet of b. Those that the socket has no room for are held,
// up to Room as it was before the call; beyond that they are dropped as
// SendFailed. One that exceeds the path's MTU is dropped as TooBig, one that
// the kernel refuses, or whose Peer is of the other family, as SendFailed.
func (p *Port) Send(b *packet.Batch) error {
	o, err := &p.out, p.Flush()
	accept := err == nil && o.len() == 0 // what is held goes first
	for i := range b.Len() {
		if accept && len(o.held) == cap(o.held) {
			err = o.push(p.fd)
			accept = err == nil && o.len() == 0
		}
		switch {
		case !b.Live(i):
		case accept && o.fam.carries(&b.At(i).Peer):
			o.take(b, i)
		default:
			b.Drop(i, packet.SendFailed)
		}
	}
	if accept {
		err = o.push(p.fd)
	}
	b.Reset()
	return err
}

// take moves the i-th packet of b to held.
func (o *outbox) take(b *packet.Batch, i int) {
	buf := *b.At(i)
	b.Take(i)
	o.held, o.from = append(o.held, buf), b
}

// push sends until nothing is held or the socket is full. It returns an error
// only when the socket is broken, and then holds nothing.
func (o *outbox) push(fd int) error {
	for tries := 0; o.len() > 0; {
		n := o.load()
		sent, errno := o.vec.send(fd, n)
		for range sent {
			o.release()
		}
		switch {
		case errno == 0: // fewer than n: the next call says why
			tries = 0
		case errno == unix.EINTR:
		case errno == unix.EAGAIN:
			return nil
		case errno == unix.EBADF || errno == unix.ENOTSOCK:
			o.abandon()
			return fmt.Errorf("send to UDP socket: %w", errno)
		case errno == unix.ECONNREFUSED && tries < patience:
			tries++ // left by ICMP about an earlier packet: this one was not tried
		default:
			o.drop(refusal(errno))
		}
	}
	o.held, o.head = o.held[:0], 0
	return nil
}

// load fills the vector with what is held, in order, and returns how many
// messages that are. With UDP_SEGMENT a run to one peer would be one message.
func (o *outbox) load() (n int) {
	pool := o.from.Pool()
	for n < perCall && o.head+n < len(o.held) {
		buf := &o.held[o.head+n]
		o.vec.set(n, pool.Frame(buf.Frame)[buf.Start:buf.End], o.fam.size)
		o.fam.put(&o.vec.names[n], &buf.Peer, buf.PeerPort)
		n++
	}
	return n
}

// release gives back the frame of the first held packet.
func (o *outbox) release() {
	o.from.Pool().Put(o.held[o.head].Frame)
	o.head++
}

// drop is release for a packet that is lost.
func (o *outbox) drop(reason packet.Reason) {
	o.from.Drops()[reason]++
	o.release()
}

// abandon drops all that is held.
func (o *outbox) abandon() {
	for o.len() > 0 {
		o.drop(packet.SendFailed)
	}
	o.held, o.head = o.held[:0], 0
}

// refusal says why the kernel did not take a packet.
func refusal(errno unix.Errno) packet.Reason {
	if errno == unix.EMSGSIZE {
		return packet.TooBig
	}
	return packet.SendFailed
}
