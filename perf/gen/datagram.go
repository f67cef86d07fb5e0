package gen

import (
	"bytes"
	"encoding/binary"
)

// minDatagram is the length of the datagram's head: flow (2 bytes), sequence
// number (6), and a check that follows from both and the seed (8).
const minDatagram = 16

// datagrams writes and reads the payloads of one flood.
type datagrams struct {
	seed   uint64
	filler []byte // what follows the head, in every datagram
}

func newDatagrams(seed uint64, size int) datagrams {
	return datagrams{seed: seed, filler: payload(seed, size-minDatagram)}
}

func (d datagrams) size() int { return minDatagram + len(d.filler) }

// put writes one datagram's head; the filler was laid down before by fill.
func (d datagrams) put(b []byte, flow uint16, seq uint64) {
	head := uint64(flow)<<48 | seq
	binary.BigEndian.PutUint64(b, head)
	binary.BigEndian.PutUint64(b[8:], mix(d.seed^head))
}

func (d datagrams) fill(b []byte) { copy(b[minDatagram:], d.filler) }

// get reads a datagram; ok says that it is one of this flood's, unchanged.
func (d datagrams) get(b []byte) (flow uint16, seq uint64, ok bool) {
	if len(b) != d.size() {
		return 0, 0, false
	}
	head := binary.BigEndian.Uint64(b)
	ok = binary.BigEndian.Uint64(b[8:]) == mix(d.seed^head) && bytes.Equal(b[minDatagram:], d.filler)
	return uint16(head >> 48), head & (1<<48 - 1), ok
}
