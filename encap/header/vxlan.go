package header

import "encoding/binary"

// VXLANLen is the length in bytes of a VXLAN header.
const VXLANLen = 8

// Bits of the first word of a VXLAN header.
const (
	VXLANFlagVNI   = 1 << 27  // I: the VNI is valid (RFC 7348 section 5)
	VXLANFlagGBP   = 1 << 31  // G: a group policy stands in the lower bits (draft-smith-vxlan-group-policy)
	VXLANPolicyGBP = 0xffffff // what the kernel lets a group policy use besides G (VXLAN_GBP_USED_BITS in net/vxlan.h)
)

// MaxVNI is the largest VXLAN network identifier.
const MaxVNI = 1<<24 - 1

// VXLAN is a view on a VXLAN header (RFC 7348 section 5).
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-----------------------------------------------+
//	|G|R|R|R|I|R|R|R|           Reserved, or group policy           |
//	+-+-+-+-+-+-+-+-+-------------------------------+---------------+
//	|                      VNI                      |   Reserved    |
//	+-----------------------------------------------+---------------+
type VXLAN []byte

// VXLANFields are the parts of a VXLAN header.
type VXLANFields struct {
	Flags uint32 // the first word
	VNI   uint32 // 24 bits
}

// Encode writes f over the first VXLANLen bytes.
func (h VXLAN) Encode(f VXLANFields) {
	binary.BigEndian.PutUint32(h[0:4], f.Flags)
	binary.BigEndian.PutUint32(h[4:8], f.VNI<<8)
}

// Flags returns the first word: the flags and what is reserved beside them.
func (h VXLAN) Flags() uint32 { return binary.BigEndian.Uint32(h[0:4]) }

// VNI returns the network identifier, 24 bits.
func (h VXLAN) VNI() uint32 { return binary.BigEndian.Uint32(h[4:8]) >> 8 }

// Word returns the whole header as one number, to compare it at once.
func (h VXLAN) Word() uint64 { return binary.BigEndian.Uint64(h[0:8]) }
