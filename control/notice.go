package control

import (
	"log/slog"
	"time"
)

// Outage logs when something goes away and when it is back, and nothing for the
// tries in between. Not safe for concurrent use.
type Outage struct {
	Log   *slog.Logger
	since time.Time
}

// Down says once, at Warn, that it is away.
func (o *Outage) Down(msg string, err error, args ...any) {
	if !o.since.IsZero() {
		return
	}
	o.since = time.Now()
	o.Log.Warn(msg, append(args, "err", err)...)
}

// Up says once, at Info, that it is back and for how long it was away.
func (o *Outage) Up(msg string, args ...any) {
	if o.since.IsZero() {
		return
	}
	away := time.Since(o.since).Round(time.Millisecond)
	o.since = time.Time{}
	o.Log.Info(msg, append(args, "away", away)...)
}

// IsDown says whether Down was called after the last Up.
func (o *Outage) IsDown() bool { return !o.since.IsZero() }

// Limits on warnings about single entries, which others can write as fast as
// they like.
const (
	warnBurst = 10
	warnEvery = 5 * time.Second
)

// Warnings passes warnings on, at most ten in a burst and then one every five
// seconds; the next one that passes says how many did not. Not safe for
// concurrent use.
type Warnings struct {
	Log        *slog.Logger
	credit     time.Duration
	last       time.Time
	suppressed int
}

// Warn logs at Warn, or counts.
func (w *Warnings) Warn(msg string, args ...any) {
	now := time.Now()
	w.credit = min(w.credit+now.Sub(w.last), warnBurst*warnEvery)
	w.last = now
	if w.credit < warnEvery {
		w.suppressed++
		return
	}
	w.credit -= warnEvery
	if w.suppressed > 0 {
		args = append(args, "suppressed", w.suppressed)
		w.suppressed = 0
	}
	w.Log.Warn(msg, args...)
}
