package header

import (
	"encoding/binary"
	"math/bits"
)

// Sum returns the ones' complement sum of b's 16-bit words in network order,
// starting from initial, folded to 16 bits and not inverted (RFC 1071). An odd
// last byte counts as if a zero followed. initial is the sum of what came
// before, which must have been of even length.
//
// Memory is read little-endian, 64 bits at a time, and the result's bytes are
// swapped once: the sum does not care about byte order (RFC 1071 section 2.B).
// Two carry chains run side by side, so that one's latency hides the other's.
// For 1,400 bytes that took 38 ns where a loop over 16-bit words took 440, one
// chain of eight words 69, and 32-bit loads into four sums 59.
func Sum(b []byte, initial uint16) uint16 {
	var even, odd, carries uint64
	for len(b) >= 64 {
		p := (*[64]byte)(b)
		var c uint64
		even, c = bits.Add64(even, binary.LittleEndian.Uint64(p[0:8]), 0)
		even, c = bits.Add64(even, binary.LittleEndian.Uint64(p[8:16]), c)
		even, c = bits.Add64(even, binary.LittleEndian.Uint64(p[16:24]), c)
		even, c = bits.Add64(even, binary.LittleEndian.Uint64(p[24:32]), c)
		carries += c
		odd, c = bits.Add64(odd, binary.LittleEndian.Uint64(p[32:40]), 0)
		odd, c = bits.Add64(odd, binary.LittleEndian.Uint64(p[40:48]), c)
		odd, c = bits.Add64(odd, binary.LittleEndian.Uint64(p[48:56]), c)
		odd, c = bits.Add64(odd, binary.LittleEndian.Uint64(p[56:64]), c)
		carries += c
		b = b[64:]
	}
	sum := even>>32 + even&0xffffffff + odd>>32 + odd&0xffffffff
	sum += carries + uint64(bits.ReverseBytes16(initial))
	return fold(sumTail(b, sum))
}

// sumTail adds what is shorter than a block. sum has room for the carries: it
// is below 2^40 on entry.
func sumTail(b []byte, sum uint64) uint64 {
	for len(b) >= 8 {
		w := binary.LittleEndian.Uint64(b)
		sum += w>>32 + w&0xffffffff
		b = b[8:]
	}
	if len(b) >= 4 {
		sum += uint64(binary.LittleEndian.Uint32(b))
		b = b[4:]
	}
	if len(b) >= 2 {
		sum += uint64(binary.LittleEndian.Uint16(b))
		b = b[2:]
	}
	if len(b) == 1 {
		sum += uint64(b[0])
	}
	return sum
}

// fold reduces a sum of little-endian words to 16 bits in network order. Only
// a sum of nothing but zeros gives zero. Adding a number to itself with its
// halves swapped leaves, in the upper half, the sum of the halves and of the
// carry between them.
func fold(sum uint64) uint16 {
	sum32 := uint32((sum + bits.RotateLeft64(sum, 32)) >> 32)
	return bits.ReverseBytes16(uint16((sum32 + bits.RotateLeft32(sum32, 16)) >> 16))
}

// Add returns the ones' complement sum of a and b.
func Add(a, b uint16) uint16 {
	sum := uint32(a) + uint32(b)
	return uint16(sum>>16 + sum)
}

// Valid says whether the checksum inside b holds: the sum over everything it
// covers, itself included, is all ones. initial is the pseudo-header's sum, or
// zero.
func Valid(b []byte, initial uint16) bool { return Sum(b, initial) == 0xffff }

// Update returns the checksum after one of the 16-bit words it covers changed
// from old to new (RFC 1624, equation 3).
func Update(checksum, old, new uint16) uint16 {
	return ^Add(Add(^checksum, ^old), new)
}
