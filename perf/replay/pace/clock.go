package pace

import (
	"context"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// margin is how long before a due time sleeping ends and spinning begins:
	// more than the kernel is usually late with a wake-up.
	margin = 120 * time.Microsecond
	// nap bounds one sleep, so that a cancelled context is seen soon.
	nap = 50 * time.Millisecond
	// glances is how often spinning reads the clock before it looks at the
	// context.
	glances = 256
)

// Clock counts nanoseconds from when it was made.
type Clock struct{ start time.Time }

// Start makes a clock.
func Start() Clock { return Clock{time.Now()} }

// Now returns the nanoseconds since the start.
func (c Clock) Now() int64 { return int64(time.Since(c.start)) }

// urgency is the nice value of a thread that must be in time.
const urgency = -15

// Precise asks the kernel to wake this thread when it is due and not, as by
// default, up to 50 µs later to save power (PR_SET_TIMERSLACK, prctl(2)), and to
// let it run before others. The caller has locked the thread, and calls restore
// before it unlocks it. A kernel that refuses costs precision only.
func Precise() (restore func()) {
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	before, err := unix.Getpriority(unix.PRIO_PROCESS, 0) // of this thread, on Linux
	if err == nil {
		err = unix.Setpriority(unix.PRIO_PROCESS, 0, urgency)
	}
	return func() {
		_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 0, 0, 0, 0) // the default again
		if err == nil {
			_ = unix.Setpriority(unix.PRIO_PROCESS, 0, 20-before) // the system call returns 20 - nice
		}
	}
}

// Wait returns at due, or says no when ctx ended before. It sleeps while that
// is far and spins for the last stretch.
func (c Clock) Wait(ctx context.Context, due int64) bool {
	for {
		if ctx.Err() != nil {
			return false
		}
		left := time.Duration(due - c.Now())
		if left <= 0 {
			return true
		}
		if left > margin {
			ts := unix.NsecToTimespec(int64(min(left-margin, nap)))
			_ = unix.Nanosleep(&ts, nil) // an interrupted sleep is a short one
			continue
		}
		for i := 0; i < glances; i++ {
			if c.Now() >= due {
				return true
			}
		}
	}
}
