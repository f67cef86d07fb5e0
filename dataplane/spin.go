package dataplane

import (
	"time"

	"golang.org/x/sys/unix"
)

// DefaultSpin is how long a worker looks for work before it sleeps. Waking a
// sleeping thread on another CPU costs tens of microseconds, which a ping-pong
// pays on every packet.
const DefaultSpin = 50 * time.Microsecond

const (
	// crowded is how long a yield may take before it shows that another thread
	// wanted this CPU: a yield that switches to nobody returns in well under a
	// microsecond.
	crowded = 20 * time.Microsecond
	// patience is how many fruitless spins in a row turn spinning off.
	patience = 8
	// abstain is how many sleeps pass before spinning is tried again.
	abstain = 64
)

// spinner decides whether an idle worker looks again or sleeps. It spins only
// while that pays: after several spins without work, or when other threads want
// the CPU, it lets the next sleeps come at once.
type spinner struct {
	budget time.Duration
	since  time.Time // when this spin began; zero: not spinning
	misses int       // spins in a row that found nothing
	skip   int       // sleeps left until the next try
}

func newSpinner(budget time.Duration) spinner { return spinner{budget: budget} }

// again says whether to look once more; worked says whether the last turn met
// any packet.
func (s *spinner) again(worked bool) bool {
	if worked {
		s.hit()
		return true
	}
	if s.since.IsZero() {
		return s.begin()
	}
	now := time.Now()
	if now.Sub(s.since) >= s.budget {
		s.miss()
		return false
	}
	return s.yield(now)
}

// hit notes that there was work, found by spinning or not.
func (s *spinner) hit() {
	if !s.since.IsZero() {
		s.since, s.misses = time.Time{}, 0
	}
}

// begin starts a spin, unless spinning has not paid of late.
func (s *spinner) begin() bool {
	if s.budget <= 0 {
		return false
	}
	if s.skip > 0 {
		s.skip--
		return false
	}
	s.since = time.Now()
	return true
}

// miss ends a spin that found nothing.
func (s *spinner) miss() {
	s.since = time.Time{}
	if s.misses++; s.misses >= patience {
		s.misses, s.skip = 0, abstain
	}
}

// yield lets another thread run, and gives up the spin when one did.
func (s *spinner) yield(before time.Time) bool {
	_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
	if time.Since(before) < crowded {
		return true
	}
	s.since, s.misses, s.skip = time.Time{}, 0, abstain
	return false
}
