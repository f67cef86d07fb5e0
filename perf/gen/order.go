package gen

// window is how far back an order can tell a late datagram from a second copy.
const window = 1 << 16

// order watches the sequence numbers of one flow.
type order struct {
	next uint64 // one more than the highest number seen
	seen [window / 64]uint64

	received   uint64 // first copies
	reordered  uint64 // of those, came after a higher number (RFC 4737 section 3.3)
	duplicates uint64
}

// take counts one arrival and says whether it is a first copy. A datagram older
// than the window passes for one, and as reordered, though it may be another.
func (o *order) take(seq uint64) bool {
	if seq >= o.next {
		o.advance(seq)
		o.received++
		return true
	}
	if seq+window >= o.next && o.set(seq) {
		o.duplicates++
		return false
	}
	o.received++
	o.reordered++
	return true
}

// advance forgets the numbers that leave the window, and marks seq.
func (o *order) advance(seq uint64) {
	if seq-o.next >= window {
		o.seen = [window / 64]uint64{}
	} else {
		for s := o.next; s < seq; s++ {
			o.seen[s%window/64] &^= 1 << (s % 64)
		}
	}
	o.next = seq + 1
	o.seen[seq%window/64] |= 1 << (seq % 64)
}

// set marks a number and says whether it was marked before.
func (o *order) set(seq uint64) bool {
	word, bit := &o.seen[seq%window/64], uint64(1)<<(seq%64)
	was := *word&bit != 0
	*word |= bit
	return was
}
