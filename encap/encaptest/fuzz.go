package encaptest

import (
	"bytes"
	"testing"

	"flanx/dataplane/packet"
	"flanx/encap"
	"flanx/encap/header"
)

// Fuzz feeds Pop with arbitrary bytes, seeded with good packets, cut ones, and
// any extra ones given. Whatever comes, Pop does not panic, loses no frame, and
// gives out only bytes that came in. Half of the inputs get their outer
// checksums mended first, or nearly all would end there.
func (s Suite) Fuzz(f *testing.F, extra ...[]byte) {
	n := s.node(f)
	for _, wire := range append(n.push(s.samples()...), extra...) {
		for _, mended := range []bool{false, true} {
			f.Add(wire, mended)
			f.Add(wire[:len(wire)/2], mended)
			f.Add(append(bytes.Clone(wire), make([]byte, 20)...), mended)
		}
	}
	f.Add([]byte{}, false)
	f.Fuzz(func(t *testing.T, wire []byte, mended bool) {
		if len(wire) > packet.FrameSize4K-packet.Headroom {
			return
		}
		if mended && s.Layer == encap.Ethernet {
			wire = mend(wire)
		}
		lost := total(n.batch)
		before := *n.batch.At(n.add(wire))
		s.Recv.Pop(n.batch)
		if n.batch.Live(0) {
			s.checkPopped(t, before, n.batch, wire)
		} else if total(n.batch) != lost+1 {
			t.Fatalf("one packet was dropped, %d were counted", total(n.batch)-lost)
		}
		n.batch.Clear()
		if free := n.batch.Pool().Free(); free != batchSize {
			t.Fatalf("%d of %d frames came back", free, batchSize)
		}
	})
}

// mend returns the frame with its outer IPv4 checksum right and no UDP
// checksum, if it is IPv4 at all.
func mend(wire []byte) []byte {
	wire = bytes.Clone(wire)
	if len(wire) < header.EthernetLen+header.IPv4Len || header.Ethernet(wire).EtherType() != header.EtherTypeIPv4 {
		return wire
	}
	h := header.IPv4(wire[header.EthernetLen:])
	n := h.HeaderLen()
	if n < header.IPv4Len || n+header.UDPLen > len(h) {
		return wire
	}
	h.SetChecksum(0)
	h.SetChecksum(^header.Sum(h[:n], 0))
	header.UDP(h[n:]).SetChecksum(0)
	return wire
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
