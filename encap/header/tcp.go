package header

import "encoding/binary"

// TCPLen is the length in bytes of a TCP header without options.
const TCPLen = 20

// TCP flags (RFC 9293, RFC 3168).
const (
	TCPFin = 1 << iota
	TCPSyn
	TCPRst
	TCPPsh
	TCPAck
	TCPUrg
	TCPEce
	TCPCwr
)

// TCP is a view on a TCP header (RFC 9293).
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-------------------------------+-------------------------------+
//	|          Source port          |       Destination port        |
//	+-------------------------------+-------------------------------+
//	|                        Sequence number                        |
//	+---------------------------------------------------------------+
//	|                     Acknowledgment number                     |
//	+-------+-------+---------------+-------------------------------+
//	|Offset | Rsrvd |     Flags     |            Window             |
//	+-------+-------+---------------+-------------------------------+
//	|           Checksum            |        Urgent pointer         |
//	+-------------------------------+-------------------------------+
type TCP []byte

// TCPFields are the parts of a TCP header without options.
type TCPFields struct {
	SrcPort, DstPort uint16
	Seq, Ack         uint32
	Flags            uint8
	Window           uint16
	Checksum         uint16
}

// Encode writes f over the first TCPLen bytes. The checksum is written as
// given, since it covers more than this header.
func (h TCP) Encode(f TCPFields) {
	binary.BigEndian.PutUint16(h[0:2], f.SrcPort)
	binary.BigEndian.PutUint16(h[2:4], f.DstPort)
	h.SetSeq(f.Seq)
	binary.BigEndian.PutUint32(h[8:12], f.Ack)
	h[12] = TCPLen / 4 << 4
	h[13] = f.Flags
	binary.BigEndian.PutUint16(h[14:16], f.Window)
	h.SetChecksum(f.Checksum)
	binary.BigEndian.PutUint16(h[18:20], 0)
}

// SrcPort returns the source port.
func (h TCP) SrcPort() uint16 { return binary.BigEndian.Uint16(h[0:2]) }

// DstPort returns the destination port.
func (h TCP) DstPort() uint16 { return binary.BigEndian.Uint16(h[2:4]) }

// Seq returns the sequence number.
func (h TCP) Seq() uint32 { return binary.BigEndian.Uint32(h[4:8]) }

// Ack returns the acknowledgment number.
func (h TCP) Ack() uint32 { return binary.BigEndian.Uint32(h[8:12]) }

// HeaderLen returns the header's length in bytes by its offset field: 0 to 60.
// Less than TCPLen is unsound.
func (h TCP) HeaderLen() int { return int(h[12]>>4) * 4 }

// Flags returns the flags.
func (h TCP) Flags() uint8 { return h[13] }

// Window returns the window as it stands, not scaled.
func (h TCP) Window() uint16 { return binary.BigEndian.Uint16(h[14:16]) }

// Checksum returns the checksum.
func (h TCP) Checksum() uint16 { return binary.BigEndian.Uint16(h[16:18]) }

// Urgent returns the urgent pointer.
func (h TCP) Urgent() uint16 { return binary.BigEndian.Uint16(h[18:20]) }

// SetSeq sets the sequence number.
func (h TCP) SetSeq(n uint32) { binary.BigEndian.PutUint32(h[4:8], n) }

// SetFlags sets the flags.
func (h TCP) SetFlags(f uint8) { h[13] = f }

// SetChecksum sets the checksum.
func (h TCP) SetChecksum(c uint16) { binary.BigEndian.PutUint16(h[16:18], c) }
