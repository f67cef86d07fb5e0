package header_test

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"testing"

	"flanx/dataplane/packet"
	"flanx/encap/encaptest"
	. "flanx/encap/header"
)

const port = 8285

var tunnel = Tunnel{Port: port, Verify: true}

// wrap returns a sound frame.
func wrap(ipv6 bool, payload []byte) []byte {
	return encaptest.Outer{IPv6: ipv6, SrcPort: 40000, DstPort: port}.Wrap(payload)
}

// resum makes an IPv4 header's checksum right again.
func resum(h IPv4) {
	h.SetChecksum(0)
	h.SetChecksum(^Sum(h[:h.HeaderLen()], 0))
}

func TestParse(t *testing.T) {
	payload := []byte("the inner packet")
	for ipv6, src := range map[bool]string{false: "10.99.0.1", true: "fd00:99::1"} {
		for _, padding := range []int{0, 1, 18} {
			wire := append(wrap(ipv6, payload), make([]byte, padding)...)
			var o Outer
			if reason, ok := o.Parse(wire, &tunnel); !ok {
				t.Fatalf("IPv6 %v: %s", ipv6, reason)
			}
			if got := wire[o.Payload:o.End]; !bytes.Equal(got, payload) {
				t.Errorf("IPv6 %v: payload %q", ipv6, got)
			}
			if got := netip.AddrFrom16(o.Src).Unmap().String(); got != src || o.SrcPort != 40000 || o.IPv6 != ipv6 {
				t.Errorf("source %s port %d IPv6 %v", got, o.SrcPort, o.IPv6)
			}
		}
	}
}

// TestParseOptions holds that IPv4 options are skipped.
func TestParseOptions(t *testing.T) {
	plain := wrap(false, []byte("payload"))
	for options := 4; options <= 40; options += 4 {
		wire := append([]byte(nil), plain[:34]...)
		wire = append(wire, bytes.Repeat([]byte{1}, options)...)
		wire = append(wire, plain[34:]...)
		h := IPv4(wire[14:])
		h[0] = 0x40 | byte((20+options)/4)
		h.SetTotalLength(uint16(len(wire) - 14))
		resum(h)
		var o Outer
		if reason, ok := o.Parse(wire, &tunnel); !ok || string(wire[o.Payload:o.End]) != "payload" {
			t.Errorf("%d bytes: %s, %v", options, reason, ok)
		}
		wire[14+20] = 0
		if reason, ok := o.Parse(wire, &tunnel); ok || reason != packet.BadChecksum {
			t.Errorf("%d bytes, damaged: %s, %v", options, reason, ok)
		}
	}
}

// TestParseECN holds that the mark is found, whatever DSCP stands beside it.
func TestParseECN(t *testing.T) {
	for _, ipv6 := range []bool{false, true} {
		for ecn := range uint8(4) {
			wire := encaptest.Outer{IPv6: ipv6, DstPort: port, ECN: 0xb8 | ecn}.Wrap(nil)
			var o Outer
			if _, ok := o.Parse(wire, &tunnel); !ok || o.ECN != ecn {
				t.Errorf("IPv6 %v: %d, want %d", ipv6, o.ECN, ecn)
			}
		}
	}
}

// bent is a sound frame with one thing wrong.
type bent struct {
	ipv6   bool
	bend   func(wire []byte) []byte
	reason packet.Reason
}

// ip4 bends the IPv4 header and makes its checksum right again.
func ip4(bend func(h IPv4)) func([]byte) []byte {
	return func(wire []byte) []byte {
		h := IPv4(wire[14:])
		bend(h)
		if n := h.HeaderLen(); n >= IPv4Len && n <= len(h) {
			resum(h)
		}
		return wire
	}
}

func at(offset int, values ...byte) func([]byte) []byte {
	return func(wire []byte) []byte { copy(wire[offset:], values); return wire }
}

func TestParseRefuses(t *testing.T) {
	udp4, udp6 := 34, 54
	cases := map[string]bent{
		"nothing":                     {false, func(w []byte) []byte { return nil }, packet.Short},
		"half an Ethernet header":     {false, func(w []byte) []byte { return w[:13] }, packet.Short},
		"an Ethernet header alone":    {false, func(w []byte) []byte { return w[:14] }, packet.Short},
		"ARP":                         {false, at(12, 0x08, 0x06), packet.BadOuter},
		"a VLAN tag":                  {false, at(12, 0x81, 0x00), packet.BadOuter},
		"a double VLAN tag":           {false, at(12, 0x88, 0xa8), packet.BadOuter},
		"an 802.3 length":             {false, at(12, 0x00, 0x40), packet.BadOuter},
		"IPv6 said to be IPv4":        {true, at(12, 0x08, 0x00), packet.BadOuter},
		"IPv4 said to be IPv6":        {false, at(12, 0x86, 0xdd), packet.BadOuter},
		"version 5":                   {false, ip4(func(h IPv4) { h[0] = 0x55 }), packet.BadOuter},
		"IHL 0":                       {false, ip4(func(h IPv4) { h[0] = 0x40 }), packet.BadOuter},
		"IHL 4":                       {false, ip4(func(h IPv4) { h[0] = 0x44 }), packet.BadOuter},
		"IHL beyond the total length": {false, ip4(func(h IPv4) { h[0] = 0x4f; h.SetTotalLength(59) }), packet.BadOuter},
		"total length 0":              {false, ip4(func(h IPv4) { h.SetTotalLength(0) }), packet.BadOuter},
		"total length of a header":    {false, ip4(func(h IPv4) { h.SetTotalLength(20) }), packet.Short},
		"total length of half UDP":    {false, ip4(func(h IPv4) { h.SetTotalLength(27) }), packet.Short},
		"total length beyond the end": {false, ip4(func(h IPv4) { h.SetTotalLength(uint16(h.TotalLength() + 1)) }), packet.Short},
		"total length 65535":          {false, ip4(func(h IPv4) { h.SetTotalLength(65535) }), packet.Short},
		"a wrong header checksum":     {false, at(14+8, 63), packet.BadChecksum},
		"a header checksum of zero":   {false, at(14+10, 0, 0), packet.BadChecksum},
		"a first fragment":            {false, ip4(func(h IPv4) { h[6] = 0x20 }), packet.BadOuter},
		"a middle fragment":           {false, ip4(func(h IPv4) { h[6], h[7] = 0x20, 9 }), packet.BadOuter},
		"a last fragment":             {false, ip4(func(h IPv4) { h[7] = 9 }), packet.BadOuter},
		"TCP":                         {false, ip4(func(h IPv4) { h[9] = ProtocolTCP }), packet.BadOuter},
		"UDP-Lite":                    {false, ip4(func(h IPv4) { h[9] = 136 }), packet.BadOuter},
		"another port":                {false, at(udp4+2, 0x20, 0x5e), packet.BadOuter},
		"port 0":                      {false, at(udp4+2, 0, 0), packet.BadOuter},
		"UDP length 0":                {false, at(udp4+4, 0, 0), packet.BadOuter},
		"UDP length 7":                {false, at(udp4+4, 0, 7), packet.BadOuter},
		"UDP length beyond IP's":      {false, at(udp4+4, 0, 100), packet.Short},
		"UDP length 65535":            {false, at(udp4+4, 0xff, 0xff), packet.Short},
		"a wrong UDP checksum":        {false, at(udp4+8, 'X'), packet.BadChecksum},
		"IPv6, half a header":         {true, func(w []byte) []byte { return w[:53] }, packet.Short},
		"IPv6, version 4":             {true, at(14, 0x40), packet.BadOuter},
		"IPv6, length 0":              {true, at(14+4, 0, 0), packet.Short},
		"IPv6, length beyond the end": {true, at(14+4, 0, 0xff), packet.Short},
		"IPv6, hop-by-hop options":    {true, at(14+6, NextHopByHop), packet.BadOuter},
		"IPv6, a fragment":            {true, at(14+6, NextFragment), packet.BadOuter},
		"IPv6, TCP":                   {true, at(14+6, ProtocolTCP), packet.BadOuter},
		"IPv6, another port":          {true, at(udp6+2, 0, 53), packet.BadOuter},
		"IPv6, no UDP checksum":       {true, at(udp6+6, 0, 0), packet.BadChecksum},
		"IPv6, a wrong UDP checksum":  {true, at(udp6+8, 'X'), packet.BadChecksum},
		"IPv6, another's source":      {true, at(14+8, 0xfe), packet.BadChecksum},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			wire := c.bend(wrap(c.ipv6, []byte("the inner packet")))
			var o Outer
			if reason, ok := o.Parse(wire, &tunnel); ok || reason != c.reason {
				t.Errorf("%s, %v; want %s", reason, ok, c.reason)
			}
		})
	}
}

// TestParseSurplus holds that what stands behind the UDP length, inside the IP
// packet, is no payload: the kernel cuts it off too.
func TestParseSurplus(t *testing.T) {
	wire := wrap(false, []byte("payload and surplus"))
	u := UDP(wire[34:])
	u.SetLength(UDPLen + 7)
	u.SetChecksum(0)
	var o Outer
	if reason, ok := o.Parse(wire, &tunnel); !ok || string(wire[o.Payload:o.End]) != "payload" {
		t.Errorf("%s, %v, %q", reason, ok, wire[o.Payload:o.End])
	}
}

// TestParseChecksums is the table of what counts as a right UDP checksum.
func TestParseChecksums(t *testing.T) {
	inner := encaptest.Inner{Version: 4, Protocol: ProtocolTCP, Len: 61}.Build()
	set := func(wire []byte, c uint16) []byte { UDP(wire[34:]).SetChecksum(c); return wire }
	pseudo := func(wire []byte) uint16 {
		return IPv4(wire[14:]).PseudoSum(ProtocolUDP, len(wire)-34)
	}
	whole := wrap(false, inner)
	cases := map[string]struct {
		wire               []byte
		verified, unlooked bool
	}{
		"full":                       {bytes.Clone(whole), true, true},
		"none":                       {set(bytes.Clone(whole), 0), true, true},
		"the pseudo-header's":        {set(bytes.Clone(whole), pseudo(whole)), true, true},
		"the pseudo-header's, plus1": {set(bytes.Clone(whole), pseudo(whole)+1), false, true},
		"inverted":                   {set(bytes.Clone(whole), ^UDP(whole[34:]).Checksum()), false, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			before := bytes.Clone(c.wire)
			for verify, want := range map[bool]bool{true: c.verified, false: c.unlooked} {
				var o Outer
				reason, ok := o.Parse(c.wire, &Tunnel{Port: port, Verify: verify})
				if ok != want || !ok && reason != packet.BadChecksum {
					t.Errorf("verify %v: %s, %v", verify, reason, ok)
				}
			}
			if !bytes.Equal(before, c.wire) {
				t.Error("the frame was changed")
			}
		})
	}
}

// TestParseAllOnes makes datagrams whose checksum comes to zero, which is sent
// as all ones.
func TestParseAllOnes(t *testing.T) {
	for _, ipv6 := range []bool{false, true} {
		wire := wrap(ipv6, make([]byte, 10))
		datagram := wire[len(wire)-18:]
		var sum uint16
		if ipv6 {
			sum = IPv6(wire[14:]).PseudoSum(ProtocolUDP, 18)
		} else {
			sum = IPv4(wire[14:]).PseudoSum(ProtocolUDP, 18)
		}
		UDP(datagram).SetChecksum(0)
		binary.BigEndian.PutUint16(datagram[16:], ^Sum(datagram, sum))
		UDP(datagram).SetChecksum(0xffff)
		var o Outer
		if reason, ok := o.Parse(wire, &tunnel); !ok {
			t.Errorf("IPv6 %v: %s", ipv6, reason)
		}
	}
}

// TestParseLocalOffload plays a kernel that left the inner checksum to hardware
// and made the outer one as if it were filled in.
func TestParseLocalOffload(t *testing.T) {
	shim := []byte("22 bytes of VXLAN etc.")
	for _, ipv6 := range []bool{false, true} {
		for _, version := range []int{4, 6} {
			for _, protocol := range []uint8{ProtocolTCP, ProtocolUDP} {
				inner := encaptest.Inner{Version: version, Protocol: protocol, Len: 101}.Build()
				whole := wrap(ipv6, append(bytes.Clone(shim), inner...))
				wire := bytes.Clone(whole)
				copy(wire[len(wire)-len(inner):], partial(inner))
				tunnel := Tunnel{Port: port, Shim: len(shim), Verify: true}

				var o Outer
				if reason, ok := o.Parse(wire, &tunnel); !ok {
					t.Fatalf("outer IPv6 %v, inner IPv%d, protocol %d: %s", ipv6, version, protocol, reason)
				}
				if !bytes.Equal(wire, whole) {
					t.Errorf("the inner checksum was not filled in\n got %x\nwant %x", wire, whole)
				}

				copy(wire[len(wire)-len(inner):], partial(inner))
				wire[len(wire)-len(inner)-1] ^= 1 // damage, in the shim
				if reason, ok := o.Parse(wire, &tunnel); ok || reason != packet.BadChecksum {
					t.Errorf("damaged: %s, %v", reason, ok)
				}
			}
		}
	}
}

func FuzzParse(f *testing.F) {
	inner := encaptest.Inner{Version: 4, Protocol: ProtocolTCP, Len: 61}.Build()
	for _, ipv6 := range []bool{false, true} {
		f.Add(wrap(ipv6, inner), true)
		f.Add(wrap(ipv6, partial(inner)), true)
		f.Add(wrap(ipv6, nil), false)
	}
	f.Fuzz(func(t *testing.T, wire []byte, verify bool) {
		var o Outer
		before := bytes.Clone(wire)
		_, ok := o.Parse(wire, &Tunnel{Port: port, Verify: verify})
		if !verify && !bytes.Equal(before, wire) {
			t.Fatal("the frame was changed without verifying")
		}
		if !ok {
			return
		}
		if o.Payload < 14+20+8 || o.Payload > o.End || o.End > len(wire) {
			t.Fatalf("payload [%d, %d) of %d bytes", o.Payload, o.End, len(wire))
		}
		if binary.BigEndian.Uint16(wire[o.Payload-6:]) != port {
			t.Fatal("not our port")
		}
	})
}

func BenchmarkParse(b *testing.B) {
	for _, size := range []int{64, 1500} {
		wire := wrap(false, make([]byte, size-28))
		for name, verify := range map[string]bool{"verify": true, "trust": false} {
			b.Run(name+"/"+map[int]string{64: "64", 1500: "1500"}[size], func(b *testing.B) {
				tunnel := Tunnel{Port: port, Verify: verify}
				var o Outer
				b.ReportAllocs()
				for b.Loop() {
					o.Parse(wire, &tunnel)
				}
			})
		}
	}
}
