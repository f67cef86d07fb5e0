package control

import (
	"context"
	"math/rand/v2"
	"time"
)

// Backoff gives the waits between tries: doubling from Min to Max, each between
// half and the whole of that, so that nodes that failed together do not come
// back together. Not safe for concurrent use.
type Backoff struct {
	Min, Max time.Duration
	next     time.Duration
}

// Next is the next wait.
func (b *Backoff) Next() time.Duration {
	d := max(b.next, b.Min)
	b.next = min(2*d, b.Max)
	return d/2 + rand.N(d/2+1)
}

// Reset starts again at Min.
func (b *Backoff) Reset() { b.next = 0 }

// Wait sleeps for Next, or until ctx ends, whose error it returns.
func (b *Backoff) Wait(ctx context.Context) error { return Sleep(ctx, b.Next()) }

// Sleep waits for d, or until ctx ends, whose error it returns.
func Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Jitter spreads d by a quarter to both sides.
func Jitter(d time.Duration) time.Duration {
	return d - d/4 + rand.N(d/2+1)
}
