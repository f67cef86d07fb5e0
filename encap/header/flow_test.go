package header_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"

	"flanx/encap/encaptest"
	. "flanx/encap/header"
)

func TestFlowHashKeepsFlowsTogether(t *testing.T) {
	for _, version := range []int{4, 6} {
		for _, protocol := range []uint8{ProtocolTCP, ProtocolUDP, ProtocolSCTP} {
			in := encaptest.Inner{Version: version, Protocol: protocol, Len: 100, SrcPort: 1, DstPort: 2}
			want := FlowHash(in.Build())
			same := in
			same.Len, same.TTL, same.ECN = 1000, 3, ECNCE
			if got := FlowHash(same.Build()); got != want {
				t.Errorf("IPv%d protocol %d: another length, TTL and mark hash to %#x, want %#x", version, protocol, got, want)
			}
		}
	}
}

func TestFlowHashTellsFlowsApart(t *testing.T) {
	base := encaptest.Inner{Version: 4, Protocol: ProtocolTCP, Len: 60, SrcPort: 1, DstPort: 2}
	change := map[string]func(*encaptest.Inner){
		"source port":      func(in *encaptest.Inner) { in.SrcPort = 3 },
		"destination port": func(in *encaptest.Inner) { in.DstPort = 3 },
		"ports swapped":    func(in *encaptest.Inner) { in.SrcPort, in.DstPort = 2, 1 },
		"protocol":         func(in *encaptest.Inner) { in.Protocol = ProtocolUDP },
		"source":           func(in *encaptest.Inner) { in.Src = [16]byte{0xfd, 5, 12: 10, 5, 1, 9} },
		"destination":      func(in *encaptest.Inner) { in.Dst = [16]byte{0xfd, 5, 12: 10, 5, 2, 9} },
		"version":          func(in *encaptest.Inner) { in.Version = 10 - in.Version },
	}
	for _, version := range []int{4, 6} {
		base.Version = version
		for name, f := range change {
			other := base
			f(&other)
			if FlowHash(base.Build()) == FlowHash(other.Build()) {
				t.Errorf("IPv%d: another %s has the same hash", version, name)
			}
		}
	}
}

// TestFlowHashOfOptions holds that ports are found behind IPv4 options.
func TestFlowHashOfOptions(t *testing.T) {
	for _, options := range []int{4, 40} {
		a := encaptest.Inner{Version: 4, Protocol: ProtocolUDP, Len: 100, Options: options, SrcPort: 1}
		b := a
		b.SrcPort = 2
		if FlowHash(a.Build()) == FlowHash(b.Build()) {
			t.Errorf("%d bytes of options hide the ports", options)
		}
		plain := a
		plain.Options = 0
		if FlowHash(a.Build()) != FlowHash(plain.Build()) {
			t.Errorf("%d bytes of options change the flow", options)
		}
	}
}

// TestFlowHashOfFragments holds that the first fragment, which has ports, goes
// the way of the others, which have payload in their place.
func TestFlowHashOfFragments(t *testing.T) {
	in := encaptest.Inner{Version: 4, Protocol: ProtocolUDP, Len: 100, Fragment: IPv4MoreFragments}
	first := in.Build()
	in.Fragment = 185
	last := in.Build()
	copy(last[20:], "other bytes")
	if FlowHash(first) != FlowHash(last) {
		t.Error("fragments of one packet hash differently")
	}
	in.Fragment = IPv4DontFragment
	if FlowHash(in.Build()) == FlowHash(first) {
		t.Error("DF is taken for a fragment")
	}
}

// TestFlowHashWithoutPorts holds what is left when there are none to read.
func TestFlowHashWithoutPorts(t *testing.T) {
	icmp := encaptest.Inner{Version: 4, Protocol: ProtocolICMP, Len: 84}.Build()
	other := bytes.Clone(icmp)
	copy(other[20:], "another message")
	if FlowHash(icmp) != FlowHash(other) {
		t.Error("ICMP messages between two hosts hash differently")
	}
	cut := encaptest.Inner{Version: 4, Protocol: ProtocolUDP, Len: 60}.Build()
	if FlowHash(cut[:20]) != FlowHash(cut[:23]) || FlowHash(cut[:23]) == FlowHash(cut[:24]) {
		t.Error("half a pair of ports is used")
	}
	lying := bytes.Clone(cut)
	lying[0] = 0x41 // a header of 4 bytes
	noPorts := bytes.Clone(lying)
	copy(noPorts[4:8], "xxxx")
	noPorts[6], noPorts[7] = 0, 0
	if FlowHash(lying) != FlowHash(noPorts) {
		t.Error("ports are read inside the header")
	}
}

func TestFlowHashOfNoPacket(t *testing.T) {
	for _, b := range [][]byte{nil, {}, {0x45}, make([]byte, 19), bytes.Repeat([]byte{0x60}, 39), bytes.Repeat([]byte{0x50}, 99)} {
		if got := FlowHash(b); got != 0 {
			t.Errorf("FlowHash of %d bytes = %#x, want 0", len(b), got)
		}
	}
}

// TestFlowHashSpread counts how evenly realistic flows, which differ in few
// bits, fall into as many buckets as a queue choice (by the low bits) and a
// port range (by the high bits) have.
func TestFlowHashSpread(t *testing.T) {
	flows := map[string]func(in *encaptest.Inner, i int){
		"source ports in a row":    func(in *encaptest.Inner, i int) { in.SrcPort = uint16(32768 + i) },
		"every second source port": func(in *encaptest.Inner, i int) { in.SrcPort = uint16(32768 + 2*i) },
		"addresses in a row":       func(in *encaptest.Inner, i int) { binary.BigEndian.PutUint16(in.Dst[14:], uint16(i)) },
		"both addresses":           func(in *encaptest.Inner, i int) { in.Src[15], in.Dst[15] = byte(i), byte(i>>7) },
		"subnets in a row":         func(in *encaptest.Inner, i int) { binary.BigEndian.PutUint16(in.Dst[13:], uint16(i)) },
	}
	const n, buckets = 1 << 14, 64
	for _, version := range []int{4, 6} {
		for name, vary := range flows {
			var low, high [buckets]int
			for i := range n {
				in := encaptest.Inner{
					Version: version, Protocol: ProtocolTCP, SrcPort: 40000, DstPort: 443,
					Src: [16]byte{0xfd, 12: 10, 5, 1, 2}, Dst: [16]byte{0xfd, 12: 10, 5, 2, 3},
				}
				vary(&in, i)
				h := FlowHash(in.Build())
				low[h%buckets]++
				high[uint64(h)*buckets>>32]++
			}
			for which, got := range map[string]*[buckets]int{"low": &low, "high": &high} {
				if x := chiSquare(got[:], n); x > 120 { // 63 degrees of freedom: p < 0.00002
					t.Errorf("IPv%d, %s, %s bits: chi square %.0f", version, name, which, x)
				}
			}
		}
	}
}

func chiSquare(counts []int, n int) (x float64) {
	want := float64(n) / float64(len(counts))
	for _, c := range counts {
		x += math.Pow(float64(c)-want, 2) / want
	}
	return x
}

func FuzzFlowHash(f *testing.F) {
	for _, version := range []int{4, 6} {
		for _, protocol := range []uint8{ProtocolTCP, ProtocolUDP, ProtocolICMP, ProtocolSCTP} {
			f.Add(encaptest.Inner{Version: version, Protocol: protocol, Len: 60}.Build())
		}
	}
	f.Add(encaptest.Inner{Version: 4, Protocol: ProtocolUDP, Options: 40}.Build())
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		before := bytes.Clone(b)
		h := FlowHash(b)
		if h != FlowHash(before) || !bytes.Equal(before, b) {
			t.Fatal("not a function of the bytes")
		}
		if h != FlowHash(append(before, 1, 2, 3, 4, 5, 6, 7, 8)) && len(b) >= 64 {
			t.Fatal("what follows the headers changes the flow")
		}
	})
}

func TestFlowHashAllocs(t *testing.T) {
	p := encaptest.Inner{Version: 6, Protocol: ProtocolTCP}.Build()
	if n := testing.AllocsPerRun(100, func() { hashSink += FlowHash(p) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

var hashSink uint32

func BenchmarkFlowHash(b *testing.B) {
	for name, in := range map[string]encaptest.Inner{
		"ipv4 tcp":  {Version: 4, Protocol: ProtocolTCP},
		"ipv4 icmp": {Version: 4, Protocol: ProtocolICMP},
		"ipv6 tcp":  {Version: 6, Protocol: ProtocolTCP},
	} {
		p := in.Build()
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				hashSink += FlowHash(p)
			}
		})
	}
}
