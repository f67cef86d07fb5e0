package vxlan

import (
	"flanx/dataplane/packet"
	"flanx/encap"
	"flanx/encap/header"
)

// Pop unwraps every packet of b. See header.Outer.Parse for how the outer
// headers are judged and the package comment for what must hold inside; the
// reasons are Reserved, WrongVNI, BadInnerMAC, BadEtherType, Short, BadInner
// when EtherType and IP version differ, and BadECN. A packet over a family
// that we do not speak is BadOuter.
func (c *Codec) Pop(b *packet.Batch) {
	if c.layer == encap.Datagram {
		for i := range b.Len() {
			if reason, ok := c.popDatagram(b, i); !ok {
				b.Drop(i, reason)
			}
		}
		return
	}
	for i := range b.Len() {
		if reason, ok := c.popFrame(b, i); !ok {
			b.Drop(i, reason)
		}
	}
}

func (c *Codec) popDatagram(b *packet.Batch, i int) (reason packet.Reason, ok bool) {
	buf := b.At(i)
	if reason, ok := c.acceptable(b.Bytes(i), !mapped(&buf.Peer)); !ok {
		return reason, false
	}
	b.Pop(i, shim)
	return 0, true
}

func (c *Codec) popFrame(b *packet.Batch, i int) (reason packet.Reason, ok bool) {
	frame := b.Bytes(i)
	var outer header.Outer
	if reason, ok := outer.Parse(frame, &c.tunnel); !ok {
		return reason, false
	}
	payload := frame[outer.Payload:outer.End]
	if reason, ok := c.acceptable(payload, outer.IPv6); !ok {
		return reason, false
	}
	if reason, ok := header.DecapECN(outer.ECN, payload[shim:]); !ok {
		return reason, false
	}
	b.Trim(i, outer.End)
	b.Pop(i, outer.Payload+shim)
	buf := b.At(i)
	buf.Peer, buf.PeerPort = outer.Src, outer.SrcPort
	return 0, true
}

// acceptable judges a datagram's payload: VXLAN header, inner Ethernet header,
// and that an IP packet of the right version follows.
func (c *Codec) acceptable(p []byte, ipv6 bool) (reason packet.Reason, ok bool) {
	if len(p) <= shim {
		return packet.Short, false
	}
	if vx := header.VXLAN(p); vx.Word()&^c.ignored != c.expected {
		return c.refuse(vx), false
	}
	own := c.vtep(ipv6)
	if own.IsZero() {
		return packet.BadOuter, false
	}
	eth := header.Ethernet(p[header.VXLANLen:])
	if dst := eth.Dst(); dst != own && dst != header.Broadcast {
		return packet.BadInnerMAC, false
	}
	if src := eth.Src(); src == own || header.IsMulticast(src) {
		return packet.BadInnerMAC, false
	}
	version := header.IPVersion(p[shim:])
	switch eth.EtherType() {
	case header.EtherTypeIPv4:
		return packet.BadInner, version == 4
	case header.EtherTypeIPv6:
		return packet.BadInner, version == 6
	default:
		return packet.BadEtherType, false
	}
}

// refuse says what is wrong with a VXLAN header that is not the expected one,
// in the kernel's order.
func (c *Codec) refuse(vx header.VXLAN) packet.Reason {
	switch {
	case vx.Flags()&header.VXLANFlagVNI == 0:
		return packet.Reserved
	case vx.VNI() != c.vni:
		return packet.WrongVNI
	default:
		return packet.Reserved
	}
}
