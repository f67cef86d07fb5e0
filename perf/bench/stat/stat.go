package stat

import (
	"math"
	"math/rand/v2"
	"slices"
)

// MinSamples is the number below which an interval says too little to rank by.
const MinSamples = 7

// resamples is how often the bootstrap draws; seed makes it repeatable.
const (
	resamples = 2000
	seed      = 1
)

// Summary is a median with the 95 % interval of a percentile bootstrap (Efron,
// "Bootstrap Methods", Annals of Statistics 7, 1979).
type Summary struct {
	N      int     `json:"n"`
	Median float64 `json:"median"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
}

// Summarize reduces samples; none give the zero Summary.
func Summarize(samples []float64) Summary {
	if len(samples) == 0 {
		return Summary{}
	}
	r := rand.New(rand.NewPCG(seed, seed))
	medians, draw := make([]float64, resamples), make([]float64, len(samples))
	for i := range medians {
		for j := range draw {
			draw[j] = samples[r.IntN(len(samples))]
		}
		medians[i] = Percentile(draw, 50)
	}
	return Summary{len(samples), Percentile(samples, 50), Percentile(medians, 2.5), Percentile(medians, 97.5)}
}

// Percentile interpolates between the nearest ranks (type 7 of Hyndman and Fan,
// The American Statistician 50, 1996). p is 0 to 100. NaN if there are no samples.
func Percentile(samples []float64, p float64) float64 {
	if len(samples) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(samples))
	at := p / 100 * float64(len(sorted)-1)
	low := int(at)
	if low+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[low] + (at-float64(low))*(sorted[low+1]-sorted[low])
}

// Apart says that two intervals do not overlap.
func Apart(a, b Summary) bool { return a.High < b.Low || b.High < a.Low }

// Ranks gives each summary 1 plus the number of those that are better and apart
// from it: what overlaps shares a rank. With too few samples to say, it is 0.
func Ranks(s []Summary, lowerIsBetter bool) []int {
	ranks := make([]int, len(s))
	for i, x := range s {
		if x.N < MinSamples {
			continue
		}
		ranks[i] = 1
		for _, y := range s {
			if y.N >= MinSamples && Apart(x, y) && (y.Median < x.Median) == lowerIsBetter {
				ranks[i]++
			}
		}
	}
	return ranks
}
