package header

import "encoding/binary"

// EthernetLen is the length in bytes of an untagged Ethernet header.
const EthernetLen = 14

// The EtherTypes that the tunnels know (IANA, IEEE 802 numbers).
const (
	EtherTypeIPv4 = 0x0800
	EtherTypeARP  = 0x0806
	EtherTypeVLAN = 0x8100
	EtherTypeIPv6 = 0x86dd
)

// Broadcast is the Ethernet address of every station.
var Broadcast = [6]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// Ethernet is a view on an Ethernet II header without a VLAN tag (IEEE 802.3).
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+---------------------------------------------------------------+
//	|                          Destination                          |
//	|                               +-------------------------------+
//	|                               |                               |
//	+-------------------------------+                               |
//	|                            Source                             |
//	+-------------------------------+-------------------------------+
//	|           EtherType           |
//	+-------------------------------+
type Ethernet []byte

// EthernetFields are the parts of an Ethernet header.
type EthernetFields struct {
	Dst, Src  [6]byte
	EtherType uint16
}

// Encode writes f over the first EthernetLen bytes.
func (h Ethernet) Encode(f EthernetFields) {
	h.SetDst(f.Dst)
	h.SetSrc(f.Src)
	h.SetEtherType(f.EtherType)
}

// Dst returns the destination address.
func (h Ethernet) Dst() [6]byte { return [6]byte(h[0:6]) }

// Src returns the source address.
func (h Ethernet) Src() [6]byte { return [6]byte(h[6:12]) }

// EtherType returns what the frame carries.
func (h Ethernet) EtherType() uint16 { return binary.BigEndian.Uint16(h[12:14]) }

// SetDst sets the destination address.
func (h Ethernet) SetDst(a [6]byte) { copy(h[0:6], a[:]) }

// SetSrc sets the source address.
func (h Ethernet) SetSrc(a [6]byte) { copy(h[6:12], a[:]) }

// SetEtherType sets what the frame carries.
func (h Ethernet) SetEtherType(t uint16) { binary.BigEndian.PutUint16(h[12:14], t) }

// IsMulticast says whether an Ethernet address names a group, broadcast
// included: the lowest bit of its first byte (IEEE 802.3, I/G).
func IsMulticast(a [6]byte) bool { return a[0]&1 != 0 }
