package encaptest

import (
	"bytes"
	"testing"

	"flanx/dataplane/packet"
	"flanx/encap/header"
)

// Fuzz feeds Pop with arbitrary bytes, seeded with good packets, cut ones, and
// any extra ones given. Whatever comes, Pop does not panic, loses no frame, and
// gives out only bytes that came in.
func (s Suite) Fuzz(f *testing.F, extra ...[]byte) {
	n := s.node(f)
	for _, wire := range append(n.push(s.samples()...), extra...) {
		f.Add(wire)
		f.Add(wire[:len(wire)/2])
		f.Add(append(bytes.Clone(wire), make([]byte, 20)...))
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, wire []byte) {
		if len(wire) > packet.FrameSize4K-packet.Headroom {
			return
		}
		b := s.node(t)
		before := *b.batch.At(b.add(wire))
		s.Recv.Pop(b.batch)
		if b.batch.Live(0) {
			s.checkPopped(t, before, b.batch, wire)
		} else if total(b.batch) != 1 {
			t.Fatalf("one packet, dropped as %v", b.drops())
		}
		b.batch.Clear()
		if free := b.batch.Pool().Free(); free != batchSize {
			t.Fatalf("%d of %d frames came back", free, batchSize)
		}
	})
}

// checkPopped holds that an accepted packet lies inside what was received, and
// is the bytes that were there but for TTL, ECN and checksums.
func (s *Suite) checkPopped(t *testing.T, before packet.Buf, b *packet.Batch, wire []byte) {
	after := b.At(0)
	skipped := int(after.Start) - int(before.Start)
	if skipped < s.Overhead || after.End > before.End || after.Len() == 0 {
		t.Fatalf("window [%d, %d) of [%d, %d), overhead %d", after.Start, after.End, before.Start, before.End, s.Overhead)
	}
	inner := b.Bytes(0)
	if v := header.IPVersion(inner); v != 4 && v != 6 {
		t.Fatalf("IP version %d was accepted", v)
	}
	was := wire[skipped : skipped+len(inner)]
	if inner[0] != was[0] && inner[0]>>4 == 4 {
		t.Fatalf("the version byte changed from %#x to %#x", was[0], inner[0])
	}
	_, _, _ = header.CheckInner(inner)
	header.RepairInnerChecksum(inner)
	_ = header.FlowHash(inner)
}
