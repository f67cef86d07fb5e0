package header

import "flanx/dataplane/packet"

// CheckInner judges an inner IP packet before it is routed or written to the
// TUN, on the way in as on the way out. It returns the packet's true length in
// bytes: what lies behind it (Ethernet padding) is for the caller to trim.
// Otherwise ok is false and reason says why:
//
//   - [packet.Short]: less than a header is there, or less than its length
//     field claims;
//   - [packet.BadInner]: neither IPv4 nor IPv6, or the lengths contradict each
//     other; an IPv6 jumbogram (RFC 2675) too, for no frame of ours holds one;
//   - [packet.BadChecksum]: the IPv4 header checksum does not hold.
//
// Options, extension headers, fragments and everything above IP pass unseen.
// Any bytes are safe.
func CheckInner(b []byte) (length int, reason packet.Reason, ok bool) {
	switch {
	case len(b) == 0:
		return 0, packet.Short, false
	case b[0]>>4 == 4:
		return checkInner4(b)
	case b[0]>>4 == 6:
		return checkInner6(b)
	default:
		return 0, packet.BadInner, false
	}
}

func checkInner4(b []byte) (length int, reason packet.Reason, ok bool) {
	if len(b) < IPv4Len {
		return 0, packet.Short, false
	}
	h := IPv4(b)
	n, total := h.HeaderLen(), h.TotalLength()
	switch {
	case n < IPv4Len || total < n:
		return 0, packet.BadInner, false
	case total > len(b):
		return 0, packet.Short, false
	case !h.ValidChecksum(n):
		return 0, packet.BadChecksum, false
	}
	return total, 0, true
}

func checkInner6(b []byte) (length int, reason packet.Reason, ok bool) {
	if len(b) < IPv6Len {
		return 0, packet.Short, false
	}
	h := IPv6(b)
	payload := h.PayloadLength()
	switch {
	case payload == 0 && h.NextHeader() == NextHopByHop:
		return 0, packet.BadInner, false // a jumbogram, or options that are not there
	case IPv6Len+payload > len(b):
		return 0, packet.Short, false
	}
	return IPv6Len + payload, 0, true
}

// RepairInnerChecksum fills in a TCP or UDP checksum that the sending kernel
// left to hardware, and says whether it changed the packet.
//
// A kernel that sends over a device with checksum offload writes only the
// folded sum of the pseudo-header into the field (CHECKSUM_PARTIAL,
// include/linux/skbuff.h) and leaves the rest to the card. Over a veth there is
// no card: the packet arrives here like that, inside a tunnel too. Written to a
// TUN that promises full checksums it would be thrown away by the receiving
// stack, while ping works.
//
// Exactly that is repaired: an unfragmented TCP or UDP packet, directly behind
// the IP header, whose field equals its pseudo-header sum. Anything else is
// left alone, wrong checksums included, so the receiver still sees damage.
//
// It is safe on packets that are already right: should a full checksum equal
// the pseudo-header sum by chance (one in 65,535), computing it again gives
// the same checksum. Should a damaged packet do so by chance, the damage is
// blessed; TCP over any checksum-offloading path carries that risk.
//
// Any bytes are safe. A packet whose lengths contradict each other is not
// touched.
func RepairInnerChecksum(ip []byte) bool {
	_, _, ok := repairInner(ip)
	return ok
}

// repairInner is RepairInnerChecksum, and returns the field before and after.
func repairInner(ip []byte) (before, after uint16, ok bool) {
	switch IPVersion(ip) {
	case 4:
		if len(ip) < IPv4Len {
			return 0, 0, false
		}
		h := IPv4(ip)
		n, total := h.HeaderLen(), h.TotalLength()
		if n < IPv4Len || total < n || total > len(ip) || h.IsFragment() {
			return 0, 0, false
		}
		return repairSegment(ip[n:total], h.Protocol(), h.PseudoSum(h.Protocol(), total-n))
	case 6:
		if len(ip) < IPv6Len {
			return 0, 0, false
		}
		h := IPv6(ip)
		payload := h.PayloadLength()
		if IPv6Len+payload > len(ip) {
			return 0, 0, false
		}
		return repairSegment(ip[IPv6Len:IPv6Len+payload], h.NextHeader(), h.PseudoSum(h.NextHeader(), payload))
	default:
		return 0, 0, false
	}
}

// repairSegment completes the checksum of one TCP or UDP segment if it holds
// only pseudo. Since the field then counts the pseudo-header in, the sum over
// the segment as it stands is the whole sum.
func repairSegment(segment []byte, protocol uint8, pseudo uint16) (before, after uint16, ok bool) {
	switch protocol {
	case ProtocolTCP:
		if len(segment) < TCPLen || TCP(segment).Checksum() != pseudo {
			return 0, 0, false
		}
		after = ^Sum(segment, 0)
		TCP(segment).SetChecksum(after)
	case ProtocolUDP:
		if len(segment) < UDPLen || UDP(segment).Length() != len(segment) || UDP(segment).Checksum() != pseudo {
			return 0, 0, false
		}
		after = UDPChecksum(Sum(segment, 0))
		UDP(segment).SetChecksum(after)
	default:
		return 0, 0, false
	}
	return pseudo, after, true
}
