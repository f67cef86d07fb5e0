package hostnet

import "fmt"

// Bytes that encapsulation adds to a packet on the wire, inner Ethernet header
// included, as flannel counts them.
const (
	overheadUDP     = 28 // IPv4 20, UDP 8
	overheadVXLAN   = 50 // IPv4 20, UDP 8, VXLAN 8, Ethernet 14
	overheadVXLANv6 = 70 // IPv6 40, UDP 8, VXLAN 8, Ethernet 14
)

// Smallest MTUs that the kernel lets a family live on (RFC 791, RFC 8200).
const (
	minMTU4 = 68
	minMTU6 = 1280
)

// MTU is the largest packet in bytes that the overlay carries, by family of the
// inner packet; 0 for a family that is off.
type MTU struct {
	V4, V6 int
	// Underlay is the MTU that they were computed from.
	Underlay int
	// Clamped says that the configured MTU exceeds the interface's, which was
	// taken instead.
	Clamped bool
}

// Link returns the MTU for the TUN device and for subnet.env. On a dual-stack
// node that is IPv4's, as with flannel; the IPv6 route carries its own.
func (m MTU) Link() int { return max(m.V4, m.V6) }

// OverlayMTU computes the overlay's MTU. backend is the lower-case backend type,
// link the underlay interface's MTU, and configured the network configuration's
// Backend.MTU, which is an MTU of the underlay too; 0 means not configured. A
// backend without encapsulation keeps the underlay's MTU. IPv6 packets travel in
// outer IPv6 packets, whose header is 20 bytes longer.
//
// The error is [ErrMTU] when a family cannot live on what is left.
func OverlayMTU(backend string, link, configured int, v4, v6 bool) (MTU, error) {
	m := MTU{Underlay: link}
	if configured > 0 {
		m.Underlay = min(link, configured)
		m.Clamped = configured > link
	}
	over4, over6 := overhead(backend)
	if v4 {
		m.V4 = m.Underlay - over4
	}
	if v6 {
		m.V6 = m.Underlay - over6
	}
	switch {
	case v4 && m.V4 < minMTU4:
		return MTU{}, tooSmall("IPv4", m.Underlay, minMTU4+over4)
	case v6 && m.V6 < minMTU6:
		return MTU{}, tooSmall("IPv6", m.Underlay, minMTU6+over6)
	}
	return m, nil
}

func overhead(backend string) (over4, over6 int) {
	switch backend {
	case "udp":
		return overheadUDP, overheadUDP + 20
	case "vxlan":
		return overheadVXLAN, overheadVXLANv6
	}
	return 0, 0
}

func tooSmall(family string, underlay, need int) error {
	return fmt.Errorf("compute overlay MTU: %w: %s needs %d bytes on the underlay, it has %d: "+
		"raise the interface's MTU or Backend.MTU", ErrMTU, family, need, underlay)
}
