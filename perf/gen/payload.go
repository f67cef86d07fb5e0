package gen

import (
	"encoding/binary"
	"math/rand/v2"
)

// payload returns n bytes that follow from seed and look random: they neither
// compress nor repeat.
func payload(seed uint64, n int) []byte {
	var key [32]byte
	binary.BigEndian.PutUint64(key[:], seed)
	b := make([]byte, n)
	_, _ = rand.NewChaCha8(key).Read(b) // never fails
	return b
}

// mix spreads every bit of x over all bits of the result (the finalizer of
// SplitMix64: Steele, Lea, Flood, OOPSLA 2014).
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
