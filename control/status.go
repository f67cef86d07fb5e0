package control

import (
	"time"

	"flanx/control/lease"
)

// State is how far the agent is.
type State uint8

// The states, in the order of a normal start, and then the degraded ones.
const (
	Starting  State = iota // asking the store, or waiting for its first snapshot
	Running                // lease held, leases of the others known
	Stale                  // forwarding by the last known leases: the store is away
	NoStore                // waiting: the store does not answer and nothing is known from before
	NoConfig               // waiting: the store has no network configuration
	BadConfig              // waiting: the store's network configuration cannot be used
	NoSubnet               // waiting: no subnet could be had
	Lost                   // stopped: another node holds our subnet
)

var stateNames = [...]string{
	Starting: "starting", Running: "running", Stale: "stale", NoStore: "no-store",
	NoConfig: "no-config", BadConfig: "bad-config", NoSubnet: "no-subnet", Lost: "lost",
}

// String is the state as one lower-case word.
func (s State) String() string { return stateNames[s] }

// Ready says whether packets can flow.
func (s State) Ready() bool { return s == Running || s == Stale }

// Status is a picture of the agent at one moment.
type Status struct {
	State  State
	Since  time.Time // when this state began
	Reason string    // why the state is degraded; empty when it is not

	Config  lease.NetworkConfig // zero before it is known
	Lease   lease.Lease         // our own; zero before it is held
	Peers   int                 // other nodes' leases in force
	Held    int                 // of these, gone from the store and kept for the grace period
	Updated time.Time           // when the source last told anything
}

// Status returns a copy; it may be called from any goroutine.
func (a *Agent) Status() Status {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.status
}

// note changes the status, and tells a change of state once.
func (a *Agent) note(change func(*Status)) {
	a.mu.Lock()
	before := a.status.State
	change(&a.status)
	if a.status.State != before || a.status.Since.IsZero() {
		a.status.Since = time.Now()
	}
	now := a.status
	a.mu.Unlock()
	if a.OnStatus != nil {
		a.OnStatus(now)
	}
}

// enter changes the state, and logs it when it or the reason's kind is new.
func (a *Agent) enter(s State, reason error) {
	was := a.Status()
	a.note(func(st *Status) {
		st.State, st.Reason = s, ""
		if reason != nil {
			st.Reason = reason.Error()
		}
	})
	switch {
	case s == was.State && (s != BadConfig || reason.Error() == was.Reason):
	case reason != nil:
		a.Log.Warn("agent is degraded", "state", s, "err", reason)
	default:
		a.Log.Info("agent changed state", "state", s)
	}
}
