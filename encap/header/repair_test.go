package header_test

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"flanx/encap/encaptest"
	. "flanx/encap/header"
)

// checksumAt returns where a TCP or UDP packet has its checksum field.
func checksumAt(p []byte) int {
	at, protocol := IPv4(p).HeaderLen(), p[9]
	if IPVersion(p) == 6 {
		at, protocol = IPv6Len, p[6]
	}
	if protocol == ProtocolTCP {
		return at + 16
	}
	return at + 6
}

// pseudoOf is the folded sum of a packet's pseudo-header, made by hand.
func pseudoOf(p []byte) uint16 {
	var pseudo []byte
	var segment int
	var protocol uint8
	if IPVersion(p) == 6 {
		pseudo, segment, protocol = bytes.Clone(p[8:40]), len(p)-IPv6Len, p[6]
	} else {
		pseudo, segment, protocol = bytes.Clone(p[12:20]), len(p)-IPv4(p).HeaderLen(), p[9]
	}
	pseudo = binary.BigEndian.AppendUint32(pseudo, uint32(segment))
	pseudo = binary.BigEndian.AppendUint32(pseudo, uint32(protocol))
	return Sum(pseudo, 0)
}

// partial returns the packet as a kernel leaves it to hardware.
func partial(p []byte) []byte {
	p = bytes.Clone(p)
	binary.BigEndian.PutUint16(p[checksumAt(p):], pseudoOf(p))
	return p
}

func TestRepairFillsIn(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, version := range []int{4, 6} {
		for _, protocol := range []uint8{ProtocolTCP, ProtocolUDP} {
			for _, options := range []int{0, 12, 40} {
				for length := 40; length < 1500; length += 1 + rng.IntN(50) {
					if version == 6 && options > 0 {
						continue
					}
					in := encaptest.Inner{Version: version, Protocol: protocol, Options: options, Len: length, Rand: rng}
					want := in.Build()
					got := partial(want)
					if !RepairInnerChecksum(got) || !bytes.Equal(got, want) {
						t.Fatalf("%+v\n got %x\nwant %x", in, got, want)
					}
				}
			}
		}
	}
}

// TestRepairIgnoresWhatFollows holds that padding is not summed.
func TestRepairIgnoresWhatFollows(t *testing.T) {
	for _, version := range []int{4, 6} {
		want := encaptest.Inner{Version: version, Protocol: ProtocolTCP, Len: 61}.Build()
		got := append(partial(want), "padding"...)
		if !RepairInnerChecksum(got) || !bytes.Equal(got[:len(want)], want) {
			t.Errorf("IPv%d: got %x, want %x", version, got, want)
		}
	}
}

func TestRepairLeavesAlone(t *testing.T) {
	udp := encaptest.Inner{Version: 4, Protocol: ProtocolUDP, Len: 60}
	bend := func(p []byte, f func(p []byte)) []byte { f(p); return p }
	fragment := udp
	fragment.Fragment = IPv4MoreFragments
	last := udp
	last.Fragment = 7
	cases := map[string][]byte{
		"nothing":                      {},
		"a right checksum":             udp.Build(),
		"a damaged payload":            bend(udp.Build(), func(p []byte) { p[59]++ }),
		"no checksum":                  bend(udp.Build(), func(p []byte) { p[26], p[27] = 0, 0 }),
		"nearly the pseudo-header's":   bend(partial(udp.Build()), func(p []byte) { p[27]++ }),
		"the pseudo-header's inverted": bend(partial(udp.Build()), func(p []byte) { p[26], p[27] = ^p[26], ^p[27] }),
		"a first fragment":             bend(fragment.Build(), func(p []byte) { copy(p[20:], partial(udp.Build())[20:]) }),
		"a last fragment":              bend(last.Build(), func(p []byte) { copy(p[20:], partial(udp.Build())[20:]) }),
		"another protocol":             bend(partial(udp.Build()), func(p []byte) { p[9] = ProtocolSCTP }),
		"UDP length below the packet's": bend(partial(udp.Build()), func(p []byte) {
			UDP(p[20:]).SetLength(39)
		}),
		"cut in the IP header":   partial(udp.Build())[:19],
		"cut in the payload":     partial(udp.Build())[:59],
		"a header length of 4":   bend(partial(udp.Build()), func(p []byte) { p[0] = 0x41 }),
		"a total length of 10":   bend(partial(udp.Build()), func(p []byte) { IPv4(p).SetTotalLength(10) }),
		"IPv6 extension headers": encaptest.Inner{Version: 6, Protocol: NextDstOpts, Len: 100}.Build(),
		"IPv6 cut":               partial(encaptest.Inner{Version: 6, Protocol: ProtocolTCP, Len: 100}.Build())[:99],
		"half an IPv6 header":    partial(encaptest.Inner{Version: 6, Protocol: ProtocolTCP, Len: 100}.Build())[:39],
		"no IP":                  bytes.Repeat([]byte{0x11}, 60),
	}
	for name, p := range cases {
		t.Run(name, func(t *testing.T) {
			before := bytes.Clone(p)
			if RepairInnerChecksum(p) || !bytes.Equal(p, before) {
				t.Errorf("changed\n from %x\n   to %x", before, p)
			}
		})
	}
}

// TestRepairOfShortSegments holds that a header that is not there is not read.
func TestRepairOfShortSegments(t *testing.T) {
	for _, protocol := range []uint8{ProtocolTCP, ProtocolUDP} {
		for n := range 20 {
			p := make([]byte, IPv4Len+n)
			IPv4(p).Encode(IPv4Fields{TotalLength: uint16(len(p)), TTL: 1, Protocol: protocol})
			if protocol == ProtocolUDP && n >= UDPLen {
				continue
			}
			if RepairInnerChecksum(p) {
				t.Errorf("protocol %d with %d bytes was changed", protocol, n)
			}
		}
	}
}

// TestRepairBlessesByChance makes right packets whose checksum happens to be
// the pseudo-header's sum: they come out verifying as they went in.
func TestRepairBlessesByChance(t *testing.T) {
	for _, version := range []int{4, 6} {
		for _, protocol := range []uint8{ProtocolTCP, ProtocolUDP} {
			p := partial(encaptest.Inner{Version: version, Protocol: protocol, Len: 100}.Build())
			// Choose the last word so that the packet verifies as it is.
			binary.BigEndian.PutUint16(p[98:], 0)
			segment := p[IPv4Len:]
			if version == 6 {
				segment = p[IPv6Len:]
			}
			binary.BigEndian.PutUint16(p[98:], ^Sum(segment, pseudoOf(p)))
			if !Valid(segment, pseudoOf(p)) {
				t.Fatal("the test made a wrong packet")
			}
			before := bytes.Clone(p)
			RepairInnerChecksum(p)
			if !Valid(segment, pseudoOf(p)) || !bytes.Equal(p, before) {
				t.Errorf("IPv%d protocol %d: changed\n from %x\n   to %x", version, protocol, before, p)
			}
		}
	}
}

// FuzzRepair holds that a changed packet is one whose checksum then verifies,
// and that nothing but the field changed.
func FuzzRepair(f *testing.F) {
	for _, version := range []int{4, 6} {
		for _, protocol := range []uint8{ProtocolTCP, ProtocolUDP, ProtocolICMP} {
			p := encaptest.Inner{Version: version, Protocol: protocol, Len: 61}.Build()
			f.Add(p)
			if protocol != ProtocolICMP {
				f.Add(partial(p))
				f.Add(append(partial(p), 1, 2, 3))
			}
		}
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		before := bytes.Clone(p)
		if !RepairInnerChecksum(p) {
			if !bytes.Equal(p, before) {
				t.Fatal("changed, and said no")
			}
			return
		}
		total := IPv6Len + IPv6(p).PayloadLength()
		if IPVersion(p) == 4 {
			total = IPv4(p).TotalLength()
		}
		if got := binary.BigEndian.Uint16(before[checksumAt(p):]); got != pseudoOf(p[:total]) {
			t.Fatalf("changed a field of %#x, pseudo-header %#x", got, pseudoOf(p[:total]))
		}
		at := checksumAt(p)
		segment := p[IPv6Len:total]
		if IPVersion(p) == 4 {
			segment = p[IPv4(p).HeaderLen():total]
		}
		if !Valid(segment, pseudoOf(p[:total])) {
			t.Fatalf("the checksum is wrong now: %x", p)
		}
		copy(p[at:], before[at:at+2])
		if !bytes.Equal(p, before) {
			t.Fatal("more than the field changed")
		}
	})
}

func TestRepairAllocs(t *testing.T) {
	p := partial(encaptest.Inner{Version: 4, Protocol: ProtocolTCP, Len: 1400}.Build())
	at := checksumAt(p)
	field := binary.BigEndian.Uint16(p[at:])
	if n := testing.AllocsPerRun(100, func() {
		binary.BigEndian.PutUint16(p[at:], field)
		RepairInnerChecksum(p)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkRepairInnerChecksum(b *testing.B) {
	for _, size := range []int{64, 1400} {
		whole := encaptest.Inner{Version: 4, Protocol: ProtocolTCP, Len: size}.Build()
		unfilled := partial(whole)
		field := binary.BigEndian.Uint16(unfilled[36:])
		name := map[int]string{64: "64", 1400: "1400"}[size]
		b.Run("right/"+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				RepairInnerChecksum(whole)
			}
		})
		b.Run("partial/"+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				binary.BigEndian.PutUint16(unfilled[36:], field)
				RepairInnerChecksum(unfilled)
			}
		})
	}
}
