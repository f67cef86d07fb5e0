package gen

import "encoding/binary"

// ICMP echo, RFC 792 and RFC 4443 section 4: the two differ in the type only.
//
//	 0                   1                   2                   3
//	|      type     |     code      |           checksum            |
//	|           identifier          |        sequence number        |
//	|  token: which call sent it (8 bytes), then filler             |
const (
	echoRequest4, echoReply4 = 8, 0
	echoRequest6, echoReply6 = 128, 129

	echoHeader = 8
	tokenBytes = 8
)

// echo is what tells our replies from everybody else's.
type echo struct {
	request, reply byte // ICMP types
	id             uint16
	token          uint64
}

// put writes a request with sequence number seq over b, whose filler stays.
func (e echo) put(b []byte, seq uint16) {
	b[0], b[1], b[2], b[3] = e.request, 0, 0, 0
	binary.BigEndian.PutUint16(b[4:], e.id)
	binary.BigEndian.PutUint16(b[6:], seq)
	binary.BigEndian.PutUint64(b[echoHeader:], e.token)
	// The kernel fills ICMPv6's, which covers addresses too (RFC 3542, 3.1).
	binary.BigEndian.PutUint16(b[2:], checksum(b))
}

// get returns the sequence number of a reply to one of our requests.
func (e echo) get(b []byte) (seq uint16, ok bool) {
	ok = len(b) >= echoHeader+tokenBytes &&
		b[0] == e.reply && b[1] == 0 &&
		binary.BigEndian.Uint16(b[4:]) == e.id &&
		binary.BigEndian.Uint64(b[echoHeader:]) == e.token
	if !ok {
		return 0, false
	}
	return binary.BigEndian.Uint16(b[6:]), true
}

// checksum is that of RFC 1071.
func checksum(b []byte) uint16 {
	var sum uint32
	for ; len(b) >= 2; b = b[2:] {
		sum += uint32(binary.BigEndian.Uint16(b))
	}
	if len(b) == 1 {
		sum += uint32(b[0]) << 8
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}
