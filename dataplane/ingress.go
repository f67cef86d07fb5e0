package dataplane

import (
	"encoding/binary"
	"fmt"

	"flanx/dataplane/fib"
	"flanx/dataplane/packet"
	"flanx/encap/header"
)

// ingress carries one batch from an underlay to the TUN and returns how many
// packets it met. failed is the error that names this underlay.
func (w *Worker) ingress(u *Underlay, failed error, s *fib.Snapshot) (int, error) {
	if u == nil {
		return 0, nil
	}
	w.in.Limit(w.cfg.TUN.Room())
	err := u.Port.Recv(w.in)
	n := w.in.Len()
	if err == nil && n == 0 {
		return 0, nil
	}
	w.in.Compact() // the port drops what it could not read whole
	u.Codec.Pop(w.in)
	w.in.Compact()
	w.verify(w.in, s)
	w.received.Bytes += innerBytes(w.in)
	tunErr := w.cfg.TUN.Send(w.in)
	w.publishIngress(n)
	switch {
	case err != nil:
		return n, fmt.Errorf("%w: %w", failed, err)
	case tunErr != nil:
		return n, fmt.Errorf("%w: %w", ErrTUN, tunErr)
	}
	return n, nil
}

// verify lets in only sound inner packets from a member, for us. Both underlays
// pass through it, so that the verdict does not depend on the way in.
func (w *Worker) verify(b *packet.Batch, s *fib.Snapshot) {
	for i := range b.Len() {
		n, reason, ok := header.CheckInner(b.Bytes(i))
		if !ok {
			b.Drop(i, reason)
			continue
		}
		b.Trim(i, n) // what follows the inner packet is padding
		ip := b.Bytes(i)
		if reason, ok := w.admit(ip, &b.At(i).Peer, s); !ok {
			b.Drop(i, reason)
			continue
		}
		header.RepairInnerChecksum(ip)
	}
	b.Compact()
}

// admit judges where an inner packet comes from and goes to.
func (w *Worker) admit(ip []byte, peer *[16]byte, s *fib.Snapshot) (packet.Reason, bool) {
	if !w.cfg.AcceptAnySource {
		hop, ok := source(ip, s)
		if !ok || s.Hops[hop].Peer != *peer {
			return blame(peer, s), false
		}
	}
	if !ours(ip, s) {
		return packet.NotOurs, false
	}
	return 0, true
}

// blame tells a stranger from a member that claims an address not its own.
func blame(peer *[16]byte, s *fib.Snapshot) packet.Reason {
	if s.IsPeer(peer) {
		return packet.SpoofedSource
	}
	return packet.UnknownPeer
}

// source looks up whose subnet an inner packet's source lies in.
func source(ip []byte, s *fib.Snapshot) (hop uint32, ok bool) {
	if ip[0]>>4 == 4 {
		return s.Lookup4(binary.BigEndian.Uint32(ip[12:16]))
	}
	return s.Lookup6([16]byte(ip[8:24]))
}

// ours says whether an inner packet's destination lies in our subnet.
func ours(ip []byte, s *fib.Snapshot) bool {
	if ip[0]>>4 == 4 {
		return s.Own4(binary.BigEndian.Uint32(ip[16:20]))
	}
	return s.Own6([16]byte(ip[24:40]))
}

// publishIngress closes the books of one batch of n packets.
func (w *Worker) publishIngress(n int) {
	t := &w.received
	t.Received += uint64(n)
	t.Batches++
	t.Drops = *w.in.Drops()
	t.Delivered = t.Received - t.Dropped()
	w.stats.Ingress.Publish(t)
}
