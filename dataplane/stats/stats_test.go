package stats

import (
	"testing"

	"flanx/dataplane/packet"
)

func totals(n uint64) Totals {
	t := Totals{Received: 10 * n, Delivered: 8 * n, Bytes: 100 * n, Batches: n}
	t.Drops[packet.NoRoute], t.Drops[packet.TooBig] = n, n
	return t
}

func TestReadersSeeWhatWasPublished(t *testing.T) {
	var d Direction
	for _, n := range []uint64{1, 5} {
		want := totals(n)
		d.Publish(&want)
		if got := d.Totals(); got != want {
			t.Errorf("read %+v, want %+v", got, want)
		}
		if got := want.Dropped(); got != 2*n {
			t.Errorf("dropped %d, want %d", got, 2*n)
		}
	}
}

func TestSumAddsUpAllWorkers(t *testing.T) {
	var a, b Worker
	one, two := totals(1), totals(2)
	a.Egress.Publish(&one)
	b.Egress.Publish(&two)
	b.Ingress.Publish(&one)
	a.Turns.Store(3)
	b.Turns.Store(4)
	a.Waits.Store(1)
	got := Sum([]*Worker{&a, &b})
	if got.Egress != totals(3) || got.Ingress != totals(1) || got.Turns != 7 || got.Waits != 1 {
		t.Errorf("sum %+v", got)
	}
}
