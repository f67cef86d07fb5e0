package udpsock

import (
	"flanx/dataplane/packet"
	"flanx/encap/header"
)

// superMax is the most that one datagram can be, in bytes.
const superMax = 1 << 16

// superSpan is how many datagrams in a row must fit their frames before the port
// takes many at once again: a stranger who sends a datagram that is too long now
// and then must not slow the port down for good.
const superSpan = 1024

// super cuts datagrams that hold a TCP segment of up to 64 KiB into such as one
// frame holds.
//
// They come from a kernel's VXLAN device at the other end of a veth with offloads
// on. It leaves it to the device below to cut the inner segment and to finish its
// checksum, and veth does neither. Runs of plain UDP the kernel takes apart before
// a socket that did not ask for them (udp_unexpected_gso in include/net/udp.h);
// a tunnel's it gives to the socket whole, and does not tell the size of the
// pieces. For TCP any size does. An inner UDP run is plain UDP to that check.
type super struct {
	inner    int // bytes of tunnel header before the inner IP packet
	maxInner int // bytes of the largest inner IP packet; 0: nothing is cut

	left  int // datagrams to take one at a time
	data  []byte
	total int // bytes of the datagram in data
	head  int // bytes of its headers, which go before every piece
	at    int // where the next piece begins
	size  int // bytes of payload in a piece
}

// on says whether datagrams are taken one at a time.
func (s *super) on() bool { return s.left > 0 }

// tooLong says whether a datagram holds more than one inner packet can be.
func (s *super) tooLong(n int) bool { return s.maxInner > 0 && n > s.inner+s.maxInner }

// start makes the port take them so: one was met that did not fit.
func (s *super) start() {
	if s.maxInner == 0 {
		return
	}
	if s.data == nil {
		s.data = make([]byte, superMax)
	}
	s.left = superSpan
}

// pending says whether there are pieces to come.
func (s *super) pending() bool { return s.at < s.total }

// begin looks at the datagram of n bytes in data. Only a sound TCP segment can be
// cut, and only one whose checksum was left to be finished, or holds.
func (s *super) begin(n int) (reason packet.Reason, ok bool) {
	s.total, s.at = 0, 0
	if n < s.inner+header.IPv4Len {
		return packet.Truncated, false
	}
	ip := header.IPv4(s.data[s.inner:n])
	length := ip.HeaderLen()
	if ip.Version() != 4 || length < header.IPv4Len || ip.TotalLength() != len(ip) || len(ip) < length+header.TCPLen ||
		ip.Protocol() != header.ProtocolTCP || ip.IsFragment() || !ip.ValidChecksum(length) {
		return packet.Truncated, false
	}
	tcp := header.TCP(ip[length:])
	offset := tcp.HeaderLen()
	const plain = header.TCPFin | header.TCPPsh | header.TCPAck | header.TCPEce | header.TCPCwr
	if offset < header.TCPLen || len(tcp) <= offset || tcp.Flags()&^plain != 0 {
		return packet.Truncated, false
	}
	if pseudo := ip.PseudoSum(header.ProtocolTCP, len(tcp)); tcp.Checksum() != pseudo && !header.Valid(tcp, pseudo) {
		return packet.BadChecksum, false
	}
	s.head, s.size = s.inner+length+offset, s.maxInner-length-offset
	if s.size <= 0 {
		return packet.Truncated, false
	}
	s.total, s.at = n, s.head
	return 0, true
}

// next writes the next piece into space and returns its length, 0 if it does not
// fit there. What each piece's headers have to be is what tcp_gso_segment
// (net/ipv4/tcp_offload.c) and inet_gso_segment make of them.
func (s *super) next(space []byte) int {
	size := min(s.size, s.total-s.at)
	n := s.head + size
	if n > len(space) {
		return 0
	}
	copy(space, s.data[:s.head])
	copy(space[s.head:], s.data[s.at:s.at+size])
	first, last := s.at == s.head, s.at+size == s.total
	ip := header.IPv4(space[s.inner:n])
	tcp := header.TCP(ip[ip.HeaderLen():])
	tcp.SetSeq(tcp.Seq() + uint32(s.at-s.head))
	tcp.SetFlags(pieceFlags(tcp.Flags(), first, last))
	ip.SetID(ip.ID() + uint16((s.at-s.head)/s.size))
	ip.SetTotalLength(uint16(len(ip)))
	ip.SetChecksum(0)
	ip.SetChecksum(^header.Sum(ip[:ip.HeaderLen()], 0))
	tcp.SetChecksum(0)
	tcp.SetChecksum(^header.Sum(tcp, ip.PseudoSum(header.ProtocolTCP, len(tcp))))
	s.at += size
	return n
}

// pieceFlags leaves CWR to the first piece, PSH and FIN to the last.
func pieceFlags(flags uint8, first, last bool) uint8 {
	if !first {
		flags &^= header.TCPCwr
	}
	if !last {
		flags &^= header.TCPPsh | header.TCPFin
	}
	return flags
}
