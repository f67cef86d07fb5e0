package tun

import (
	"bytes"
	"encoding/binary"

	"flanx/encap/header"
)

// flowKey is what makes packets one flow.
type flowKey struct {
	addrs [32]byte // source and destination; an IPv4 pair in the first 8 bytes
	ports uint32
	v4    bool
	udp   bool
}

// segment is what the merger knows of a TCP or UDP packet without options or
// extension headers in its IP header.
type segment struct {
	key     flowKey
	l4      int    // where the TCP or UDP header starts
	headLen int    // IP, TCP and TCP options
	payload int    // bytes
	seq     uint32 // TCP
	push    bool   // TCP: PSH is set
	open    bool   // may be merged with others
}

// inspect looks at a packet. It says no when it is not TCP or UDP directly
// behind an IP header that fits its length, or a fragment.
func (s *segment) inspect(pkt []byte) bool {
	var protocol uint8
	switch {
	case len(pkt) >= header.IPv4Len && pkt[0] == 0x45:
		ip := header.IPv4(pkt)
		if ip.TotalLength() != len(pkt) || ip.IsFragment() || !ip.ValidChecksum(header.IPv4Len) {
			return false
		}
		protocol, s.l4 = ip.Protocol(), header.IPv4Len
		s.key = flowKey{v4: true}
		copy(s.key.addrs[:], pkt[12:20])
	case len(pkt) >= header.IPv6Len && header.IPVersion(pkt) == 6:
		ip := header.IPv6(pkt)
		if header.IPv6Len+ip.PayloadLength() != len(pkt) {
			return false
		}
		protocol, s.l4 = ip.NextHeader(), header.IPv6Len
		s.key = flowKey{}
		copy(s.key.addrs[:], pkt[8:40])
	default:
		return false
	}
	switch protocol {
	case header.ProtocolTCP:
		return s.inspectTCP(pkt)
	case header.ProtocolUDP:
		return s.inspectUDP(pkt)
	}
	return false
}

// inspectTCP: only data with nothing but ACK, and PSH at most, may be merged.
func (s *segment) inspectTCP(pkt []byte) bool {
	if len(pkt) < s.l4+header.TCPLen {
		return false
	}
	tcp := header.TCP(pkt[s.l4:])
	s.headLen = s.l4 + tcp.HeaderLen()
	if tcp.HeaderLen() < header.TCPLen || s.headLen > len(pkt) {
		return false
	}
	s.key.ports = binary.BigEndian.Uint32(tcp[0:4])
	s.payload = len(pkt) - s.headLen
	s.seq = tcp.Seq()
	s.push = tcp.Flags()&header.TCPPsh != 0
	s.open = s.payload > 0 && tcp.Flags()|header.TCPPsh == header.TCPAck|header.TCPPsh
	return true
}

// inspectUDP: only datagrams with a checksum may be merged, since the kernel
// gives each piece one.
func (s *segment) inspectUDP(pkt []byte) bool {
	if len(pkt) < s.l4+header.UDPLen {
		return false
	}
	udp := header.UDP(pkt[s.l4:])
	s.key.udp, s.key.ports = true, binary.BigEndian.Uint32(udp[0:4])
	s.headLen = s.l4 + header.UDPLen
	s.payload = len(pkt) - s.headLen
	s.push = false
	s.open = s.payload > 0 && udp.Length() == len(pkt)-s.l4 && udp.Checksum() != 0
	return true
}

// alike says whether two packets of one flow, both open and with headers of one
// length, differ in nothing but what cutting a merged packet would restore.
// number is the place of b behind a.
func (s *segment) alike(a, b []byte, number int) bool {
	if s.key.v4 {
		x, y := header.IPv4(a), header.IPv4(b)
		const dontFragment = 0x4000
		inRow := y.ID() == x.ID()+uint16(number)
		if x.TOS() != y.TOS() || x.TTL() != y.TTL() || x.Fragment() != y.Fragment() ||
			(x.Fragment()&dontFragment == 0 && !inRow) { // RFC 6864: with DF the ID says nothing
			return false
		}
	} else if !bytes.Equal(a[:4], b[:4]) || header.IPv6(a).HopLimit() != header.IPv6(b).HopLimit() {
		return false
	}
	if s.key.udp {
		return true
	}
	x, y := a[s.l4:s.headLen], b[s.l4:s.headLen] // all but ports, sequence, flags, checksum
	return bytes.Equal(x[8:13], y[8:13]) && bytes.Equal(x[14:16], y[14:16]) && bytes.Equal(x[18:], y[18:])
}

// valid says whether the packet's TCP or UDP checksum holds. A merged packet
// gets new ones, so damage must be found before.
func (s *segment) valid(pkt []byte) bool {
	n := len(pkt) - s.l4
	if s.key.v4 {
		return header.Valid(pkt[s.l4:], header.IPv4(pkt).PseudoSum(s.protocol(), n))
	}
	return header.Valid(pkt[s.l4:], header.IPv6(pkt).PseudoSum(s.protocol(), n))
}

func (s *segment) protocol() uint8 {
	if s.key.udp {
		return header.ProtocolUDP
	}
	return header.ProtocolTCP
}
