package stat

import (
	"math"
	"slices"
	"testing"
)

func TestPercentile(t *testing.T) {
	one := []float64{4, 1, 3, 2, 5}
	for _, c := range []struct{ p, want float64 }{{0, 1}, {25, 2}, {50, 3}, {90, 4.6}, {100, 5}} {
		if got := Percentile(one, c.p); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("p%g of 1 to 5 is %g, want %g", c.p, got, c.want)
		}
	}
	if !math.IsNaN(Percentile(nil, 50)) {
		t.Error("percentile of nothing is a number")
	}
	if !slices.Equal(one, []float64{4, 1, 3, 2, 5}) {
		t.Error("samples were reordered")
	}
}

func TestSummarize(t *testing.T) {
	same := Summarize([]float64{7, 7, 7})
	if same != (Summary{3, 7, 7, 7}) {
		t.Errorf("equal samples: %+v", same)
	}
	var wide []float64
	for i := range 101 {
		wide = append(wide, float64(i))
	}
	s := Summarize(wide)
	// The median of 101 uniform samples has a standard error of about 5.
	if s.Median != 50 || s.Low < 30 || s.Low > 45 || s.High < 55 || s.High > 70 {
		t.Errorf("0 to 100: %+v", s)
	}
	if s != Summarize(wide) {
		t.Error("two runs differ")
	}
	if Summarize(nil) != (Summary{}) {
		t.Error("summary of nothing")
	}
}

func TestRanks(t *testing.T) {
	s := []Summary{{7, 10, 9, 11}, {7, 5, 4, 6}, {7, 10.5, 10, 12}, {7, 1, 1, 1}}
	for _, c := range []struct {
		lower bool
		want  []int
	}{{false, []int{1, 3, 1, 4}}, {true, []int{3, 2, 3, 1}}} {
		if got := Ranks(s, c.lower); !slices.Equal(got, c.want) {
			t.Errorf("lower is better %t: %v, want %v", c.lower, got, c.want)
		}
	}
	s[0].N = MinSamples - 1
	if got := Ranks(s, false); !slices.Equal(got, []int{0, 2, 1, 3}) {
		t.Errorf("with too few samples of the first: %v", got)
	}
}
