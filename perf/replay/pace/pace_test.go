package pace

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestCheck(t *testing.T) {
	for name, c := range map[string]Config{
		"two rates": {PPS: 1, Mbps: 1}, "top and speed": {Top: true, Speed: 1}, "negative": {PPS: -1},
		"no number": {Mbps: math.NaN()}, "endless": {Speed: math.Inf(1)}, "gap": {MaxGap: -1}, "burst": {Burst: -1},
	} {
		if err := c.Check(); !errors.Is(err, ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := (Config{}).Check(); err != nil {
		t.Error(err)
	}
}

func TestSchedule(t *testing.T) {
	const ms = int64(time.Millisecond)
	type packet struct {
		at    int64
		timed bool
		bytes int
	}
	even := []packet{{100 * ms, true, 125}, {110 * ms, true, 125}, {120 * ms, true, 125}, {130 * ms, true, 125}}
	tests := []struct {
		name    string
		cfg     Config
		packets []packet
		want    []int64
	}{
		{"original", Config{}, even, []int64{0, 10 * ms, 20 * ms, 30 * ms}},
		{"half speed", Config{Speed: 0.5}, even, []int64{0, 20 * ms, 40 * ms, 60 * ms}},
		{"packets", Config{PPS: 1000}, even, []int64{0, ms, 2 * ms, 3 * ms}},
		{"bits", Config{Mbps: 1}, even, []int64{0, ms, 2 * ms, 3 * ms}},
		{"top", Config{Top: true}, even, []int64{0, 0, 0, 0}},
		{"bursts", Config{PPS: 1000, Burst: 2}, even, []int64{0, 0, 2 * ms, 2 * ms}},
		{"capped", Config{MaxGap: 4 * time.Millisecond}, even, []int64{0, 4 * ms, 8 * ms, 12 * ms}},
		{"disorder waits", Config{}, []packet{{10 * ms, true, 1}, {5 * ms, true, 1}, {20 * ms, true, 1}}, []int64{0, 0, 10 * ms}},
		{"clock set back", Config{}, []packet{{9000 * ms, true, 1}, {5 * ms, true, 1}, {20 * ms, true, 1}}, []int64{0, 0, 15 * ms}},
		{"without time", Config{}, []packet{{10 * ms, true, 1}, {0, false, 1}, {30 * ms, true, 1}}, []int64{0, 0, 20 * ms}},
		{"65,536 s ahead", Config{MaxGap: time.Second}, []packet{{0, true, 1}, {65536e9, true, 1}}, []int64{0, 1e9}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := New(tt.cfg)
			var got []int64
			for _, p := range tt.packets {
				got = append(got, s.Due(p.at, p.timed, p.bytes))
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("due %v, want %v", got, tt.want)
			}
		})
	}
}

// After a day at an odd rate nothing has added up (appneta/tcpreplay#630).
func TestNoDrift(t *testing.T) {
	s := New(Config{PPS: 3000})
	var due int64
	const n = 3_000_000
	for range n {
		due = s.Due(0, false, 60)
	}
	if want := int64(n-1) * 1e9 / 3000; due != want {
		t.Errorf("due %d, want %d", due, want)
	}
}

func TestLoopsGoOn(t *testing.T) {
	s := New(Config{})
	s.Due(100, true, 1)
	s.Due(200, true, 1)
	s.Rewind()
	if a, b := s.Due(100, true, 1), s.Due(200, true, 1); a != 100 || b != 200 {
		t.Errorf("second loop due at %d and %d", a, b)
	}
}

func TestWait(t *testing.T) {
	c := Start()
	due := c.Now() + int64(3*time.Millisecond)
	if !c.Wait(t.Context(), due) || c.Now() < due {
		t.Error("woke too early")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	began := time.Now()
	if c.Wait(ctx, math.MaxInt64/2) || time.Since(began) > time.Second {
		t.Errorf("not ended by the context within %s", time.Since(began))
	}
}

// Percentiles are those of the sorted values, to within a bucket.
func TestHistogram(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var h Histogram
	var all []int64
	for range 5000 {
		v := int64(1) << rng.IntN(40)
		v += rng.Int64N(v)
		all = append(all, v)
		h.Add(v)
	}
	slices.Sort(all)
	for _, p := range []float64{1, 50, 90, 99, 100} {
		exact := all[min(int(p/100*5000+0.999999)-1, 4999)]
		if got := h.Percentile(p); got < exact || float64(got) > float64(exact)*1.04 {
			t.Errorf("p%v = %d, want %d", p, got, exact)
		}
	}
	if h.Max() != all[4999] || h.Count() != 5000 {
		t.Errorf("max %d, count %d", h.Max(), h.Count())
	}
	if (&Histogram{}).Percentile(99) != 0 {
		t.Error("an empty histogram has a percentile")
	}
	h.Add(-5)
	h.Add(math.MaxInt64)
}

func TestDueAllocs(t *testing.T) {
	s, h := New(Config{PPS: 1e6}), &Histogram{}
	if n := testing.AllocsPerRun(1000, func() { h.Add(s.Due(1, true, 60)) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkDue(b *testing.B) {
	s := New(Config{Mbps: 100})
	b.ReportAllocs()
	for b.Loop() {
		s.Due(1, true, 60)
	}
}
