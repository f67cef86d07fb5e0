package fib

import (
	"net/netip"

	"github.com/gaissmai/bart"

	"flanx/encap"
)

// entry is what a hop is, compiled.
type entry struct {
	hop            Hop
	fast, fallback encap.Path
}

// slots is the memory that snapshots share. It only ever grows at its end,
// within its capacity, so that what a snapshot sees stays as it is; when it is
// full, the live entries move to a new one.
type slots struct {
	hops           []Hop
	fast, fallback []encap.Path // nil when there is no such codec
}

// slack is how many changes fit between two moves of live entries: enough that
// a change costs sixteen copies on average, too little to matter in memory.
func slack(live int) int { return live/16 + 64 }

func newSlots(live int, fast, fallback bool) slots {
	n := live + slack(live)
	s := slots{hops: make([]Hop, 0, n)}
	if fast {
		s.fast = make([]encap.Path, 0, n)
	}
	if fallback {
		s.fallback = make([]encap.Path, 0, n)
	}
	return s
}

// fits says whether n entries can be added, and the memory is not far larger
// than live entries need.
func (s *slots) fits(n, live int) bool {
	return len(s.hops)+n <= cap(s.hops) && cap(s.hops) <= 2*(live+slack(live))
}

// add writes e behind the end and returns its index.
func (s *slots) add(e *entry) uint32 {
	s.hops = append(s.hops, e.hop)
	if s.fast != nil {
		s.fast = append(s.fast, e.fast)
	}
	if s.fallback != nil {
		s.fallback = append(s.fallback, e.fallback)
	}
	return uint32(len(s.hops) - 1)
}

// get returns the i-th entry.
func (s *slots) get(i uint32) entry {
	e := entry{hop: s.hops[i]}
	if s.fast != nil {
		e.fast = s.fast[i]
	}
	if s.fallback != nil {
		e.fallback = s.fallback[i]
	}
	return e
}

// edit changes a prefix table that readers may hold: few changes copy the nodes
// they touch (10 µs each at 65,536 routes), many work on one copy of the whole
// (2 ms).
type edit struct {
	lpm    *bart.Fast[uint32]
	copied bool
}

func newEdit(lpm *bart.Fast[uint32], changes int) edit {
	if changes > 8+lpm.Size()/256 {
		return edit{lpm.Clone(), true}
	}
	return edit{lpm, false}
}

func (e *edit) insert(p netip.Prefix, hop uint32) {
	if e.copied {
		e.lpm.Insert(p, hop)
		return
	}
	e.lpm = e.lpm.InsertPersist(p, hop)
}

func (e *edit) remove(p netip.Prefix) {
	if e.copied {
		e.lpm.Delete(p)
		return
	}
	e.lpm = e.lpm.DeletePersist(p)
}
