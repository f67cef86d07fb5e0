package tun

import (
	"encoding/binary"

	"golang.org/x/sys/unix"

	"flanx/encap/header"
)

// maxHead bounds the headers that are repeated before every piece, in bytes:
// IPv4 and TCP with all their options are 120, and IPv6 extension headers have
// some room.
const maxHead = 256

// Where the checksum lies in a TCP and in a UDP header.
const (
	tcpChecksum = 16
	udpChecksum = 6
)

// super is a packet of up to 64 KiB that the kernel left to us to cut into
// pieces of one MTU, as tcp_gso_segment and __udp_gso_segment would have done.
type super struct {
	head    [maxHead]byte // IP and TCP or UDP header, as in the first piece
	headLen int
	l4      int // where the TCP or UDP header starts
	v4, udp bool
	size    int // payload bytes of each piece but the last
	id      uint16
	seq     uint32
	flags   uint8
	pseudo  uint16 // sum of the pseudo-header without the length
	rest    []byte // payload that is not cut yet
	index   int    // number of the next piece
}

// begin takes the headers out of pkt, the part of the packet that lies in the
// frame; total is the length of all of it. It says no to what is not sound:
// then nothing of the super may be used.
func (s *super) begin(h vnet, pkt []byte, total int) bool {
	s.l4, s.size, s.index = h.csumStart(), h.gsoSize(), 0
	needed := h.flags()&unix.VIRTIO_NET_HDR_F_NEEDS_CSUM != 0
	if !needed || s.size == 0 || !s.network(h.kind(), pkt, total) || !s.transport(h, pkt) {
		return false
	}
	copy(s.head[:], pkt[:s.headLen])
	return true
}

// network checks the IP header against the kind and the length.
func (s *super) network(kind uint8, pkt []byte, total int) bool {
	s.udp = kind == unix.VIRTIO_NET_HDR_GSO_UDP_L4
	s.v4 = header.IPVersion(pkt) == 4
	switch {
	case kind == unix.VIRTIO_NET_HDR_GSO_TCPV4 && s.v4, s.udp && s.v4:
		if len(pkt) < header.IPv4Len {
			return false
		}
		ip := header.IPv4(pkt)
		s.id = ip.ID()
		return s.l4 >= header.IPv4Len && ip.HeaderLen() == s.l4 && ip.TotalLength() == total &&
			!ip.IsFragment() && ip.Protocol() == s.protocol()
	case kind == unix.VIRTIO_NET_HDR_GSO_TCPV6, s.udp:
		if len(pkt) < header.IPv6Len || header.IPVersion(pkt) != 6 {
			return false
		}
		ip := header.IPv6(pkt)
		return s.l4 >= header.IPv6Len && ip.PayloadLength() == total-header.IPv6Len &&
			(s.l4 > header.IPv6Len || ip.NextHeader() == s.protocol()) // else behind extension headers
	}
	return false
}

func (s *super) protocol() uint8 {
	if s.udp {
		return header.ProtocolUDP
	}
	return header.ProtocolTCP
}

// transport checks the TCP or UDP header.
func (s *super) transport(h vnet, pkt []byte) bool {
	offset, least := tcpChecksum, header.TCPLen
	if s.udp {
		offset, least = udpChecksum, header.UDPLen
	}
	if h.csumOffset() != offset || s.l4+least > len(pkt) {
		return false
	}
	s.headLen = s.l4 + least
	if !s.udp {
		tcp := header.TCP(pkt[s.l4:])
		if tcp.HeaderLen() < header.TCPLen {
			return false
		}
		s.headLen = s.l4 + tcp.HeaderLen()
		s.seq, s.flags = tcp.Seq(), tcp.Flags()
	}
	return s.headLen <= min(len(pkt), maxHead)
}

// setRest gives the payload behind the first piece. total is the length of the
// whole packet.
func (s *super) setRest(rest []byte, total int) {
	s.rest = rest
	// The kernel's pseudo-header sum counts the length of the whole: take it out.
	partial := binary.BigEndian.Uint16(s.head[s.l4+s.checksumAt():])
	s.pseudo = header.Add(partial, ^uint16(total-s.l4))
}

func (s *super) checksumAt() int {
	if s.udp {
		return udpChecksum
	}
	return tcpChecksum
}

// cut writes the next piece to dst and returns its length. dst has room for
// headLen+size bytes.
func (s *super) cut(dst []byte) int {
	payload := min(s.size, len(s.rest))
	n := copy(dst, s.head[:s.headLen])
	n += copy(dst[n:], s.rest[:payload])
	s.rest = s.rest[payload:]
	s.finish(dst[:n])
	return n
}

// finish gives a piece its own lengths, number, flags and checksums.
func (s *super) finish(piece []byte) {
	if s.v4 {
		ip := header.IPv4(piece)
		ip.SetTotalLength(uint16(len(piece)))
		ip.SetID(s.id + uint16(s.index))
		ip.SetChecksum(0)
		ip.SetChecksum(^header.Sum(piece[:s.l4], 0))
	} else {
		header.IPv6(piece).SetPayloadLength(uint16(len(piece) - header.IPv6Len))
	}
	segment := piece[s.l4:]
	pseudo := header.Add(s.pseudo, uint16(len(segment)))
	if s.udp {
		h := header.UDP(segment)
		h.SetLength(uint16(len(segment)))
		h.SetChecksum(pseudo)
		h.SetChecksum(header.UDPChecksum(header.Sum(segment, 0)))
	} else {
		h := header.TCP(segment)
		h.SetSeq(s.seq + uint32(s.index*s.size))
		h.SetFlags(s.pieceFlags())
		h.SetChecksum(pseudo)
		h.SetChecksum(^header.Sum(segment, 0))
	}
	s.index++
}

// pieceFlags returns the TCP flags of the next piece: FIN and PSH are the
// last's, CWR is the first's (RFC 3168 section 6.1.2, tcp_gso_segment).
func (s *super) pieceFlags() uint8 {
	flags := s.flags
	if len(s.rest) > 0 {
		flags &^= header.TCPFin | header.TCPPsh
	}
	if s.index > 0 {
		flags &^= header.TCPCwr
	}
	return flags
}
