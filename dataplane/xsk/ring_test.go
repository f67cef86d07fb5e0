package xsk

import (
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// memory is a ring over plain memory, with both sides' views of it.
type memory[T any] struct {
	producer, consumer, flags uint32
	entries                   []T
}

// newMemory makes a ring whose indexes both stand at start.
func newMemory[T any](slots int, start uint32) *memory[T] {
	return &memory[T]{producer: start, consumer: start, entries: make([]T, slots)}
}

func (m *memory[T]) producerSide() producer[T] {
	return producer[T]{newRing(m.entries, &m.producer, &m.consumer, &m.flags)}
}

func (m *memory[T]) consumerSide() consumer[T] {
	return consumer[T]{newRing(m.entries, &m.consumer, &m.producer, &m.flags)}
}

// starts are places for the indexes to begin at: zero, and just before the two
// wrap-arounds (of the sign bit and of the whole word).
func starts(slots int) []uint32 {
	var s []uint32
	for back := range uint32(slots) + 2 {
		s = append(s, back, math.MaxInt32-back, math.MaxUint32-back)
	}
	return s
}

// pair plays both sides of one ring against a queue that cannot be wrong.
type pair struct {
	t     *testing.T
	p     producer[uint64]
	c     consumer[uint64]
	slots uint32
	model []uint64 // submitted and not yet released
	next  uint64   // the next value to put
	trace []step
}

// step is one thing that was done, for the message when it goes wrong.
type step struct {
	op   string
	a, b uint32
}

func newPair(t *testing.T, slots int, start uint32) *pair {
	m := newMemory[uint64](slots, start)
	return &pair{t: t, p: m.producerSide(), c: m.consumerSide(), slots: uint32(slots), trace: []step{{"start", start, 0}}}
}

func (x *pair) fatalf(format string, args ...any) {
	x.t.Helper()
	x.t.Fatalf("%v: %s", x.trace, fmt.Sprintf(format, args...))
}

func (x *pair) produce(want uint32) {
	x.trace = append(x.trace, step{"put", want, 0})
	room := min(want, x.slots-uint32(len(x.model)))
	if got := x.p.free(want); got != room {
		x.fatalf("free = %d, want %d", got, room)
	}
	for range room {
		x.p.put(x.next)
		x.model = append(x.model, x.next)
		x.next++
	}
	x.p.submit()
	if got := x.p.pending(); got != uint32(len(x.model)) {
		x.fatalf("pending = %d, want %d", got, len(x.model))
	}
}

// consume peeks at most want and releases all but leave of them.
func (x *pair) consume(want, leave uint32) {
	x.trace = append(x.trace, step{"take, leave", want, leave})
	n := x.c.peek(want)
	if n > want || n > uint32(len(x.model)) || (n == 0 && want > 0 && len(x.model) > 0) {
		x.fatalf("peek = %d of %d", n, len(x.model))
	}
	for i := range n {
		if got := x.c.at(i); got != x.model[i] {
			x.fatalf("entry %d is %d, want %d", i, got, x.model[i])
		}
	}
	n -= min(n, leave)
	x.c.release(n)
	x.model = x.model[n:]
}

// TestRingExhaustively plays every sequence of operations, to a depth that goes
// round the ring several times, on rings of 1, 2 and 4 slots.
func TestRingExhaustively(t *testing.T) {
	for _, slots := range []int{1, 2, 4} {
		depth := map[int]int{1: 6, 2: 5, 4: 5}[slots]
		ops := operations(uint32(slots))
		for _, start := range starts(slots) {
			for seq := range power(len(ops), depth) {
				x := newPair(t, slots, start)
				for range depth {
					ops[seq%len(ops)](x)
					seq /= len(ops)
				}
			}
		}
	}
}

// operations are all single steps worth trying on a ring of that size.
func operations(slots uint32) []func(*pair) {
	var ops []func(*pair)
	for _, n := range slices.Compact([]uint32{1, min(3, slots), slots + 1}) {
		ops = append(ops, func(x *pair) { x.produce(n) })
		ops = append(ops, func(x *pair) { x.consume(n, 0) })
	}
	return append(ops, func(x *pair) { x.consume(slots, 1) })
}

func power(base, exp int) int {
	n := 1
	for range exp {
		n *= base
	}
	return n
}

// TestRingWraps runs far enough over the wrap-around of the indexes to use each
// slot many times.
func TestRingWraps(t *testing.T) {
	x := newPair(t, 8, math.MaxUint32-100)
	for i := range uint32(500) {
		x.trace = nil
		x.produce(i % 10)
		x.consume((i*7)%10, 0)
	}
	x.consume(8, 0)
	if len(x.model) != 0 {
		t.Errorf("%d entries left", len(x.model))
	}
}

func TestRingSeesOnlyWhatIsSubmitted(t *testing.T) {
	m := newMemory[uint64](4, 0)
	p, c := m.producerSide(), m.consumerSide()
	p.put(1)
	if n := c.peek(4); n != 0 {
		t.Errorf("peek = %d before submit", n)
	}
	p.submit()
	if n := c.peek(4); n != 1 {
		t.Errorf("peek = %d after submit, want 1", n)
	}
	if p.free(4) != 3 {
		t.Error("a peeked slot was given to the producer before release")
	}
	c.release(1)
	if p.free(4) != 4 {
		t.Error("a released slot is not free")
	}
}

func TestRingResumesWhereIndexesStand(t *testing.T) {
	m := newMemory[uint64](4, 10)
	p := m.producerSide()
	p.put(7)
	p.submit()
	c := m.consumerSide() // made afterwards
	if n := c.peek(4); n != 1 || c.at(0) != 7 {
		t.Errorf("peek = %d, want the entry put before", n)
	}
}

// TestRingDistrustsIndexes: an index of the other side that makes no sense must
// not lead outside the ring, nor to more entries than it has.
func TestRingDistrustsIndexes(t *testing.T) {
	for _, bad := range []uint32{5, 100, math.MaxUint32, 1 << 31} {
		m := newMemory[uint64](4, 0)
		c := m.consumerSide()
		m.producer = bad
		if n := c.peek(4); n != 0 {
			t.Errorf("peek = %d with the producer at %d", n, bad)
		}
		m = newMemory[uint64](4, 0)
		p := m.producerSide()
		p.next = 4 // a full ring, so that free looks at the other index
		m.consumer = bad
		if n := p.free(4); n != 0 && bad != math.MaxUint32 || n > 4 {
			t.Errorf("free = %d with the consumer at %d", n, bad)
		}
	}
}

func TestNeedWakeup(t *testing.T) {
	m := newMemory[uint64](1, 0)
	p := m.producerSide()
	if p.needWakeup() {
		t.Error("need-wakeup is set on a fresh ring")
	}
	atomic.StoreUint32(&m.flags, unix.XDP_RING_NEED_WAKEUP)
	if !p.needWakeup() {
		t.Error("need-wakeup is not seen")
	}
}

// TestRingConcurrently has one goroutine produce and one consume, as we and the
// kernel do; a numbered payload shows loss, duplication and reordering, and the
// race detector shows a missing barrier.
func TestRingConcurrently(t *testing.T) {
	total := uint64(300_000)
	if testing.Short() {
		total = 20_000
	}
	m := newMemory[unix.XDPDesc](16, math.MaxUint32-1000)
	p, c := m.producerSide(), m.consumerSide()
	done := make(chan error, 1)
	go func() { done <- consumeAll(&c, total) }()
	for next := uint64(0); next < total; {
		n := p.free(5)
		for range n {
			p.put(unix.XDPDesc{Addr: next, Len: uint32(next * 3)})
			next++
		}
		if p.submit(); n == 0 {
			time.Sleep(time.Microsecond)
		}
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func consumeAll(c *consumer[unix.XDPDesc], total uint64) error {
	for want := uint64(0); want < total; {
		n := c.peek(7)
		for i := range n {
			if d := c.at(i); d.Addr != want || d.Len != uint32(want*3) {
				return fmt.Errorf("got descriptor %+v, want number %d", d, want)
			}
			want++
		}
		if c.release(n); n == 0 {
			time.Sleep(time.Microsecond)
		}
	}
	return nil
}

func BenchmarkRing(b *testing.B) {
	m := newMemory[unix.XDPDesc](256, 0)
	p, c := m.producerSide(), m.consumerSide()
	var sum uint64
	b.ReportAllocs()
	for b.Loop() {
		for i := range p.free(64) {
			p.put(unix.XDPDesc{Addr: uint64(i)})
		}
		p.submit()
		n := c.peek(64)
		for i := range n {
			sum += c.at(i).Addr
		}
		c.release(n)
	}
	if sum == 1 {
		b.Fatal("unreachable: keeps sum alive")
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/64, "ns/packet")
}
