// Package encaptest is the suite that every encap.Codec runs.
//
// A [Suite] names two codecs, the sender's and the receiver's, and the way
// between them. [Suite.Run] holds what the contract promises: what is pushed
// pops out again, and decodes with a foreign decoder (gopacket) with all its
// checksums right; the bytes are those of the golden file; every truncation is
// dropped and nothing panics; a flipped bit never yields another packet; order
// is kept around drops; no allocation; no state shared between workers.
// [Suite.Fuzz] and [Suite.Bench] do the rest.
//
// It is for tests only.
package encaptest
