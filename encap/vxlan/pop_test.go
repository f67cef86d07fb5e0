package vxlan

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"flanx/dataplane/packet"
	"flanx/encap"
	"flanx/encap/encaptest"
	"flanx/encap/header"
)

// frame is what another node may send B: sound unless a field is set.
type frame struct {
	outer    encaptest.Outer
	flags    uint32 // VXLAN's first word
	second   uint32 // and its second
	dst, src encap.MAC
	typ      uint16
	inner    []byte
}

// sound is a frame from A that B accepts.
func sound() frame {
	return frame{
		outer: encaptest.Outer{SrcPort: 40000, DstPort: DefaultPort},
		flags: header.VXLANFlagVNI, second: DefaultVNI << 8,
		dst: vtepB4, src: vtepA4, typ: header.EtherTypeIPv4,
		inner: encaptest.Inner{Version: 4, Protocol: header.ProtocolUDP, Len: 60}.Build(),
	}
}

// payload returns what is in the datagram.
func (f frame) payload() []byte {
	p := make([]byte, shim, shim+len(f.inner))
	binary.BigEndian.PutUint32(p[0:4], f.flags)
	binary.BigEndian.PutUint32(p[4:8], f.second)
	header.Ethernet(p[8:]).Encode(header.EthernetFields{Dst: f.dst, Src: f.src, EtherType: f.typ})
	return append(p, f.inner...)
}

// popAt lets c take the frame, on either layer.
func (f frame) popAt(t *testing.T, cfg Config) *packet.Batch {
	t.Helper()
	_, c := nodes(t, cfg)
	if cfg.Layer == encap.Ethernet {
		b := batch(t, f.outer.Wrap(f.payload()))
		c.Pop(b)
		return b
	}
	b := batch(t, f.payload())
	b.At(0).Peer = way4.Local.As16()
	if f.outer.IPv6 {
		b.At(0).Peer = way6.Local.As16()
	}
	c.Pop(b)
	return b
}

// layerNames makes subtests readable.
var layerNames = map[encap.Layer]string{encap.Ethernet: "ethernet", encap.Datagram: "datagram"}

// TestAccepts is the table of what a kernel node accepts, which
// TestSameVerdictAsKernel measures.
func TestAccepts(t *testing.T) {
	cases := map[string]func(*frame){
		"as sent":                    func(*frame) {},
		"source port 1":              func(f *frame) { f.outer.SrcPort = 1 },
		"source port ours":           func(f *frame) { f.outer.SrcPort = DefaultPort },
		"checksum zero":              func(f *frame) { f.outer.NoChecksum = true },
		"inner source random":        func(f *frame) { f.src = encap.MAC{0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc} },
		"inner source zero":          func(f *frame) { f.src = encap.MAC{} },
		"inner destination everyone": func(f *frame) { f.dst = header.Broadcast },
		"IPv6 inside": func(f *frame) {
			f.inner, f.typ = encaptest.Inner{Version: 6, Len: 60}.Build(), header.EtherTypeIPv6
		},
		"over IPv6": func(f *frame) { f.outer.IPv6, f.dst, f.src = true, vtepB6, vtepA6 },
		"A's address for the other family as source": func(f *frame) { f.src = vtepB6 },
	}
	for name, bend := range cases {
		for layer, layerName := range layerNames {
			t.Run(name+"/"+layerName, func(t *testing.T) {
				f := sound()
				bend(&f)
				b := f.popAt(t, Config{Layer: layer})
				if !b.Live(0) || !bytes.Equal(b.Bytes(0), f.inner) {
					t.Fatalf("drops %v", *b.Drops())
				}
			})
		}
	}
}

// TestRefuses is the other half of that table.
func TestRefuses(t *testing.T) {
	group := encap.MAC{0x01, 0, 0x5e, 0, 0, 1}
	cases := map[string]struct {
		bend   func(*frame)
		reason packet.Reason
	}{
		"I flag clear":                    {func(f *frame) { f.flags = 0 }, packet.Reserved},
		"I flag clear and wrong VNI":      {func(f *frame) { f.flags, f.second = 0, 2<<8 }, packet.Reserved},
		"G flag without GBP":              {func(f *frame) { f.flags |= header.VXLANFlagGBP }, packet.Reserved},
		"wrong VNI":                       {func(f *frame) { f.second = 2 << 8 }, packet.WrongVNI},
		"wrong VNI and reserved bits":     {func(f *frame) { f.second = 2<<8 | 1 }, packet.WrongVNI},
		"VNI zero":                        {func(f *frame) { f.second = 0 }, packet.WrongVNI},
		"inner destination another's":     {func(f *frame) { f.dst = vtepA4 }, packet.BadInnerMAC},
		"inner destination zero":          {func(f *frame) { f.dst = encap.MAC{} }, packet.BadInnerMAC},
		"inner destination a group":       {func(f *frame) { f.dst = group }, packet.BadInnerMAC},
		"inner destination of other kind": {func(f *frame) { f.dst = vtepB6 }, packet.BadInnerMAC},
		"inner source ours":               {func(f *frame) { f.src = vtepB4 }, packet.BadInnerMAC},
		"inner source a group":            {func(f *frame) { f.src = group }, packet.BadInnerMAC},
		"inner source everyone":           {func(f *frame) { f.src = header.Broadcast }, packet.BadInnerMAC},
		"ARP":                             {func(f *frame) { f.typ = header.EtherTypeARP }, packet.BadEtherType},
		"inner VLAN":                      {func(f *frame) { f.typ = header.EtherTypeVLAN }, packet.BadEtherType},
		"EtherType zero":                  {func(f *frame) { f.typ = 0 }, packet.BadEtherType},
		"IPv6 said to be IPv4":            {func(f *frame) { f.inner = encaptest.Inner{Version: 6}.Build() }, packet.BadInner},
		"IPv4 said to be IPv6":            {func(f *frame) { f.typ = header.EtherTypeIPv6 }, packet.BadInner},
		"nothing inside":                  {func(f *frame) { f.inner = nil }, packet.Short},
		"over IPv6 to the IPv4 endpoint":  {func(f *frame) { f.outer.IPv6 = true }, packet.BadInnerMAC},
	}
	for name, c := range cases {
		for layer, layerName := range layerNames {
			t.Run(name+"/"+layerName, func(t *testing.T) {
				f := sound()
				c.bend(&f)
				expect(t, f.popAt(t, Config{Layer: layer}), c.reason)
			})
		}
	}
}

// TestReservedBits sets each of the 39 reserved bits alone, as the kernel's
// selftest vxlan_reserved.sh does.
func TestReservedBits(t *testing.T) {
	n := 0
	for bit := range 64 {
		mask := uint64(1) << bit
		if mask == header.VXLANFlagVNI<<32 || mask&(header.MaxVNI<<8) != 0 {
			continue
		}
		n++
		t.Run(fmt.Sprint(bit), func(t *testing.T) {
			f := sound()
			f.flags |= uint32(mask >> 32)
			f.second |= uint32(mask)
			expect(t, f.popAt(t, Config{}), packet.Reserved)
		})
	}
	if n != 39 {
		t.Errorf("%d reserved bits tried, want 39", n)
	}
}

// TestGroupPolicy holds what the kernel accepts with GBP configured: G and the
// whole policy word, but none of the other bits.
func TestGroupPolicy(t *testing.T) {
	cases := map[string]struct {
		flags, second uint32
		ok            bool
	}{
		"a mark":                  {header.VXLANFlagGBP | 0x1234, 0, true},
		"do not learn, applied":   {header.VXLANFlagGBP | 0x480000, 0, true},
		"no mark":                 {0, 0, true},
		"a reserved flag":         {header.VXLANFlagGBP | 1<<28, 0, false},
		"the last reserved octet": {header.VXLANFlagGBP, 1, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f := sound()
			f.flags |= c.flags
			f.second |= c.second
			b := f.popAt(t, Config{GBP: true})
			if b.Live(0) != c.ok {
				t.Errorf("accepted %v, drops %v", b.Live(0), *b.Drops())
			}
		})
	}
	f := sound()
	f.flags = header.VXLANFlagGBP
	expect(t, f.popAt(t, Config{GBP: true}), packet.Reserved) // I is still required
}

// TestFamilyNotSpoken holds that the absent endpoint's address of zeros is no
// address.
func TestFamilyNotSpoken(t *testing.T) {
	f := sound()
	f.outer.IPv6 = true
	f.dst = encap.MAC{}
	b := batch(t, f.outer.Wrap(f.payload()))
	newCodec(t, Config{VNI: 1, VTEP4: vtepB4}).Pop(b)
	expect(t, b, packet.BadOuter)

	b = batch(t, f.payload())
	b.At(0).Peer = way6.Local.As16()
	newCodec(t, Config{VNI: 1, VTEP4: vtepB4, Layer: encap.Datagram}).Pop(b)
	expect(t, b, packet.BadOuter)
}

func TestZeroChecksumOverIPv6(t *testing.T) {
	f := sound()
	f.outer.IPv6, f.outer.NoChecksum, f.dst, f.src = true, true, vtepB6, vtepA6
	for _, noVerify := range []bool{false, true} {
		expect(t, f.popAt(t, Config{NoVerify: noVerify}), packet.BadChecksum)
	}
}

// TestNoVerify holds that the switch is what decides about a wrong checksum.
func TestNoVerify(t *testing.T) {
	f := sound()
	wire := f.outer.Wrap(f.payload())
	wire[40] ^= 0xff
	for noVerify, live := range map[bool]bool{false: false, true: true} {
		_, c := nodes(t, Config{NoVerify: noVerify})
		b := batch(t, wire)
		c.Pop(b)
		if b.Live(0) != live {
			t.Errorf("NoVerify %v: accepted %v", noVerify, b.Live(0))
		}
	}
}

// TestECN is RFC 6040 figure 4, as far as the outer mark goes.
func TestECN(t *testing.T) {
	for _, version := range []int{4, 6} {
		for _, ipv6 := range []bool{false, true} {
			for outer := range uint8(4) {
				for inner := range uint8(4) {
					checkECN(t, version, ipv6, outer, inner)
				}
			}
		}
	}
}

func checkECN(t *testing.T, version int, ipv6 bool, outer, inner uint8) {
	t.Helper()
	in := encaptest.Inner{Version: version, Protocol: header.ProtocolTCP, Len: 70, ECN: inner}
	f := sound()
	f.inner, f.outer.ECN = in.Build(), outer
	if version == 6 {
		f.typ = header.EtherTypeIPv6
	}
	if ipv6 {
		f.outer.IPv6, f.dst, f.src = true, vtepB6, vtepA6
	}
	b := f.popAt(t, Config{})
	if outer == header.ECNCE && inner == header.ECNNotECT {
		expect(t, b, packet.BadECN)
		return
	}
	if outer == header.ECNCE {
		in.ECN = header.ECNCE
	}
	if !b.Live(0) || !bytes.Equal(b.Bytes(0), in.Build()) {
		t.Errorf("outer %d inner %d: got %x, want %x, drops %v", outer, inner, b.Bytes(0), in.Build(), *b.Drops())
	}
}
