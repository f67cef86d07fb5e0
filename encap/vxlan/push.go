package vxlan

import (
	"encoding/binary"
	"math/bits"

	"flanx/dataplane/packet"
	"flanx/encap"
	"flanx/encap/header"
)

// Push wraps every packet of b. A packet is dropped as Short when it is empty,
// BadEtherType when it is neither IPv4 nor IPv6, TooBig when it exceeds the
// MTU, and Unresolved when its path is not Ready, so that nothing is ever sent
// to an Ethernet address of zeros.
func (c *Codec) Push(b *packet.Batch, paths []encap.Path) {
	for i := range b.Len() {
		buf := b.At(i)
		path := &paths[buf.Hop]
		inner := b.Bytes(i)
		etherType, reason, ok := c.sendable(inner, path)
		if !ok {
			b.Drop(i, reason)
			continue
		}
		buf.Peer, buf.PeerPort = path.Peer, path.PeerPort
		switch path.Len {
		case frameOverhead4:
			h := (*[frameOverhead4]byte)(b.Push(i, frameOverhead4))
			*h = [frameOverhead4]byte(path.Header[:frameOverhead4])
			c.finish4(h, inner, buf.Hash, etherType)
		case frameOverhead6:
			h := (*[frameOverhead6]byte)(b.Push(i, frameOverhead6))
			*h = path.Header
			c.finish6(h, inner, buf.Hash, etherType)
		default:
			h := (*[shim]byte)(b.Push(i, shim))
			*h = [shim]byte(path.Header[:shim])
			header.Ethernet(h[header.VXLANLen:]).SetEtherType(etherType)
		}
	}
}

// sendable judges an inner packet, and says what the inner frame carries.
func (c *Codec) sendable(inner []byte, path *encap.Path) (etherType uint16, reason packet.Reason, ok bool) {
	switch header.IPVersion(inner) {
	case 4:
		etherType = header.EtherTypeIPv4
	case 6:
		etherType = header.EtherTypeIPv6
	default:
		if len(inner) == 0 {
			return 0, packet.Short, false
		}
		return 0, packet.BadEtherType, false
	}
	most := c.maxInner4
	if !mapped(&path.Peer) {
		most = c.maxInner6
	}
	switch {
	case len(inner) > most:
		return 0, packet.TooBig, false
	case !path.Ready:
		return 0, packet.Unresolved, false
	}
	return etherType, 0, true
}

// finish4 fills in what depends on the packet.
func (c *Codec) finish4(h *[frameOverhead4]byte, inner []byte, hash uint32, etherType uint16) {
	length := uint16(len(inner))
	ip := header.IPv4(h[header.EthernetLen:])
	id := ipID(hash, inner)
	ip.SetTotalLength(length + IPOverhead4)
	ip.SetID(id)
	ip.SetChecksum(header.Update(ip.Checksum(), 0, header.Add(length+IPOverhead4, id)))

	u := header.UDP(h[header.EthernetLen+header.IPv4Len:])
	header.Ethernet(u[header.UDPLen+header.VXLANLen:]).SetEtherType(etherType)
	sum := c.finishUDP(u, length, hash)
	if c.noChecksum {
		u.SetChecksum(0)
		return
	}
	u.SetChecksum(header.UDPChecksum(header.Sum(inner, header.Add(sum, etherType))))
}

// finish6 fills in what depends on the packet.
func (c *Codec) finish6(h *[frameOverhead6]byte, inner []byte, hash uint32, etherType uint16) {
	length := uint16(len(inner))
	header.IPv6(h[header.EthernetLen:]).SetPayloadLength(length + header.UDPLen + shim)

	u := header.UDP(h[header.EthernetLen+header.IPv6Len:])
	header.Ethernet(u[header.UDPLen+header.VXLANLen:]).SetEtherType(etherType)
	sum := c.finishUDP(u, length, hash)
	u.SetChecksum(header.UDPChecksum(header.Sum(inner, header.Add(sum, etherType))))
}

// finishUDP sets source port and length, and returns the sum over pseudo-header
// and headers without the inner EtherType.
func (c *Codec) finishUDP(u header.UDP, inner uint16, hash uint32) (sum uint16) {
	length := inner + header.UDPLen + shim
	port := c.srcPort(hash)
	u.SetSrcPort(port)
	u.SetLength(length)
	sum = header.Add(u.Checksum(), port)
	return header.Add(sum, header.Add(length, length)) // in the pseudo-header and in the header
}

// srcPort maps a flow's hash into the range of source ports, each port with an
// equal share of hashes, as udp_flow_src_port in net/udp.h does.
func (c *Codec) srcPort(hash uint32) uint16 {
	return uint16(c.srcPortMin + uint32(uint64(hash)*c.srcPortSpan>>32))
}

// ipID returns an outer IPv4 ID; the package comment says what it has to be
// good for.
func ipID(hash uint32, inner []byte) uint16 {
	const segment4 = header.IPv4Len // where ports and sequence number begin
	const segment6 = header.IPv6Len
	n := len(inner)
	if n < segment4+8 {
		return uint16(hash)
	}
	at := segment4
	if inner[0]>>4 == 6 && n >= segment6+8 {
		at = segment6
	}
	lengths := binary.LittleEndian.Uint64(inner[2:10])
	segment := binary.LittleEndian.Uint64(inner[at : at+8])
	last := binary.LittleEndian.Uint64(inner[n-8:])
	x := (lengths^uint64(hash))*0x9e3779b97f4a7c15 ^ segment ^ bits.RotateLeft64(last, 32)
	return uint16(x * 0x9e3779b97f4a7c15 >> 48)
}
