package pace

import "math/bits"

// steps divides each power of two: a value is known to within 1/steps.
const (
	stepBits = 5
	steps    = 1 << stepBits
)

// Histogram counts durations in nanoseconds, in buckets that grow with them: a
// percentile is right to 3 percent, and the memory is fixed.
type Histogram struct {
	counts [64 * steps]uint64
	total  uint64
	max    int64
}

// Add counts one value. Negative ones count as zero.
func (h *Histogram) Add(ns int64) {
	ns = max(ns, 0)
	h.counts[bucket(uint64(ns))]++
	h.total++
	h.max = max(h.max, ns)
}

// Count returns how many values were added.
func (h *Histogram) Count() uint64 { return h.total }

// Max returns the largest value.
func (h *Histogram) Max() int64 { return h.max }

// Percentile returns a value that p percent of all do not exceed: the upper end
// of the bucket that holds it, or Max if that is less.
func (h *Histogram) Percentile(p float64) int64 {
	if h.total == 0 {
		return 0
	}
	rank := uint64(p / 100 * float64(h.total))
	if float64(rank) < p/100*float64(h.total) {
		rank++
	}
	rank = min(max(rank, 1), h.total)
	var seen uint64
	for i, n := range h.counts {
		if seen += n; seen >= rank {
			return min(upper(i), h.max)
		}
	}
	return h.max
}

func bucket(v uint64) int {
	if v < steps {
		return int(v)
	}
	shift := bits.Len64(v) - 1 - stepBits
	return (shift+1)<<stepBits + int(v>>shift) - steps
}

// upper returns the largest value of a bucket.
func upper(i int) int64 {
	if i < steps {
		return int64(i)
	}
	shift := i>>stepBits - 1
	return int64((uint64(i&(steps-1))+steps+1)<<shift - 1)
}
