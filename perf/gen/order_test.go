package gen

import (
	"math/rand/v2"
	"testing"
)

func TestOrder(t *testing.T) {
	tests := []struct {
		name                            string
		in                              []uint64
		received, reordered, duplicates uint64
	}{
		{"in order", []uint64{0, 1, 2, 3}, 4, 0, 0},
		{"begins late", []uint64{5, 6}, 2, 0, 0},
		{"a gap", []uint64{0, 3, 4}, 3, 0, 0},
		{"one late", []uint64{0, 2, 1, 3}, 4, 1, 0},
		{"backwards", []uint64{3, 2, 1, 0}, 4, 3, 0},
		{"a copy", []uint64{0, 1, 1, 2}, 3, 0, 1},
		{"a copy of a late one", []uint64{0, 2, 1, 1}, 3, 1, 1},
		{"a copy of the first", []uint64{0, window - 1, 0}, 2, 0, 1},
		{"a copy out of the window", []uint64{0, window, 0}, 3, 1, 0},
		{"a jump clears the window", []uint64{0, window * 3, window*3 - 65, window*3 - 65}, 3, 1, 1},
		{"a jump of one window", []uint64{0, 1, window + 1, 2}, 4, 1, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var o order
			for _, s := range tt.in {
				o.take(s)
			}
			if o.received != tt.received || o.reordered != tt.reordered || o.duplicates != tt.duplicates {
				t.Errorf("received %d, reordered %d, duplicates %d", o.received, o.reordered, o.duplicates)
			}
		})
	}
}

// The bitmap against a plain set, with jumps around the size of the window.
func TestOrderAgainstModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var o order
	seen := map[uint64]bool{}
	var next uint64
	for range 200_000 {
		seq := next + uint64(rng.IntN(40))
		switch rng.IntN(50) {
		case 0:
			seq += window - 20
		case 1, 2, 3:
			seq -= min(seq, uint64(rng.IntN(window)))
		}
		old := seq+window < next
		if first := o.take(seq); !old && first == seen[seq] {
			t.Fatalf("number %d (next %d): first copy is %v", seq, next, first)
		}
		seen[seq] = true
		next = max(next, seq+1)
	}
}
