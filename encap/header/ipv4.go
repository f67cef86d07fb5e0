package header

import (
	"encoding/binary"
	"math/bits"
)

// IPv4Len is the length in bytes of an IPv4 header without options.
const IPv4Len = 20

// Bits of the IPv4 flags and fragment offset word (RFC 791).
const (
	IPv4DontFragment   = 0x4000
	IPv4MoreFragments  = 0x2000
	IPv4FragmentOffset = 0x1fff // in units of 8 bytes
)

// IP protocol numbers (IANA), which IPv6 calls next header.
const (
	ProtocolICMP   = 1
	ProtocolTCP    = 6
	ProtocolUDP    = 17
	ProtocolICMPv6 = 58
	ProtocolSCTP   = 132
)

// IPVersion returns the version of the IP packet p: its first four bits. It
// says 0 for an empty packet.
func IPVersion(p []byte) uint8 {
	if len(p) == 0 {
		return 0
	}
	return p[0] >> 4
}

// IPv4 is a view on an IPv4 header (RFC 791).
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-------+-------+---------------+-------------------------------+
//	|Version|  IHL  |      TOS      |         Total length          |
//	+-------+-------+---------------+-----+-------------------------+
//	|              ID               |Flags|     Fragment offset     |
//	+---------------+---------------+-----+-------------------------+
//	|      TTL      |   Protocol    |        Header checksum        |
//	+---------------+---------------+-------------------------------+
//	|                            Source                             |
//	+---------------------------------------------------------------+
//	|                          Destination                          |
//	+---------------------------------------------------------------+
type IPv4 []byte

// IPv4Fields are the parts of an IPv4 header without options.
type IPv4Fields struct {
	TOS         uint8
	TotalLength uint16 // header and payload, bytes
	ID          uint16
	Fragment    uint16 // flags and fragment offset as one word
	TTL         uint8
	Protocol    uint8
	Src, Dst    [4]byte
}

// Encode writes f over the first IPv4Len bytes, with its header checksum.
func (h IPv4) Encode(f IPv4Fields) {
	h[0] = 4<<4 | IPv4Len/4
	h[1] = f.TOS
	h.SetTotalLength(f.TotalLength)
	h.SetID(f.ID)
	binary.BigEndian.PutUint16(h[6:8], f.Fragment)
	h[8] = f.TTL
	h[9] = f.Protocol
	h.SetChecksum(0)
	copy(h[12:16], f.Src[:])
	copy(h[16:20], f.Dst[:])
	h.SetChecksum(^Sum(h[:IPv4Len], 0))
}

// Version returns the IP version; 4 in a sound header.
func (h IPv4) Version() uint8 { return h[0] >> 4 }

// HeaderLen returns the header's length in bytes by its IHL field: 0 to 60.
// Less than IPv4Len is unsound.
func (h IPv4) HeaderLen() int { return int(h[0]&0xf) * 4 }

// TOS returns the type of service: DSCP in the upper six bits, ECN below.
func (h IPv4) TOS() uint8 { return h[1] }

// TotalLength returns the length of header and payload in bytes.
func (h IPv4) TotalLength() int { return int(binary.BigEndian.Uint16(h[2:4])) }

// ID returns the identification.
func (h IPv4) ID() uint16 { return binary.BigEndian.Uint16(h[4:6]) }

// Fragment returns the flags and the fragment offset as one word.
func (h IPv4) Fragment() uint16 { return binary.BigEndian.Uint16(h[6:8]) }

// IsFragment says whether the packet is a part of a fragmented one.
func (h IPv4) IsFragment() bool {
	return h.Fragment()&(IPv4MoreFragments|IPv4FragmentOffset) != 0
}

// TTL returns the time to live in hops.
func (h IPv4) TTL() uint8 { return h[8] }

// Protocol returns what the packet carries.
func (h IPv4) Protocol() uint8 { return h[9] }

// Checksum returns the header checksum.
func (h IPv4) Checksum() uint16 { return binary.BigEndian.Uint16(h[10:12]) }

// Src returns the source address.
func (h IPv4) Src() [4]byte { return [4]byte(h[12:16]) }

// Dst returns the destination address.
func (h IPv4) Dst() [4]byte { return [4]byte(h[16:20]) }

// SetTotalLength sets the length of header and payload, and leaves the
// checksum as it is.
func (h IPv4) SetTotalLength(n uint16) { binary.BigEndian.PutUint16(h[2:4], n) }

// SetID sets the identification, and leaves the checksum as it is.
func (h IPv4) SetID(id uint16) { binary.BigEndian.PutUint16(h[4:6], id) }

// SetChecksum sets the header checksum.
func (h IPv4) SetChecksum(c uint16) { binary.BigEndian.PutUint16(h[10:12], c) }

// PseudoSum returns the sum over the pseudo-header of a TCP or UDP segment of
// length bytes (RFC 768, RFC 9293 section 3.1).
func (h IPv4) PseudoSum(protocol uint8, length int) uint16 {
	sum, carry := bits.Add64(binary.LittleEndian.Uint64(h[12:20]), pseudoTail(protocol, length), 0)
	return fold(sum + carry)
}

// ValidChecksum says whether the header checksum holds over n bytes of header,
// which is IPv4Len plus the options.
func (h IPv4) ValidChecksum(n int) bool {
	if n != IPv4Len {
		return Valid(h[:n], 0)
	}
	p := (*[IPv4Len]byte)(h) // without options, as nearly always: no loop
	sum, carry := bits.Add64(binary.LittleEndian.Uint64(p[0:8]), binary.LittleEndian.Uint64(p[8:16]), 0)
	sum, carry = bits.Add64(sum, uint64(binary.LittleEndian.Uint32(p[16:20])), carry)
	return fold(sum+carry) == 0xffff
}

// DecrementTTL takes one hop from the TTL and patches the checksum (RFC 1624).
// It says no, and changes nothing, when the hop is not there to take: at TTL 0
// and 1 the packet has reached its end.
func (h IPv4) DecrementTTL() bool {
	ttl := h[8]
	if ttl <= 1 {
		return false
	}
	old := binary.BigEndian.Uint16(h[8:10])
	h[8] = ttl - 1
	h.SetChecksum(Update(h.Checksum(), old, old-1<<8))
	return true
}

// setTOS sets the type of service and patches the checksum.
func (h IPv4) setTOS(tos uint8) {
	old := binary.BigEndian.Uint16(h[0:2])
	h[1] = tos
	h.SetChecksum(Update(h.Checksum(), old, old&0xff00|uint16(tos)))
}

// pseudoTail is the part of a pseudo-header that both IP versions share, in the
// byte order that fold expects.
func pseudoTail(protocol uint8, length int) uint64 {
	return uint64(bits.ReverseBytes16(uint16(protocol))) +
		uint64(bits.ReverseBytes16(uint16(length))) +
		uint64(bits.ReverseBytes16(uint16(length>>16)))
}
