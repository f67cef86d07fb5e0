package vxlan

import (
	"flanx/encap"
	"flanx/encap/encaptest"
	"flanx/encap/header"
)

// variation is one way to bend a frame from B to A.
type variation struct {
	name     string
	fields   func(*frame)        // before the frame is built
	bytes    func([]byte) []byte // after
	inner    func([]byte)        // the inner packet
	ipv6     bool                // outside and inside
	stricter bool                // we refuse what the kernel takes, on purpose
}

// frame builds the frame around an echo request with the sequence number.
func (v variation) frame(sequence uint16) []byte {
	way := way4
	f := frame{
		outer: encaptest.Outer{SrcPort: 40000, DstPort: DefaultPort},
		flags: header.VXLANFlagVNI, second: DefaultVNI << 8,
		dst: vtepA4, src: vtepB4, typ: header.EtherTypeIPv4,
	}
	if v.ipv6 {
		way = way6
		f.outer.IPv6, f.dst, f.src, f.typ = true, vtepA6, vtepB6, header.EtherTypeIPv6
	}
	f.inner = echo(way, sequence, 100)
	if v.inner != nil {
		v.inner(f.inner)
	}
	if v.fields != nil {
		v.fields(&f)
	}
	// The builder sends from A to B; the addresses are exchanged, which no
	// checksum notices.
	wire := f.outer.Wrap(f.payload())
	eth := header.Ethernet(wire)
	eth.SetDst(way.LocalMAC)
	eth.SetSrc(way.NextHopMAC)
	src, dst := wire[26:30], wire[30:34]
	if v.ipv6 {
		src, dst = wire[22:38], wire[38:54]
	}
	for i := range src {
		src[i], dst[i] = dst[i], src[i]
	}
	if v.bytes != nil {
		wire = v.bytes(wire)
	}
	return wire
}

// outer4 bends the outer IPv4 header and makes its checksum right again.
func outer4(bend func(h header.IPv4)) func([]byte) []byte {
	return func(wire []byte) []byte {
		h := header.IPv4(wire[14:])
		bend(h)
		h.SetChecksum(0)
		h.SetChecksum(^header.Sum(h[:header.IPv4Len], 0))
		return wire
	}
}

// outerUDP bends the outer UDP header over IPv4 and makes its checksum right
// again over what its length says.
func outerUDP(bend func(u header.UDP)) func([]byte) []byte {
	return func(wire []byte) []byte {
		u := header.UDP(wire[34:])
		bend(u)
		u.SetChecksum(0)
		if n := u.Length(); n <= len(u) {
			u.SetChecksum(header.UDPChecksum(header.Sum(u[:n], header.IPv4(wire[14:]).PseudoSum(header.ProtocolUDP, n))))
		}
		return wire
	}
}

func kernelVariations() []variation {
	set := func(at int, b ...byte) func([]byte) []byte {
		return func(wire []byte) []byte { copy(wire[at:], b); return wire }
	}
	out := []variation{
		{name: "as sent"},
		{name: "as sent over IPv6", ipv6: true},
		{name: "source port ours", fields: func(f *frame) { f.outer.SrcPort = DefaultPort }},
		{name: "source port 1", fields: func(f *frame) { f.outer.SrcPort = 1 }},
		{name: "no checksum", fields: func(f *frame) { f.outer.NoChecksum = true }},
		{name: "no checksum over IPv6", ipv6: true, fields: func(f *frame) { f.outer.NoChecksum = true }},
		{name: "a wrong checksum", bytes: set(40, 0x12, 0x34)},
		{name: "a wrong checksum over IPv6", ipv6: true, bytes: set(60, 0x12, 0x34)},
		{name: "damaged payload", bytes: set(150, 0xff)},
		{name: "another source address", bytes: outer4(func(h header.IPv4) { h[15] = 77 })},
		{name: "I flag clear", fields: func(f *frame) { f.flags = 0 }},
		{name: "wrong VNI", fields: func(f *frame) { f.second = 2 << 8 }},
		{name: "group policy", fields: func(f *frame) { f.flags |= header.VXLANFlagGBP | 7 }},
		{name: "another inner destination", fields: func(f *frame) { f.dst = vtepB4 }},
		{name: "the other family's inner destination", fields: func(f *frame) { f.dst = vtepA6 }},
		{name: "inner destination everyone", fields: func(f *frame) { f.dst = header.Broadcast }},
		{name: "inner source random", fields: func(f *frame) { f.src = encap.MAC{0x12, 1, 2, 3, 4, 5} }},
		{name: "inner source zero", fields: func(f *frame) { f.src = encap.MAC{} }},
		{name: "inner source its own", fields: func(f *frame) { f.src = vtepA4 }},
		{name: "inner source a group", fields: func(f *frame) { f.src = encap.MAC{1, 0, 0x5e, 0, 0, 1} }, stricter: true},
		{name: "inner destination a group", fields: func(f *frame) { f.dst = encap.MAC{1, 0, 0x5e, 0, 0, 1} }, stricter: true},
		{name: "EtherType zero", fields: func(f *frame) { f.typ = 0 }},
		{name: "EtherType ARP", fields: func(f *frame) { f.typ = header.EtherTypeARP }},
		{name: "EtherType of the other family", fields: func(f *frame) { f.typ = header.EtherTypeIPv6 }},
		{name: "Ethernet padding", bytes: func(w []byte) []byte { return append(w, make([]byte, 9)...) }},
		{name: "UDP surplus", bytes: func(w []byte) []byte {
			w = append(w, "surplus!"...)
			return outer4(func(h header.IPv4) { h.SetTotalLength(uint16(h.TotalLength() + 8)) })(w)
		}},
		{name: "IP total length beyond the frame", bytes: outer4(func(h header.IPv4) { h.SetTotalLength(uint16(h.TotalLength() + 1)) })},
		{name: "IP total length cuts the datagram", bytes: outer4(func(h header.IPv4) { h.SetTotalLength(uint16(h.TotalLength() - 1)) })},
		{name: "UDP length cuts the packet", bytes: outerUDP(func(u header.UDP) { u.SetLength(uint16(u.Length() - 1)) })},
		{name: "UDP length 7", bytes: outerUDP(func(u header.UDP) { u.SetLength(7) })},
		{name: "UDP length beyond", bytes: outerUDP(func(u header.UDP) { u.SetLength(uint16(u.Length() + 1)) })},
		{name: "a wrong outer header checksum", bytes: set(24, 0, 0)},
		{name: "outer TTL 1", bytes: outer4(func(h header.IPv4) { h[8] = 1 })},
		{name: "outer DF", bytes: outer4(func(h header.IPv4) { h[6] = 0x40 })},
		{name: "the evil bit", bytes: outer4(func(h header.IPv4) { h[6] = 0x80 })},
		{name: "outer version 5", bytes: outer4(func(h header.IPv4) { h[0] = 0x55 })},
		{name: "outer IHL 4", bytes: outer4(func(h header.IPv4) { h[0] = 0x44 })},
		{name: "another port", bytes: outerUDP(func(u header.UDP) { u[3]++ })},
		{name: "a wrong inner header checksum", inner: func(p []byte) { p[10]++ }},
		{name: "inner length beyond", inner: func(p []byte) { p[3]++ }},
		{name: "outer options", bytes: func(w []byte) []byte {
			w = append(w[:34:34], append([]byte{1, 1, 1, 0}, w[34:]...)...)
			h := header.IPv4(w[14:])
			h[0] = 0x46
			h.SetTotalLength(uint16(len(w) - 14))
			h.SetChecksum(0)
			h.SetChecksum(^header.Sum(h[:24], 0))
			return w
		}},
	}
	for ecn := range uint8(4) {
		mark := func(p []byte) {
			p[1] = ecn
			header.IPv4(p).SetChecksum(0)
			header.IPv4(p).SetChecksum(^header.Sum(p[:header.IPv4Len], 0))
		}
		out = append(out,
			variation{name: "outer CE, inner " + string('0'+ecn), inner: mark, fields: func(f *frame) { f.outer.ECN = header.ECNCE }},
			variation{name: "outer ECT(1), inner " + string('0'+ecn), inner: mark, fields: func(f *frame) { f.outer.ECN = header.ECNECT1 }})
	}
	return append(out, reservedVariations()...)
}

// reservedVariations sets each reserved bit alone.
func reservedVariations() (out []variation) {
	for bit := range uint(64) {
		mask := uint64(1) << bit
		if mask == header.VXLANFlagVNI<<32 || mask&(header.MaxVNI<<8) != 0 {
			continue
		}
		out = append(out, variation{name: "a reserved bit", fields: func(f *frame) {
			f.flags |= uint32(mask >> 32)
			f.second |= uint32(mask)
		}})
	}
	return out
}
