package tun

import (
	"encoding/binary"

	"golang.org/x/sys/unix"

	"flanx/encap/header"
)

// vnetLen is the length in bytes of the header before each packet on a queue
// that was opened with offloads.
const vnetLen = 10

// vnet is a view on a struct virtio_net_hdr (linux/virtio_net.h), in host byte
// order as tun.c takes it unless told otherwise:
//
//	 0       1      2        4          6            8             10
//	| flags | type | hdr len | gso size | csum start | csum offset |
type vnet []byte

func (h vnet) flags() uint8    { return h[0] }
func (h vnet) kind() uint8     { return h[1] &^ unix.VIRTIO_NET_HDR_GSO_ECN }
func (h vnet) gsoSize() int    { return int(binary.NativeEndian.Uint16(h[4:])) }
func (h vnet) csumStart() int  { return int(binary.NativeEndian.Uint16(h[6:])) }
func (h vnet) csumOffset() int { return int(binary.NativeEndian.Uint16(h[8:])) }

// vnetFields are the parts of the header of a packet that the kernel is to cut.
type vnetFields struct {
	kind                                 uint8
	hdrLen, gsoSize, csumStart, csumOffs int
}

// encode writes the header of a packet that still lacks its checksum and may be
// cut into pieces of gsoSize.
func (h vnet) encode(f vnetFields) {
	h[0], h[1] = unix.VIRTIO_NET_HDR_F_NEEDS_CSUM, f.kind
	binary.NativeEndian.PutUint16(h[2:], uint16(f.hdrLen))
	binary.NativeEndian.PutUint16(h[4:], uint16(f.gsoSize))
	binary.NativeEndian.PutUint16(h[6:], uint16(f.csumStart))
	binary.NativeEndian.PutUint16(h[8:], uint16(f.csumOffs))
}

// complete fills in the checksum that the kernel left to the device: the field
// holds the sum of the pseudo-header, and everything from csumStart on is still
// to be added (skb_checksum_help in net/core/dev.c). It says no, and changes
// nothing, when the header points outside the packet.
func (h vnet) complete(pkt []byte) bool {
	if h.flags()&unix.VIRTIO_NET_HDR_F_NEEDS_CSUM == 0 {
		return true
	}
	start, at := h.csumStart(), h.csumStart()+h.csumOffset()
	if at+2 > len(pkt) {
		return false
	}
	sum := header.UDPChecksum(header.Sum(pkt[start:], 0)) // never zero, whatever the protocol
	binary.BigEndian.PutUint16(pkt[at:], sum)
	return true
}
