package encaptest

import (
	"fmt"
	"testing"

	"flanx/dataplane/packet"
	"flanx/encap"
	"flanx/encap/header"
)

// Suite names a pair of codecs to test.
type Suite struct {
	Send, Recv encap.Codec // the two nodes' codecs, of the same layer
	Layer      encap.Layer
	Way        encap.Peer // how the sender reaches the receiver
	Versions   []int      // the inner IP versions that are carried
	Hops       int        // how much Push and Pop together take from the inner TTL
	Overhead   int        // bytes that Push adds on this way
	MTU        int        // longest inner packet to try, bytes
	NoChecksum bool       // Push makes no UDP checksum, so damage goes unseen

	// Golden is the path of the file with the bytes that Push makes; with
	// Update it is written, not compared.
	Golden string
	Update bool
}

// Run runs every test of the suite.
func (s Suite) Run(t *testing.T) {
	t.Run("round trip", s.roundTrip)
	t.Run("foreign decoder", s.foreign)
	t.Run("golden", s.golden)
	t.Run("truncation", s.truncation)
	t.Run("bit flips", s.bitFlips)
	t.Run("order", s.order)
	t.Run("not ready", s.notReady)
	t.Run("allocations", s.allocations)
	t.Run("several workers", s.workers)
}

// node is one end: a codec with frames of its own.
type node struct {
	tb    testing.TB
	suite *Suite
	batch *packet.Batch
	paths []encap.Path
}

// batchSize is how many packets the suite handles at once.
const batchSize = 64

func (s *Suite) node(tb testing.TB) *node {
	tb.Helper()
	pool, err := packet.NewPool(batchSize, packet.FrameSize4K)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := pool.Close(); err != nil {
			tb.Error(err)
		}
	})
	path, err := s.Send.Compile(s.Way)
	if err != nil {
		tb.Fatal(err)
	}
	return &node{tb: tb, suite: s, batch: packet.NewBatch(pool, batchSize), paths: []encap.Path{path}}
}

// add appends a packet as a port would have received it.
func (n *node) add(data []byte) int {
	i, space, ok := n.batch.Extend()
	if !ok || len(data) > len(space) {
		n.tb.Fatalf("no room for %d bytes", len(data))
	}
	n.batch.Resize(i, copy(space, data))
	buf := n.batch.At(i)
	if n.suite.Layer == encap.Datagram {
		buf.Peer = n.suite.Way.Local.As16()
	}
	return i
}

// push wraps packets and returns what goes on the wire. A packet that Push
// drops fails the test.
func (n *node) push(inner ...[]byte) [][]byte {
	n.tb.Helper()
	for _, p := range inner {
		n.batch.At(n.add(p)).Hash = header.FlowHash(p)
	}
	n.suite.Send.Push(n.batch, n.paths)
	var out [][]byte
	for i := range n.batch.Len() {
		if !n.batch.Live(i) {
			n.tb.Fatalf("Push dropped packet %d: %v", i, n.drops())
		}
		out = append(out, append([]byte(nil), n.batch.Bytes(i)...))
	}
	n.batch.Clear()
	return out
}

// pop unwraps frames. A dropped one is nil in the answer.
func (n *node) pop(wire ...[]byte) [][]byte {
	for _, p := range wire {
		n.add(p)
	}
	n.suite.Recv.Pop(n.batch)
	out := make([][]byte, n.batch.Len())
	for i := range out {
		if n.batch.Live(i) {
			out[i] = append([]byte(nil), n.batch.Bytes(i)...)
		}
	}
	n.batch.Clear()
	if free := n.batch.Pool().Free(); free != batchSize {
		n.tb.Fatalf("%d of %d frames came back", free, batchSize)
	}
	return out
}

// drops names the reasons counted so far.
func (n *node) drops() []string {
	var out []string
	for r, count := range n.batch.Drops() {
		if count > 0 {
			out = append(out, fmt.Sprintf("%s %d", packet.Reason(r), count))
		}
	}
	return out
}

// samples returns one packet of each kind, for each version.
func (s *Suite) samples() [][]byte {
	var out [][]byte
	for _, v := range s.Versions {
		icmp := uint8(header.ProtocolICMP)
		if v == 6 {
			icmp = header.ProtocolICMPv6
		}
		for _, in := range []Inner{
			{Protocol: icmp, Len: 84},
			{Protocol: header.ProtocolUDP, Len: 64},
			{Protocol: header.ProtocolTCP, Len: 60},
			{Protocol: header.ProtocolTCP, Len: 97, ECN: header.ECNECT0},
			{Protocol: protocolESP, Len: 65},
		} {
			in.Version = v
			out = append(out, in.Build())
		}
	}
	return out
}
