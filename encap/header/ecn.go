package header

import "flanx/dataplane/packet"

// Values of the ECN field, the low two bits of TOS and traffic class (RFC 3168).
const (
	ECNNotECT = 0
	ECNECT1   = 1
	ECNECT0   = 2
	ECNCE     = 3

	ecnMask = 3
)

// DecapECN carries a congestion mark from the outer header to the inner packet
// (RFC 6040 section 4.2): outer CE makes an ECN-capable inner packet CE, and an
// inner packet that is not ECN-capable must be dropped, since dropping is the
// only mark that its sender understands. Other outer values change nothing;
// like the kernel (INET_ECN_decapsulate in net/inet_ecn.h) it leaves an inner
// ECT(0) alone under an outer ECT(1).
//
// Any bytes are safe. Not ok means drop, for the reason.
func DecapECN(outer uint8, inner []byte) (reason packet.Reason, ok bool) {
	if outer&ecnMask != ECNCE {
		return 0, true
	}
	return markCE(inner)
}

func markCE(inner []byte) (reason packet.Reason, ok bool) {
	switch {
	case len(inner) >= IPv4Len && inner[0]>>4 == 4:
		h := IPv4(inner)
		if h.TOS()&ecnMask == ECNNotECT {
			return packet.BadECN, false
		}
		h.setTOS(h.TOS() | ECNCE)
	case len(inner) >= IPv6Len && inner[0]>>4 == 6:
		h := IPv6(inner)
		if h.TrafficClass()&ecnMask == ECNNotECT {
			return packet.BadECN, false
		}
		h.setTrafficClass(h.TrafficClass() | ECNCE)
	default:
		return packet.Short, false
	}
	return 0, true
}
