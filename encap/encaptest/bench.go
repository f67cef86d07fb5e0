package encaptest

import (
	"fmt"
	"testing"

	"flanx/dataplane/packet"
	"flanx/encap/header"
)

// Bench measures Push and Pop on full batches, in ns per packet. What the
// harness itself costs, putting the windows and the changed inner bytes back,
// is measured apart as "harness" and is part of the other two.
func (s Suite) Bench(b *testing.B) {
	for _, size := range []int{64, 1400} {
		inner := Inner{Version: s.Versions[0], Protocol: header.ProtocolUDP, Len: size}.Build()
		b.Run(fmt.Sprintf("harness/%d", size), func(b *testing.B) {
			s.bench(b, inner, func(*packet.Batch) {})
		})
		b.Run(fmt.Sprintf("push/%d", size), func(b *testing.B) {
			n := s.node(b)
			s.bench(b, inner, func(batch *packet.Batch) { s.Send.Push(batch, n.paths) })
		})
		b.Run(fmt.Sprintf("pop/%d", size), func(b *testing.B) {
			s.bench(b, s.node(b).push(inner)[0], s.Recv.Pop)
		})
	}
}

// touched is how many bytes at the inner packet's front Push and Pop may
// change: an IPv4 header up to its checksum.
const touched = 12

func (s *Suite) bench(b *testing.B, data []byte, f func(*packet.Batch)) {
	n := s.node(b)
	for i := range batchSize {
		n.batch.At(n.add(data)).Hash = uint32(i) << 24
	}
	before := *n.batch.At(0)
	innerAt := len(data) - s.innerLen(data)
	saved := [touched]byte(data[innerAt : innerAt+touched])
	at := int(before.Start) + innerAt
	b.ReportAllocs()
	for b.Loop() {
		f(n.batch)
		for i := range batchSize {
			buf := n.batch.At(i)
			buf.Start, buf.End = before.Start, before.End
			*(*[touched]byte)(n.batch.Pool().Frame(buf.Frame)[at:]) = saved
		}
	}
	b.StopTimer()
	if d := total(n.batch); d != 0 {
		b.Fatalf("drops: %v", n.drops())
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/batchSize, "ns/packet")
	n.batch.Clear()
}

// innerLen tells an inner packet from a wrapped one by its first byte, and
// returns the length of the inner one.
func (s *Suite) innerLen(data []byte) int {
	if _, _, ok := header.CheckInner(data); ok {
		return len(data)
	}
	return len(data) - s.Overhead
}
