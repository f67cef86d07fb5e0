package memport

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"flanx/dataplane/packet"
)

// Port is one end of a pair. It satisfies dataplane.Port.
type Port struct {
	in, out *queue
	maxLen  int

	mu     sync.Mutex // guards what follows; taken before a queue's
	faults Faults
	sent   uint64
	closed bool
}

// Pair makes two ports: what one sends the other receives.
func Pair(cfg Config) (a, b *Port, err error) {
	cfg, err = cfg.withDefaults()
	if err != nil {
		return nil, nil, err
	}
	toB, err := newQueue(cfg, cfg.A)
	if err != nil {
		return nil, nil, err
	}
	toA, err := newQueue(cfg, cfg.B)
	if err != nil {
		return nil, nil, errors.Join(err, toB.close())
	}
	a = &Port{in: toA, out: toB, maxLen: cfg.MaxLen}
	b = &Port{in: toB, out: toA, maxLen: cfg.MaxLen}
	return a, b, nil
}

// SetFaults replaces the port's faults and starts their count anew.
func (p *Port) SetFaults(f Faults) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults, p.sent = f, 0
}

// Sent returns how many packets this end has been given to send since the
// faults were last set, refused and lost ones included.
func (p *Port) Sent() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sent
}

// err returns what every call answers with, if anything.
func (p *Port) err() error {
	if p.closed {
		return os.ErrClosed
	}
	return p.faults.Err
}

// Recv appends the packets that are ready to b, up to its room. One longer than
// the frame is dropped in b as Truncated.
func (p *Port) Recv(b *packet.Batch) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.err(); err != nil {
		return err
	}
	q := p.in
	q.mu.Lock()
	defer q.mu.Unlock()
	for n := 0; q.ready > 0 && (p.faults.RecvMax == 0 || n < p.faults.RecvMax); n++ {
		i, space, ok := b.Extend()
		if !ok {
			return nil
		}
		fill(b, i, space, q)
	}
	return nil
}

// fill moves the oldest packet of q into the i-th Buf.
func fill(b *packet.Batch, i int, space []byte, q *queue) {
	pkt := q.pop()
	if len(pkt) > len(space) {
		b.Drop(i, packet.Truncated)
		return
	}
	b.Resize(i, copy(space, pkt))
	buf := b.At(i)
	buf.Peer, buf.PeerPort = q.from, q.fromPort
}

// Send takes every packet of b. One longer than the pair's MaxLen is dropped as
// TooBig, one beyond Room as SendFailed.
func (p *Port) Send(b *packet.Batch) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	err := p.err()
	p.out.mu.Lock()
	defer p.out.mu.Unlock()
	for i := range b.Len() {
		if b.Live(i) {
			p.send(b, i, err != nil || p.faults.Full)
		}
	}
	b.Reset()
	if err == nil && !p.faults.Lazy {
		p.out.publish()
	}
	return err
}

// send takes the i-th packet through the faults into the queue.
func (p *Port) send(b *packet.Batch, i int, refuse bool) {
	p.sent++
	pkt, f := b.Bytes(i), &p.faults
	switch {
	case len(pkt) > p.maxLen:
		b.Drop(i, packet.TooBig)
	case refuse || p.out.room() == 0 || hits(f.Refuse, p.sent):
		b.Drop(i, packet.SendFailed)
	case hits(f.Lose, p.sent):
		b.Release(i)
	default:
		p.push(pkt)
		b.Release(i)
	}
}

// push puts a packet, and what the faults make of it, into the queue.
func (p *Port) push(pkt []byte) {
	f, q := &p.faults, p.out
	if hits(f.Damage, p.sent) && len(pkt) > 0 {
		pkt[len(pkt)-1] ^= 1
	}
	q.push(pkt)
	if hits(f.Repeat, p.sent) && q.room() > 0 {
		q.push(pkt)
	}
	if hits(f.Swap, p.sent) {
		q.swapLast()
	}
}

// Room returns how many packets the other end's queue can take.
func (p *Port) Room() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.faults.Full || p.err() != nil {
		return 0
	}
	p.out.mu.Lock()
	defer p.out.mu.Unlock()
	return p.out.room()
}

// Flush shows the other end what Send left unseen (Faults.Lazy).
func (p *Port) Flush() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.err(); err != nil {
		return err
	}
	p.out.mu.Lock()
	defer p.out.mu.Unlock()
	p.out.publish()
	return nil
}

// FD returns an eventfd that is readable while a packet is ready, or -1 after
// Close. It is always writable, also when Room is zero.
func (p *Port) FD() int {
	p.in.mu.Lock()
	defer p.in.mu.Unlock()
	return p.in.event
}

// Close ends this port's side; the other end may still send, to nobody, and
// receive what was sent before. It may be called more than once.
func (p *Port) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.in.mu.Lock()
	defer p.in.mu.Unlock()
	return p.in.close()
}

// Write sends one packet from this end without a batch and past its faults:
// for the test that plays the far side. It copies pkt.
func (p *Port) Write(pkt []byte) (int, error) {
	p.out.mu.Lock()
	defer p.out.mu.Unlock()
	switch {
	case len(pkt) > p.maxLen:
		return 0, fmt.Errorf("%w: %d bytes, at most %d", ErrTooLong, len(pkt), p.maxLen)
	case p.out.room() == 0:
		return 0, ErrFull
	}
	p.out.push(pkt)
	p.out.publish()
	return len(pkt), nil
}

// Read receives one packet at this end without a batch and past its faults. It
// returns ErrEmpty at once when there is none, and cuts off what does not fit
// in buf.
func (p *Port) Read(buf []byte) (int, error) {
	p.in.mu.Lock()
	defer p.in.mu.Unlock()
	if p.in.ready == 0 {
		return 0, ErrEmpty
	}
	return copy(buf, p.in.pop()), nil
}
