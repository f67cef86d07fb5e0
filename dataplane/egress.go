package dataplane

import (
	"encoding/binary"
	"fmt"

	"flanx/dataplane/fib"
	"flanx/dataplane/packet"
	"flanx/encap"
	"flanx/encap/header"
)

// egress carries one batch from the TUN to the underlay and returns how many
// packets it met. It reads no more than the underlay can take; the fallback beside
// a fast one is not waited for, for its few packets would hold up all others.
func (w *Worker) egress(s *fib.Snapshot) (int, error) {
	w.out.Limit(w.primary.Port.Room())
	err := w.cfg.TUN.Recv(w.out)
	n := w.out.Len()
	if err == nil && n == 0 {
		return 0, nil
	}
	w.out.Compact() // the port drops what it could not read whole
	w.slow.Limit(w.cfg.Fallback.Port.Room())
	w.route(w.out, s)
	fastErr := w.transmit(w.cfg.Fast, w.out, s.Fast)
	slowErr := w.transmit(w.cfg.Fallback, w.slow, s.Fallback)
	w.publishEgress(n)
	switch {
	case err != nil:
		return n, fmt.Errorf("%w: %w", ErrTUN, err)
	case fastErr != nil:
		return n, fmt.Errorf("%w: %w", ErrFast, fastErr)
	case slowErr != nil:
		return n, fmt.Errorf("%w: %w", ErrFallback, slowErr)
	}
	return n, nil
}

// route finds the hop of every packet, and moves those whose hop the fast
// underlay cannot reach yet to the fallback, if that one can. Without a fast
// underlay all of them move.
func (w *Worker) route(b *packet.Batch, s *fib.Snapshot) {
	fast := w.cfg.Fast != nil
	for i := range b.Len() {
		ip := b.Bytes(i)
		hop, ok := destination(ip, s)
		if !ok {
			b.Drop(i, packet.NoRoute)
			continue
		}
		buf := b.At(i)
		buf.Hop, buf.Hash = hop, header.FlowHash(ip)
		switch {
		case fast && s.Hops[hop].Ready:
		case s.Fallback[hop].Ready && w.slow.Room() > 0:
			b.Move(i, w.slow)
		default:
			b.Drop(i, packet.Unresolved)
		}
	}
	b.Compact()
}

// destination looks up where an inner packet goes. What is not IP goes nowhere.
func destination(ip []byte, s *fib.Snapshot) (hop uint32, ok bool) {
	switch {
	case len(ip) >= header.IPv4Len && ip[0]>>4 == 4:
		return s.Lookup4(binary.BigEndian.Uint32(ip[16:20]))
	case len(ip) >= header.IPv6Len && ip[0]>>4 == 6:
		return s.Lookup6([16]byte(ip[24:40]))
	}
	return 0, false
}

// transmit wraps what is in b and hands it to the underlay's port.
func (w *Worker) transmit(u *Underlay, b *packet.Batch, paths []encap.Path) error {
	if b.Len() == 0 {
		return nil
	}
	w.sent.Bytes += innerBytes(b)
	u.Codec.Push(b, paths)
	b.Compact()
	return u.Port.Send(b)
}

// innerBytes sums the lengths of the packets in b.
func innerBytes(b *packet.Batch) (n uint64) {
	for i := range b.Len() {
		n += uint64(b.At(i).Len())
	}
	return n
}

// held returns how many packets the fallback's port has taken and not yet sent.
func (w *Worker) held() uint64 {
	if w.holder == nil {
		return 0
	}
	return uint64(w.holder.Held())
}

// publishEgress closes the books of one batch of n packets.
func (w *Worker) publishEgress(n int) {
	t := &w.sent
	t.Received += uint64(n)
	if n > 0 {
		t.Batches++
	}
	out, slow := w.out.Drops(), w.slow.Drops()
	for r := range t.Drops {
		t.Drops[r] = out[r] + slow[r]
	}
	t.Delivered = t.Received - t.Dropped() - w.held()
	w.stats.Egress.Publish(t)
}
