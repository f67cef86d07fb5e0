package header

import "encoding/binary"

// IPv6Len is the length in bytes of an IPv6 header without extensions.
const IPv6Len = 40

// Next headers that are extensions (IANA).
const (
	NextHopByHop = 0
	NextRouting  = 43
	NextFragment = 44
	NextNone     = 59
	NextDstOpts  = 60
)

// IPv6 is a view on an IPv6 header (RFC 8200).
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-------+---------------+---------------------------------------+
//	|Version| Traffic class |              Flow label               |
//	+-------+---------------+-------+---------------+---------------+
//	|        Payload length         |  Next header  |   Hop limit   |
//	+-------------------------------+---------------+---------------+
//	|                       Source (16 bytes)                       |
//	+---------------------------------------------------------------+
//	|                    Destination (16 bytes)                     |
//	+---------------------------------------------------------------+
type IPv6 []byte

// IPv6Fields are the parts of an IPv6 header.
type IPv6Fields struct {
	TrafficClass  uint8
	FlowLabel     uint32 // 20 bits
	PayloadLength uint16 // what follows the header, bytes
	NextHeader    uint8
	HopLimit      uint8
	Src, Dst      [16]byte
}

// Encode writes f over the first IPv6Len bytes.
func (h IPv6) Encode(f IPv6Fields) {
	binary.BigEndian.PutUint32(h[0:4], 6<<28|uint32(f.TrafficClass)<<20|f.FlowLabel&0xfffff)
	h.SetPayloadLength(f.PayloadLength)
	h[6] = f.NextHeader
	h[7] = f.HopLimit
	copy(h[8:24], f.Src[:])
	copy(h[24:40], f.Dst[:])
}

// Version returns the IP version; 6 in a sound header.
func (h IPv6) Version() uint8 { return h[0] >> 4 }

// TrafficClass returns DSCP in the upper six bits and ECN below.
func (h IPv6) TrafficClass() uint8 { return uint8(binary.BigEndian.Uint16(h[0:2]) >> 4) }

// FlowLabel returns the flow label, 20 bits.
func (h IPv6) FlowLabel() uint32 { return binary.BigEndian.Uint32(h[0:4]) & 0xfffff }

// PayloadLength returns how many bytes follow the header.
func (h IPv6) PayloadLength() int { return int(binary.BigEndian.Uint16(h[4:6])) }

// NextHeader returns what follows the header.
func (h IPv6) NextHeader() uint8 { return h[6] }

// HopLimit returns the hops left.
func (h IPv6) HopLimit() uint8 { return h[7] }

// Src returns the source address.
func (h IPv6) Src() [16]byte { return [16]byte(h[8:24]) }

// Dst returns the destination address.
func (h IPv6) Dst() [16]byte { return [16]byte(h[24:40]) }

// SetPayloadLength sets how many bytes follow the header.
func (h IPv6) SetPayloadLength(n uint16) { binary.BigEndian.PutUint16(h[4:6], n) }

// PseudoSum returns the sum over the pseudo-header of an upper-layer packet of
// length bytes (RFC 8200 section 8.1).
func (h IPv6) PseudoSum(protocol uint8, length int) uint16 {
	p := (*[32]byte)(h[8:40])
	sum := pseudoTail(protocol, length)
	for i := 0; i < len(p); i += 8 {
		w := binary.LittleEndian.Uint64(p[i : i+8])
		sum += w>>32 + w&0xffffffff
	}
	return fold(sum)
}

// DecrementHopLimit takes one hop. It says no, and changes nothing, when the
// hop is not there to take: at hop limit 0 and 1 the packet has reached its end.
func (h IPv6) DecrementHopLimit() bool {
	if h[7] <= 1 {
		return false
	}
	h[7]--
	return true
}

// setTrafficClass sets DSCP and ECN. IPv6 has no header checksum.
func (h IPv6) setTrafficClass(tc uint8) {
	h[0] = h[0]&0xf0 | tc>>4
	h[1] = tc<<4 | h[1]&0x0f
}
