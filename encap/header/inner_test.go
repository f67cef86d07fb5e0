package header_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"flanx/dataplane/packet"
	"flanx/encap/encaptest"
	. "flanx/encap/header"
)

func TestCheckInnerAccepts(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, version := range []int{4, 6} {
		least := encaptest.Inner{Version: version}.HeaderLen()
		for length := least; length < 300; length++ {
			p := encaptest.RandomInner(rng, version, length)
			for _, padding := range []int{0, 1, 26} {
				n, reason, ok := CheckInner(append(bytes.Clone(p), make([]byte, padding)...))
				if !ok || n != len(p) {
					t.Fatalf("IPv%d of %d bytes and %d more: %d, %v, %v", version, len(p), padding, n, reason, ok)
				}
			}
		}
	}
}

func TestCheckInnerRefuses(t *testing.T) {
	v4 := func(bend func(h IPv4)) []byte {
		p := encaptest.Inner{Version: 4, Protocol: ProtocolUDP, Len: 60}.Build()
		bend(p)
		return p
	}
	v6 := func(bend func(h IPv6)) []byte {
		p := encaptest.Inner{Version: 6, Protocol: ProtocolUDP, Len: 80}.Build()
		bend(p)
		return p
	}
	withSum := func(bend func(h IPv4)) []byte {
		return v4(func(h IPv4) {
			bend(h)
			h.SetChecksum(0)
			h.SetChecksum(^Sum(h[:IPv4Len], 0))
		})
	}
	cases := map[string]struct {
		b      []byte
		reason packet.Reason
	}{
		"nothing":                      {nil, packet.Short},
		"half an IPv4 header":          {v4(func(IPv4) {})[:19], packet.Short},
		"half an IPv6 header":          {v6(func(IPv6) {})[:39], packet.Short},
		"version 0":                    {make([]byte, 60), packet.BadInner},
		"version 5":                    {bytes.Repeat([]byte{0x55}, 60), packet.BadInner},
		"IHL 4":                        {withSum(func(h IPv4) { h[0] = 0x44 }), packet.BadInner},
		"IHL 0":                        {withSum(func(h IPv4) { h[0] = 0x40 }), packet.BadInner},
		"IHL beyond the total length":  {withSum(func(h IPv4) { h[0] = 0x4f; h.SetTotalLength(59) }), packet.BadInner},
		"total length 0":               {withSum(func(h IPv4) { h.SetTotalLength(0) }), packet.BadInner},
		"total length below a header":  {withSum(func(h IPv4) { h.SetTotalLength(19) }), packet.BadInner},
		"total length beyond the end":  {withSum(func(h IPv4) { h.SetTotalLength(61) }), packet.Short},
		"total length far beyond":      {withSum(func(h IPv4) { h.SetTotalLength(65535) }), packet.Short},
		"a wrong header checksum":      {v4(func(h IPv4) { h[8]-- }), packet.BadChecksum},
		"a header checksum of zero":    {v4(func(h IPv4) { h.SetChecksum(0) }), packet.BadChecksum},
		"options damaged":              {damagedOptions(), packet.BadChecksum},
		"payload length beyond":        {v6(func(h IPv6) { h.SetPayloadLength(41) }), packet.Short},
		"payload length far beyond":    {v6(func(h IPv6) { h.SetPayloadLength(65535) }), packet.Short},
		"a jumbogram":                  {v6(func(h IPv6) { h.SetPayloadLength(0); h[6] = NextHopByHop }), packet.BadInner},
		"cut inside the IPv4 options":  {encaptest.Inner{Version: 4, Options: 40}.Build()[:40], packet.Short},
		"cut inside the IPv4 payload":  {v4(func(IPv4) {})[:59], packet.Short},
		"cut inside the IPv6 payload":  {v6(func(IPv6) {})[:79], packet.Short},
		"IPv6 cut behind its header":   {v6(func(IPv6) {})[:40], packet.Short},
		"IPv4 bytes, IPv6 version":     {v4(func(h IPv4) { h[0] = 0x65 }), packet.Short},
		"a VXLAN header":               {[]byte{8, 0, 0, 0, 0, 0, 1, 0}, packet.BadInner},
		"an Ethernet frame of ours":    {encaptest.Outer{}.Wrap(nil), packet.BadInner},
		"an ARP request":               {[]byte{0, 1, 8, 0, 6, 4, 0, 1}, packet.BadInner},
		"IPv4 with no header checksum": {v4(func(h IPv4) { h.SetChecksum(^h.Checksum()) }), packet.BadChecksum},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if n, reason, ok := CheckInner(c.b); ok || reason != c.reason || n != 0 {
				t.Errorf("%d, %s, %v; want %s", n, reason, ok, c.reason)
			}
		})
	}
}

func damagedOptions() []byte {
	p := encaptest.Inner{Version: 4, Options: 8, Len: 60}.Build()
	p[27] ^= 1
	return p
}

// TestCheckInnerPasses lists what is none of its business.
func TestCheckInnerPasses(t *testing.T) {
	hopLimit0 := encaptest.Inner{Version: 6, Len: 60}.Build()
	hopLimit0[7] = 0
	noNext := encaptest.Inner{Version: 6, Protocol: NextNone}.Build()
	chain := encaptest.Inner{Version: 6, Protocol: NextHopByHop, Len: 200}.Build()
	for i := 40; i < 200; i += 8 {
		chain[i], chain[i+1] = NextDstOpts, 0
	}
	for name, p := range map[string][]byte{
		"a fragment":               encaptest.Inner{Version: 4, Fragment: IPv4MoreFragments | 3, Len: 60}.Build(),
		"hop limit 0":              hopLimit0,
		"an IPv6 header alone":     noNext,
		"a chain of extensions":    chain,
		"ESP":                      encaptest.Inner{Version: 4, Protocol: 50, Len: 60}.Build(),
		"an IPv4 header alone":     encaptest.Inner{Version: 4, Len: 20}.Build(),
		"all of the IPv4 options":  encaptest.Inner{Version: 4, Options: 40}.Build(),
		"the longest packet there": encaptest.Inner{Version: 4, Len: 65535}.Build(),
	} {
		if n, reason, ok := CheckInner(p); !ok || n != len(p) {
			t.Errorf("%s: %d, %s, %v", name, n, reason, ok)
		}
	}
}

// FuzzCheckInner holds that an accepted packet is one that a plain reading of
// the RFCs accepts, and the other way round.
func FuzzCheckInner(f *testing.F) {
	rng := rand.New(rand.NewPCG(2, 2))
	for range 10 {
		f.Add(encaptest.RandomInner(rng, 4, 20+rng.IntN(80)))
		f.Add(encaptest.RandomInner(rng, 6, 40+rng.IntN(80)))
	}
	f.Add([]byte{})
	f.Add(damagedOptions())
	f.Fuzz(func(t *testing.T, b []byte) {
		before := bytes.Clone(b)
		n, reason, ok := CheckInner(b)
		if !bytes.Equal(b, before) {
			t.Fatal("the packet was changed")
		}
		if want := plainCheck(b); ok != (want > 0) || n != want {
			t.Fatalf("%x: %d, %s, %v; want length %d", b, n, reason, ok, want)
		}
	})
}

// plainCheck returns the length of a sound packet, 0 for an unsound one.
func plainCheck(b []byte) int {
	switch {
	case len(b) >= 20 && b[0] >= 0x45 && b[0] <= 0x4f:
		ihl, total := int(b[0]-0x40)*4, int(b[2])<<8+int(b[3])
		if total < ihl || total > len(b) {
			return 0
		}
		sum := 0
		for i := 0; i < ihl; i += 2 {
			sum += int(b[i])<<8 + int(b[i+1])
		}
		if sum == 0 || sum%0xffff != 0 {
			return 0
		}
		return total
	case len(b) >= 40 && b[0]>>4 == 6:
		payload := int(b[4])<<8 + int(b[5])
		if payload == 0 && b[6] == 0 || 40+payload > len(b) {
			return 0
		}
		return 40 + payload
	}
	return 0
}

func BenchmarkCheckInner(b *testing.B) {
	for name, in := range map[string]encaptest.Inner{"ipv4": {Version: 4, Len: 64}, "ipv6": {Version: 6, Len: 64}} {
		p := in.Build()
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				n, _, _ := CheckInner(p)
				hashSink += uint32(n)
			}
		})
	}
}
