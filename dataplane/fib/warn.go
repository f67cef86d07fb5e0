package fib

import (
	"log/slog"
	"time"
)

// warnPerSecond bounds the warnings of one Table: a store full of bad leases
// must not fill the disk with log.
const warnPerSecond = 5

// warner logs warnings up to that rate, and with the next one says how many it
// kept back.
type warner struct {
	log    *slog.Logger
	second time.Time // when the present second began
	said   int       // warnings in it
	muted  int       // not said since the last that was
}

func (w *warner) warn(msg string, args ...any) {
	if now := time.Now(); now.Sub(w.second) >= time.Second {
		w.second, w.said = now, 0
	}
	if w.said >= warnPerSecond {
		w.muted++
		return
	}
	w.said++
	if w.muted > 0 {
		args = append(args, "suppressed", w.muted)
		w.muted = 0
	}
	w.log.Warn(msg, args...)
}
