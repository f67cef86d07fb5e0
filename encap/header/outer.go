package header

import (
	"encoding/binary"

	"flanx/dataplane/packet"
)

// Tunnel says which frames belong to a UDP tunnel, and how closely to look at
// them.
type Tunnel struct {
	// Port is the UDP destination port, in host order.
	Port uint16
	// Shim is the number of bytes between the UDP header and the inner IP
	// packet.
	Shim int
	// Verify says whether to verify the outer UDP checksum where there is one.
	Verify bool
}

// Outer is what Parse found in front of a tunnel's payload.
type Outer struct {
	Payload int      // where the UDP payload starts in the frame
	End     int      // one past its last byte
	Src     [16]byte // the outer source as netip.Addr.As16: IPv4 is IPv4-mapped
	SrcPort uint16
	ECN     uint8 // the outer ECN field
	IPv6    bool  // the outer header is IPv6
}

// Parse reads the outer Ethernet, IP and UDP headers of a frame. It judges as
// the kernel's own receive path does, so that a packet meets the same verdict
// whether it comes by AF_XDP or by a UDP socket:
//
//   - IPv4 options are skipped; a bad header checksum is [packet.BadChecksum];
//   - bytes behind the IP packet are Ethernet padding, and bytes behind the UDP
//     length are surplus (RFC 9868): neither counts to the payload;
//   - lengths that claim more than is there are [packet.Short];
//   - UDP checksum zero is accepted over IPv4, as RFC 7348 section 4.1 demands,
//     and refused over IPv6 (RFC 8200 section 8.1);
//   - a fragment, another protocol (IPv6 extension headers too), another port
//     and all contradictions are [packet.BadOuter].
//
// With t.Verify the UDP checksum must hold, in one of three forms, the latter
// two because a kernel that sends over a veth leaves checksums to hardware that
// is not there: a full checksum over what arrived; only the pseudo-header's
// sum (CHECKSUM_PARTIAL); or a full checksum made as if the inner checksum,
// left unfilled, were filled in (local checksum offload,
// Documentation/networking/checksum-offloads.rst). The last is proved by
// filling in the inner checksum, as [RepairInnerChecksum] does: that is the
// only change Parse makes to the frame. The latter two vouch for the headers
// only, since nobody has summed the payload yet.
//
// Not ok means drop, for the reason; o is then of no use. Any bytes are safe.
func (o *Outer) Parse(frame []byte, t *Tunnel) (reason packet.Reason, ok bool) {
	if len(frame) < EthernetLen {
		return packet.Short, false
	}
	switch Ethernet(frame).EtherType() {
	case EtherTypeIPv4:
		return o.parse4(frame[EthernetLen:], t)
	case EtherTypeIPv6:
		return o.parse6(frame[EthernetLen:], t)
	default:
		return packet.BadOuter, false
	}
}

func (o *Outer) parse4(ip []byte, t *Tunnel) (reason packet.Reason, ok bool) {
	if len(ip) < IPv4Len {
		return packet.Short, false
	}
	h := IPv4(ip)
	n, total := h.HeaderLen(), h.TotalLength()
	switch {
	case h.Version() != 4 || n < IPv4Len || total < n:
		return packet.BadOuter, false
	case total > len(ip):
		return packet.Short, false
	case !h.ValidChecksum(n):
		return packet.BadChecksum, false
	case h.IsFragment() || h.Protocol() != ProtocolUDP:
		return packet.BadOuter, false
	}
	u, reason, ok := cutUDP(ip[n:total], t)
	if !ok {
		return reason, false
	}
	if t.Verify && u.Checksum() != 0 && !verifyUDP(u, h.PseudoSum(ProtocolUDP, len(u)), t.Shim) {
		return packet.BadChecksum, false
	}
	binary.BigEndian.PutUint64(o.Src[0:8], 0)
	binary.BigEndian.PutUint64(o.Src[8:16], 0xffff<<32|uint64(binary.BigEndian.Uint32(h[12:16])))
	o.ECN, o.IPv6 = h.TOS()&ecnMask, false
	o.found(EthernetLen+n, u)
	return 0, true
}

func (o *Outer) parse6(ip []byte, t *Tunnel) (reason packet.Reason, ok bool) {
	if len(ip) < IPv6Len {
		return packet.Short, false
	}
	h := IPv6(ip)
	total := IPv6Len + h.PayloadLength()
	switch {
	case h.Version() != 6:
		return packet.BadOuter, false
	case total > len(ip):
		return packet.Short, false
	case h.NextHeader() != ProtocolUDP:
		return packet.BadOuter, false
	}
	u, reason, ok := cutUDP(ip[IPv6Len:total], t)
	if !ok {
		return reason, false
	}
	if u.Checksum() == 0 || t.Verify && !verifyUDP(u, h.PseudoSum(ProtocolUDP, len(u)), t.Shim) {
		return packet.BadChecksum, false
	}
	o.Src = h.Src()
	o.ECN, o.IPv6 = h.TrafficClass()&ecnMask, true
	o.found(EthernetLen+IPv6Len, u)
	return 0, true
}

// found fills in what follows from where the datagram starts in the frame.
func (o *Outer) found(at int, u UDP) {
	o.Payload, o.End = at+UDPLen, at+len(u)
	o.SrcPort = u.SrcPort()
}

// cutUDP returns the datagram that an IP payload starts with.
func cutUDP(payload []byte, t *Tunnel) (u UDP, reason packet.Reason, ok bool) {
	if len(payload) < UDPLen {
		return nil, packet.Short, false
	}
	u = UDP(payload)
	n := u.Length()
	switch {
	case n < UDPLen:
		return nil, packet.BadOuter, false
	case n > len(payload):
		return nil, packet.Short, false
	case u.DstPort() != t.Port:
		return nil, packet.BadOuter, false
	}
	return u[:n], 0, true
}

// verifyUDP says whether the checksum of u, which is not zero, holds in one of
// the forms that Parse accepts.
func verifyUDP(u UDP, pseudo uint16, shim int) bool {
	if u.Checksum() == pseudo {
		return true
	}
	sum := Sum(u, pseudo)
	if sum == 0xffff {
		return true
	}
	if len(u) <= UDPLen+shim {
		return false
	}
	// Shim and IP header lengths are even, so the field that was filled in
	// is one of the words of this sum.
	before, after, ok := repairInner(u[UDPLen+shim:])
	return ok && Add(Add(sum, ^before), after) == 0xffff
}
