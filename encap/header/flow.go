package header

import (
	"encoding/binary"
	"math/bits"
)

// Odd constants with about half their bits set, to multiply and mask with: the
// fractional parts of the golden ratio, of pi and of e.
const (
	mixGolden = 0x9e3779b97f4a7c15
	mixPi     = 0x243f6a8885a308d3
	mixE      = 0xb7e151628aed2a6b
)

// FlowHash returns a hash of the flow that an inner IP packet belongs to, for
// the outer source port and for choosing a queue. Packets of one flow have one
// hash; all 32 bits are usable.
//
// The flow is protocol, addresses and ports for TCP, UDP and SCTP. Of a
// fragment only protocol and addresses are used, since only the first one has
// the ports and all must take the same way. The same goes for other protocols,
// IPv6 packets with extension headers, and packets cut off before the ports.
//
// The two directions of a connection hash differently. The hash is the same on
// every machine and in every run, so an attacker can choose flows that collide:
// nothing may depend on it but the spread of load. Any bytes are safe; what is
// no IP packet hashes to 0.
func FlowHash(inner []byte) uint32 {
	switch {
	case len(inner) >= IPv4Len && inner[0]>>4 == 4:
		return flowHash4(inner)
	case len(inner) >= IPv6Len && inner[0]>>4 == 6:
		return flowHash6(inner)
	default:
		return 0
	}
}

func flowHash4(inner []byte) uint32 {
	h := IPv4(inner)
	rest := uint64(h.Protocol()) << 32
	if !h.IsFragment() {
		rest |= ports(inner, h.HeaderLen(), h.Protocol())
	}
	return finish(mix(binary.LittleEndian.Uint64(h[12:20])^mixPi, rest^mixGolden))
}

func flowHash6(inner []byte) uint32 {
	h := IPv6(inner)
	rest := uint64(h.NextHeader())<<32 | ports(inner, IPv6Len, h.NextHeader())
	p := (*[32]byte)(h[8:40])
	src := mix(binary.LittleEndian.Uint64(p[0:8])^mixPi, binary.LittleEndian.Uint64(p[8:16])^mixGolden)
	dst := mix(binary.LittleEndian.Uint64(p[16:24])^mixE, binary.LittleEndian.Uint64(p[24:32])^mixPi)
	return finish(mix(src^bits.RotateLeft64(dst, 32), rest^mixGolden))
}

// ports returns the two ports at the start of the segment at offset at, or 0
// for a protocol without ports and for a segment without that much.
func ports(inner []byte, at int, protocol uint8) uint64 {
	if protocol != ProtocolTCP && protocol != ProtocolUDP && protocol != ProtocolSCTP {
		return 0
	}
	if at < IPv4Len || at+4 > len(inner) {
		return 0
	}
	return uint64(binary.LittleEndian.Uint32(inner[at : at+4]))
}

// mix multiplies to 128 bits and folds: every input bit reaches every output bit.
func mix(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}

// finish spreads once more and keeps the upper half, where the mixing is best.
func finish(h uint64) uint32 { return uint32(mix(h^mixE, mixGolden) >> 32) }
