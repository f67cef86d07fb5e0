package stats

import (
	"sync/atomic"

	"flanx/dataplane/packet"
)

// Worker is the counters of one worker. It is used by pointer and padded, so
// that two workers never write one cache line.
type Worker struct {
	_       [64]byte
	Egress  Direction // from the TUN to the underlay
	Ingress Direction // from the underlay to the TUN
	Waits   atomic.Uint64
	Turns   atomic.Uint64
	_       [64]byte
}

// Direction is the counters of one way through a worker.
//
//	Received = Delivered + the sum of Drops + what the worker holds right now
type Direction struct {
	Received  atomic.Uint64 // packets that a port handed in
	Delivered atomic.Uint64 // packets that the far port took
	Bytes     atomic.Uint64 // inner bytes of packets on their way to the far port, before its verdict
	Batches   atomic.Uint64 // non-empty batches
	Drops     [packet.NumReasons]atomic.Uint64
}

// Totals is one direction's counters as a plain value: what a worker counts in
// between two publications, and what a reader gets.
type Totals struct {
	Received, Delivered, Bytes, Batches uint64
	Drops                               [packet.NumReasons]uint64
}

// Publish makes t visible to readers. Only the owning worker calls it.
func (d *Direction) Publish(t *Totals) {
	d.Received.Store(t.Received)
	d.Delivered.Store(t.Delivered)
	d.Bytes.Store(t.Bytes)
	d.Batches.Store(t.Batches)
	for r := range t.Drops {
		if t.Drops[r] != 0 { // most reasons stay at zero for ever
			d.Drops[r].Store(t.Drops[r])
		}
	}
}

// Totals reads the counters.
func (d *Direction) Totals() Totals {
	t := Totals{
		Received:  d.Received.Load(),
		Delivered: d.Delivered.Load(),
		Bytes:     d.Bytes.Load(),
		Batches:   d.Batches.Load(),
	}
	for r := range t.Drops {
		t.Drops[r] = d.Drops[r].Load()
	}
	return t
}

// Dropped returns the sum over all reasons.
func (t *Totals) Dropped() uint64 {
	var n uint64
	for _, d := range t.Drops {
		n += d
	}
	return n
}

// Add adds u to t.
func (t *Totals) Add(u Totals) {
	t.Received += u.Received
	t.Delivered += u.Delivered
	t.Bytes += u.Bytes
	t.Batches += u.Batches
	for r := range t.Drops {
		t.Drops[r] += u.Drops[r]
	}
}

// Snapshot is what all workers together did.
type Snapshot struct {
	Egress, Ingress Totals
	Waits, Turns    uint64
}

// Sum reads and adds up the counters of several workers.
func Sum(workers []*Worker) Snapshot {
	var s Snapshot
	for _, w := range workers {
		s.Egress.Add(w.Egress.Totals())
		s.Ingress.Add(w.Ingress.Totals())
		s.Waits += w.Waits.Load()
		s.Turns += w.Turns.Load()
	}
	return s
}
