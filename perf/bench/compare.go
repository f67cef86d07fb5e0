package bench

import (
	"fmt"

	"flanx/perf/bench/stat"
)

// Change is one path and workload that differs beyond noise: intervals apart, and
// the median moved by more than the threshold.
type Change struct {
	Path, Workload, Unit string
	Old, New             stat.Summary
	Worse                bool
}

// String says it in one line.
func (c Change) String() string {
	verdict := "better"
	if c.Worse {
		verdict = "WORSE"
	}
	return fmt.Sprintf("%-7s %s, %s: %.2f (%.2f to %.2f) -> %.2f (%.2f to %.2f) %s, %+.0f %%", verdict, c.Workload, c.Path,
		c.Old.Median, c.Old.Low, c.Old.High, c.New.Median, c.New.Low, c.New.High, c.Unit, (c.New.Median/c.Old.Median-1)*100)
}

// Compare finds what changed. threshold is a share of the old median, 0 to 1.
// compared counts the rows that both runs measured often enough to judge.
func Compare(before, after Result, threshold float64) (changes []Change, compared int) {
	old := map[[2]string]Cell{}
	for _, c := range before.Cells {
		old[[2]string{c.Workload, c.Path}] = c
	}
	for _, n := range after.Cells {
		o, ok := old[[2]string{n.Workload, n.Path}]
		if !ok || min(o.Summary.N, n.Summary.N) < stat.MinSamples || o.Unit != n.Unit {
			continue
		}
		compared++
		moved := n.Summary.Median - o.Summary.Median
		if !stat.Apart(o.Summary, n.Summary) || max(moved, -moved) <= threshold*o.Summary.Median {
			continue
		}
		changes = append(changes, Change{n.Path, n.Workload, n.Unit, o.Summary, n.Summary, (moved > 0) == n.LowerIsBetter})
	}
	return changes, compared
}
