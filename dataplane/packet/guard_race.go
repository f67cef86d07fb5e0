//go:build race

package packet

import "fmt"

// poison fills freed frames, so that a use after free is seen in its content.
const poison = 0xDB

// guard knows which frames are free: a second Put of the same frame is a bug of
// ours, and panics.
type guard struct{ free []bool }

func newGuard(frames int) guard {
	g := guard{free: make([]bool, frames)}
	for i := range g.free {
		g.free[i] = true
	}
	return g
}

func (g guard) take(frame uint32) { g.free[frame] = false }

func (g guard) put(p *Pool, frame uint32) {
	if g.free[frame] {
		panic(fmt.Sprintf("packet: frame %d freed twice", frame))
	}
	g.free[frame] = true
	for b := p.Frame(frame); len(b) > 0; b = b[1:] {
		b[0] = poison
	}
}
