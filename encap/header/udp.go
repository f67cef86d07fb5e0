package header

import "encoding/binary"

// UDPLen is the length in bytes of a UDP header.
const UDPLen = 8

// UDP is a view on a UDP header (RFC 768).
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-------------------------------+-------------------------------+
//	|          Source port          |       Destination port        |
//	+-------------------------------+-------------------------------+
//	|            Length             |           Checksum            |
//	+-------------------------------+-------------------------------+
type UDP []byte

// UDPFields are the parts of a UDP header.
type UDPFields struct {
	SrcPort, DstPort uint16
	Length           uint16 // header and payload, bytes
	Checksum         uint16 // 0: none
}

// Encode writes f over the first UDPLen bytes. The checksum is written as
// given, since it covers more than this header.
func (h UDP) Encode(f UDPFields) {
	h.SetSrcPort(f.SrcPort)
	binary.BigEndian.PutUint16(h[2:4], f.DstPort)
	h.SetLength(f.Length)
	h.SetChecksum(f.Checksum)
}

// SrcPort returns the source port.
func (h UDP) SrcPort() uint16 { return binary.BigEndian.Uint16(h[0:2]) }

// DstPort returns the destination port.
func (h UDP) DstPort() uint16 { return binary.BigEndian.Uint16(h[2:4]) }

// Length returns the length of header and payload in bytes.
func (h UDP) Length() int { return int(binary.BigEndian.Uint16(h[4:6])) }

// Checksum returns the checksum; 0 means that the sender made none.
func (h UDP) Checksum() uint16 { return binary.BigEndian.Uint16(h[6:8]) }

// SetSrcPort sets the source port.
func (h UDP) SetSrcPort(p uint16) { binary.BigEndian.PutUint16(h[0:2], p) }

// SetLength sets the length of header and payload.
func (h UDP) SetLength(n uint16) { binary.BigEndian.PutUint16(h[4:6], n) }

// SetChecksum sets the checksum.
func (h UDP) SetChecksum(c uint16) { binary.BigEndian.PutUint16(h[6:8], c) }

// UDPChecksum turns the sum over pseudo-header, header and payload into the
// checksum field: inverted, and all ones where that gives zero, since zero
// means that there is none (RFC 768).
func UDPChecksum(sum uint16) uint16 {
	if sum == 0xffff {
		return 0xffff
	}
	return ^sum
}
