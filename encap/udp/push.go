package udp

import (
	"flanx/dataplane/packet"
	"flanx/encap"
	"flanx/encap/header"
)

// Push wraps every packet of b. A packet is dropped as BadEtherType when it is
// not IPv4, TTLExceeded when its TTL runs out here, and TooBig when it exceeds
// the MTU; as Unresolved when its path is not Ready, so that nothing is ever
// sent to an Ethernet address of zeros.
func (c *Codec) Push(b *packet.Batch, paths []encap.Path) {
	if c.layer == encap.Datagram {
		c.pushDatagrams(b, paths)
		return
	}
	for i := range b.Len() {
		path := &paths[b.At(i).Hop]
		if reason, ok := c.sendable(b.Bytes(i), path); !ok {
			b.Drop(i, reason)
			continue
		}
		pushFrame(b, i, path)
	}
}

func (c *Codec) pushDatagrams(b *packet.Batch, paths []encap.Path) {
	for i := range b.Len() {
		buf := b.At(i)
		path := &paths[buf.Hop]
		if reason, ok := c.sendable(b.Bytes(i), path); !ok {
			b.Drop(i, reason)
			continue
		}
		buf.Peer, buf.PeerPort = path.Peer, path.PeerPort
	}
}

// sendable judges an inner packet and takes its hop.
func (c *Codec) sendable(inner []byte, path *encap.Path) (reason packet.Reason, ok bool) {
	switch {
	case len(inner) < header.IPv4Len:
		return packet.Short, false
	case header.IPVersion(inner) != 4:
		return packet.BadEtherType, false
	case len(inner) > c.maxInner:
		return packet.TooBig, false
	case !path.Ready:
		return packet.Unresolved, false
	case !header.IPv4(inner).DecrementTTL():
		return packet.TTLExceeded, false
	}
	return 0, true
}

// pushFrame copies the path's headers before the packet and fills in what
// depends on the packet.
func pushFrame(b *packet.Batch, i int, path *encap.Path) {
	inner := b.Bytes(i)
	buf := b.At(i)
	buf.Peer, buf.PeerPort = path.Peer, path.PeerPort
	h := (*[frameOverhead]byte)(b.Push(i, frameOverhead))
	*h = [frameOverhead]byte(path.Header[:frameOverhead])

	length := uint16(len(inner))
	ip := header.IPv4(h[header.EthernetLen:])
	ip.SetTotalLength(length + IPOverhead)
	ip.SetChecksum(header.Update(ip.Checksum(), 0, length+IPOverhead))

	u := header.UDP(h[header.EthernetLen+header.IPv4Len:])
	length += header.UDPLen
	sum := header.Sum(inner, u.Checksum())
	sum = header.Add(sum, header.Add(length, length)) // in the pseudo-header and in the header
	u.SetLength(length)
	u.SetChecksum(header.UDPChecksum(sum))
}
