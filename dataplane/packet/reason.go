package packet

// Reason says why a packet was dropped. Each has one counter per worker and
// direction, and one line in docs/drops.md.
type Reason uint8

// The reasons. A new one is added before NumReasons, with its name below.
const (
	// Short: a header is cut off, or a length field claims more than arrived.
	Short Reason = iota
	// BadOuter: the outer Ethernet, IP or UDP header contradicts itself.
	BadOuter
	// BadChecksum: a checksum that must hold does not.
	BadChecksum
	// Reserved: the VXLAN header has reserved bits set, or the I flag clear.
	Reserved
	// WrongVNI: the VXLAN network identifier is not ours.
	WrongVNI
	// BadInnerMAC: the inner Ethernet addresses are not those of the tunnel.
	BadInnerMAC
	// BadEtherType: the inner frame is neither IPv4 nor IPv6 as the backend carries them.
	BadEtherType
	// BadInner: the inner IP header contradicts itself.
	BadInner
	// UnknownPeer: the outer source is not a member of the overlay.
	UnknownPeer
	// SpoofedSource: the inner source is not in the sending member's subnet.
	SpoofedSource
	// NotOurs: the inner destination is not in our subnet; we relay for nobody.
	NotOurs
	// NoRoute: no lease covers the inner destination.
	NoRoute
	// TTLExceeded: the inner TTL or hop limit ran out.
	TTLExceeded
	// TooBig: the packet with its outer headers exceeds the MTU of the path.
	TooBig
	// Truncated: the datagram was longer than the frame.
	Truncated
	// Unresolved: the next hop's MAC is not known and no other way is open.
	Unresolved
	// SendFailed: the kernel refused the packet on the underlay.
	SendFailed
	// TunWriteFailed: the kernel refused the packet on the TUN.
	TunWriteFailed
	// BadECN: an ECN combination that RFC 6040 says to drop.
	BadECN

	// NumReasons is the number of reasons.
	NumReasons
)

var reasonNames = [NumReasons]string{
	Short: "short", BadOuter: "bad_outer", BadChecksum: "bad_checksum",
	Reserved: "reserved", WrongVNI: "wrong_vni", BadInnerMAC: "bad_inner_mac",
	BadEtherType: "bad_ethertype", BadInner: "bad_inner", UnknownPeer: "unknown_peer",
	SpoofedSource: "spoofed_source", NotOurs: "not_ours", NoRoute: "no_route",
	TTLExceeded: "ttl_exceeded", TooBig: "too_big", Truncated: "truncated",
	Unresolved: "unresolved",
	SendFailed: "send_failed", TunWriteFailed: "tun_write_failed",
	BadECN: "bad_ecn",
}

// String returns the reason's name as it stands in metrics: lower case with
// underscores.
func (r Reason) String() string {
	if r < NumReasons {
		return reasonNames[r]
	}
	return "unknown"
}
