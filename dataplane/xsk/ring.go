package xsk

import (
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// ring is one side's view of a single-producer, single-consumer ring. Indexes
// count entries since the start, wrap at 2^32, and are masked for access; the
// size is a power of two. Each side publishes its own index with release
// semantics after it touched the entries, and reads the other's with acquire
// semantics before it touches them. Go's atomics give both.
type ring[T any] struct {
	entries []T
	own     *uint32 // index that this side publishes
	other   *uint32 // index that the other side publishes
	flags   *uint32 // set by the kernel; nil where the ring has none

	next uint32 // our index, ahead of *own until it is published
	seen uint32 // last *other that was read
}

// newRing views entries and the indexes, and resumes where they stand.
func newRing[T any](entries []T, own, other, flags *uint32) ring[T] {
	return ring[T]{
		entries: entries, own: own, other: other, flags: flags,
		next: atomic.LoadUint32(own), seen: atomic.LoadUint32(other),
	}
}

func (r *ring[T]) size() uint32 { return uint32(len(r.entries)) }

func (r *ring[T]) slot(i uint32) *T { return &r.entries[i&(r.size()-1)] }

// needWakeup says whether the kernel sleeps until it is called about this ring.
func (r *ring[T]) needWakeup() bool {
	return atomic.LoadUint32(r.flags)&unix.XDP_RING_NEED_WAKEUP != 0
}

// producer is the side that writes entries: ours of the fill and TX rings.
type producer[T any] struct{ ring[T] }

// free returns how many entries can be put, want at most. It reads the other
// side's index only when what it saw last does not suffice.
func (p *producer[T]) free(want uint32) uint32 {
	n := p.size() - (p.next - p.seen)
	if n < want {
		p.seen = atomic.LoadUint32(p.other)
		used := p.next - p.seen
		if used > p.size() { // the other side's index makes no sense
			return 0
		}
		n = p.size() - used
	}
	return min(n, want)
}

// put writes one entry. The caller has seen with free that there is a slot; the
// other side sees the entry after submit.
func (p *producer[T]) put(v T) {
	*p.slot(p.next) = v
	p.next++
}

// submit publishes what was put.
func (p *producer[T]) submit() { atomic.StoreUint32(p.own, p.next) }

// pending returns how many entries the other side has not consumed.
func (p *producer[T]) pending() uint32 { return p.next - atomic.LoadUint32(p.other) }

// consumer is the side that reads entries: ours of the RX and completion rings.
type consumer[T any] struct{ ring[T] }

// peek returns how many entries can be read, want at most. It reads the other
// side's index only when nothing is left of what it saw last.
func (c *consumer[T]) peek(want uint32) uint32 {
	n := c.seen - c.next
	if n == 0 {
		c.seen = atomic.LoadUint32(c.other)
		n = c.seen - c.next
		if n > c.size() { // the other side's index makes no sense
			c.seen = c.next
			return 0
		}
	}
	return min(n, want)
}

// at returns the i-th of the entries that peek found. The copy is ours: the
// slot may be reused after release.
func (c *consumer[T]) at(i uint32) T { return *c.slot(c.next + i) }

// release gives the first n of the peeked entries back to the producer.
func (c *consumer[T]) release(n uint32) {
	c.next += n
	atomic.StoreUint32(c.own, c.next)
}
