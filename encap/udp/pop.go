package udp

import (
	"flanx/dataplane/packet"
	"flanx/encap"
	"flanx/encap/header"
)

// Pop unwraps every packet of b and takes one hop from its TTL. See
// header.Outer.Parse for how the outer headers are judged; then a packet is
// dropped as BadEtherType when the payload is not IPv4, Short when it is
// shorter than an IPv4 header, BadECN or TTLExceeded.
func (c *Codec) Pop(b *packet.Batch) {
	if c.layer == encap.Datagram {
		for i := range b.Len() {
			if reason, ok := acceptable(b.Bytes(i)); !ok {
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

func (c *Codec) popFrame(b *packet.Batch, i int) (reason packet.Reason, ok bool) {
	frame := b.Bytes(i)
	var outer header.Outer
	if reason, ok := outer.Parse(frame, &c.tunnel); !ok {
		return reason, false
	}
	if outer.IPv6 {
		return packet.BadOuter, false // flannel's udp backend is not spoken over IPv6
	}
	inner := frame[outer.Payload:outer.End]
	if reason, ok := acceptable(inner); !ok {
		return reason, false
	}
	if reason, ok := header.DecapECN(outer.ECN, inner); !ok {
		return reason, false
	}
	b.Trim(i, outer.End)
	b.Pop(i, outer.Payload)
	buf := b.At(i)
	buf.Peer, buf.PeerPort = outer.Src, outer.SrcPort
	return 0, true
}

// acceptable judges a datagram's payload and takes its hop.
func acceptable(inner []byte) (reason packet.Reason, ok bool) {
	switch {
	case len(inner) < header.IPv4Len:
		return packet.Short, false
	case header.IPVersion(inner) != 4:
		return packet.BadEtherType, false
	case !header.IPv4(inner).DecrementTTL():
		return packet.TTLExceeded, false
	}
	return 0, true
}
