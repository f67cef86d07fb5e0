package encaptest

import (
	"encoding/binary"
	"math/rand/v2"

	"flanx/encap/header"
)

// protocolESP stands for what has no ports and no checksum (RFC 4303).
const protocolESP = 50

// Inner builds inner packets for tests: sound, with all checksums right.
type Inner struct {
	Version  int   // 4 or 6
	Protocol uint8 // TCP, UDP and their ICMP get a header; others random bytes
	Len      int   // of the whole packet, bytes
	TTL      uint8 // 0: 64
	ECN      uint8
	Fragment uint16     // IPv4 flags and offset
	Options  int        // bytes of IPv4 options, a multiple of 4, at most 40
	Src, Dst [16]byte   // IPv4 uses the last four; zero: addresses of the overlay
	SrcPort  uint16     // 0: 40000
	DstPort  uint16     // 0: 80
	Rand     *rand.Rand // for the payload; nil: a counting pattern
}

// HeaderLen returns the length of the IP header in bytes.
func (in Inner) HeaderLen() int {
	if in.Version == 6 {
		return header.IPv6Len
	}
	return header.IPv4Len + in.Options
}

// segmentLen returns the length of the upper header that the protocol gets.
func segmentLen(protocol uint8) int {
	switch protocol {
	case header.ProtocolTCP:
		return header.TCPLen
	case header.ProtocolUDP, header.ProtocolICMP, header.ProtocolICMPv6:
		return 8
	default:
		return 0
	}
}

// Build returns the packet. A Len too small for the headers is raised to them.
func (in Inner) Build() []byte {
	in.Len = max(in.Len, in.HeaderLen()+segmentLen(in.Protocol))
	if in.TTL == 0 {
		in.TTL = 64
	}
	if in.Src == ([16]byte{}) {
		in.Src = [16]byte{0xfd, 5, 12: 10, 5, 1, 2}
	}
	if in.Dst == ([16]byte{}) {
		in.Dst = [16]byte{0xfd, 5, 12: 10, 5, 2, 3}
	}
	p := make([]byte, in.Len)
	segment := p[in.HeaderLen():]
	in.fill(segment)
	var pseudo uint16
	if in.Version == 6 {
		pseudo = in.buildIPv6(p)
	} else {
		pseudo = in.buildIPv4(p)
	}
	if in.Fragment&(header.IPv4MoreFragments|header.IPv4FragmentOffset) == 0 {
		in.buildSegment(segment, pseudo)
	}
	return p
}

func (in Inner) fill(b []byte) {
	for i := range b {
		if in.Rand != nil {
			b[i] = byte(in.Rand.Uint32())
		} else {
			b[i] = byte(i)
		}
	}
}

func (in Inner) buildIPv4(p []byte) (pseudo uint16) {
	h := header.IPv4(p)
	h.Encode(header.IPv4Fields{
		TOS: in.ECN, TotalLength: uint16(len(p)), ID: 0x1234, Fragment: in.Fragment,
		TTL: in.TTL, Protocol: in.Protocol, Src: [4]byte(in.Src[12:]), Dst: [4]byte(in.Dst[12:]),
	})
	if in.Options > 0 {
		n := in.HeaderLen()
		p[0] = 4<<4 | byte(n/4)
		for i := header.IPv4Len; i < n; i++ {
			p[i] = 1 // no operation
		}
		h.SetChecksum(0)
		h.SetChecksum(^header.Sum(p[:n], 0))
	}
	return h.PseudoSum(in.Protocol, len(p)-in.HeaderLen())
}

func (in Inner) buildIPv6(p []byte) (pseudo uint16) {
	h := header.IPv6(p)
	h.Encode(header.IPv6Fields{
		TrafficClass: in.ECN, FlowLabel: 0x12345, PayloadLength: uint16(len(p) - header.IPv6Len),
		NextHeader: in.Protocol, HopLimit: in.TTL, Src: in.Src, Dst: in.Dst,
	})
	return h.PseudoSum(in.Protocol, len(p)-header.IPv6Len)
}

func (in Inner) buildSegment(b []byte, pseudo uint16) {
	if in.SrcPort == 0 {
		in.SrcPort = 40000
	}
	if in.DstPort == 0 {
		in.DstPort = 80
	}
	switch in.Protocol {
	case header.ProtocolTCP:
		h := header.TCP(b)
		h.Encode(header.TCPFields{SrcPort: in.SrcPort, DstPort: in.DstPort, Seq: 1000, Flags: header.TCPAck, Window: 512})
		h.SetChecksum(^header.Sum(b, pseudo))
	case header.ProtocolUDP:
		h := header.UDP(b)
		h.Encode(header.UDPFields{SrcPort: in.SrcPort, DstPort: in.DstPort, Length: uint16(len(b))})
		h.SetChecksum(header.UDPChecksum(header.Sum(b, pseudo)))
	case header.ProtocolICMP, header.ProtocolICMPv6:
		b[0], b[1], b[2], b[3] = 8, 0, 0, 0 // echo request
		if in.Protocol == header.ProtocolICMP {
			pseudo = 0
		} else {
			b[0] = 128
		}
		binary.BigEndian.PutUint16(b[2:4], ^header.Sum(b, pseudo))
	}
}

// RandomInner returns a random packet of the version and length: any protocol
// that fits, sometimes with options or as a fragment.
func RandomInner(rng *rand.Rand, version, length int) []byte {
	in := Inner{
		Version: version, Len: length, Rand: rng,
		TTL: uint8(3 + rng.IntN(253)), ECN: uint8(rng.IntN(4)),
		SrcPort: uint16(1 + rng.IntN(65535)), DstPort: uint16(1 + rng.IntN(65535)),
	}
	fill16(rng, &in.Src)
	fill16(rng, &in.Dst)
	protocols := []uint8{header.ProtocolTCP, header.ProtocolUDP, header.ProtocolICMP, protocolESP}
	if version == 6 {
		protocols[2] = header.ProtocolICMPv6
	}
	in.Protocol = protocols[rng.IntN(len(protocols))]
	if version == 4 {
		switch rng.IntN(8) {
		case 0:
			in.Options = 4 * (1 + rng.IntN(10))
		case 1:
			in.Fragment = uint16(rng.IntN(header.IPv4FragmentOffset)) | header.IPv4MoreFragments
		case 2:
			in.Fragment = header.IPv4DontFragment
		}
	}
	if in.HeaderLen() > length {
		in.Options = 0
	}
	if in.HeaderLen()+segmentLen(in.Protocol) > length {
		in.Protocol = protocolESP
	}
	return in.Build()
}

func fill16(rng *rand.Rand, a *[16]byte) {
	binary.LittleEndian.PutUint64(a[:8], rng.Uint64())
	binary.LittleEndian.PutUint64(a[8:], rng.Uint64())
}

// Hopped returns a copy of an inner packet after n hops, its IPv4 checksum made
// anew and not patched.
func Hopped(inner []byte, n int) []byte {
	p := append([]byte(nil), inner...)
	if header.IPVersion(p) == 6 {
		p[7] -= uint8(n)
		return p
	}
	p[8] -= uint8(n)
	h := header.IPv4(p)
	h.SetChecksum(0)
	h.SetChecksum(^simpleSum(p[:h.HeaderLen()]))
	return p
}

// simpleSum is the checksum's sum as RFC 1071 defines it, word by word.
func simpleSum(b []byte) uint16 {
	var sum uint32
	for i := 0; i+1 < len(b); i += 2 {
		sum += uint32(b[i])<<8 | uint32(b[i+1])
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return uint16(sum)
}
