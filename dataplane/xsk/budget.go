package xsk

import (
	"fmt"
	"math/bits"
)

// sizes are the slots of the four rings.
type sizes struct{ fill, rx, tx, completion uint32 }

// budget says how many frames the kernel may hold in each direction.
type budget struct{ fill, tx int }

// newBudget applies the defaults to cfg for a pool of frames, and checks that
// something is left for the batches.
func newBudget(cfg Config, frames int) (budget, error) {
	b := budget{fill: cfg.FillTarget, tx: cfg.TXLimit}
	if b.fill == 0 {
		b.fill = frames / 2
	}
	if b.tx == 0 {
		b.tx = frames / 4
	}
	if b.fill < 1 || b.tx < 1 || b.fill+b.tx >= frames {
		return budget{}, fmt.Errorf("%w: %d frames to receive and %d to send, of a pool of %d, leave none for batches",
			ErrConfig, b.fill, b.tx, frames)
	}
	return b, nil
}

// sizes returns the smallest rings that can hold the budget, so that none of
// them overflows: the kernel wants powers of two (xsk_init_queue in
// net/xdp/xsk.c).
func (b budget) sizes() sizes {
	rx, tx := ceilPow2(b.fill), ceilPow2(b.tx)
	return sizes{fill: rx, rx: rx, tx: tx, completion: tx}
}

func ceilPow2(n int) uint32 { return 1 << bits.Len32(uint32(n-1)) }
