package control

import (
	"context"
	"time"

	"flanx/control/lease"
)

// loop is the one goroutine that owns the table. The Source hands its updates in
// and waits for the verdict.
type loop struct {
	agent   *Agent
	place   place
	table   *table
	updates chan handed
	own     chan struct{} // our lease changed; Status has it
	known   bool          // the table is somebody's word: a snapshot's or the state file's
	dirty   bool          // the state file is behind
	saving  Outage
}

type handed struct {
	update  lease.Update
	verdict chan error
}

func newLoop(a *Agent, p place) *loop {
	return &loop{
		agent:   a,
		place:   p,
		table:   newTable(p.cfg, p.own.Subnets, a.PublicIP, max(a.Grace, 0), a.Log),
		updates: make(chan handed),
		own:     make(chan struct{}, 1),
		saving:  Outage{Log: a.Log},
	}
}

// hand is called by the Source's goroutine.
func (l *loop) hand(ctx context.Context, u lease.Update) error {
	h := handed{u, make(chan error, 1)}
	select {
	case l.updates <- h:
		return <-h.verdict
	case <-ctx.Done():
		return ctx.Err()
	}
}

// renewed is called by the Leaser's goroutine.
func (l *loop) renewed(own lease.Lease) {
	l.agent.note(func(st *Status) { st.Lease = own })
	select {
	case l.own <- struct{}{}:
	default:
	}
}

// run works until ctx ends, or Apply refuses what is due without an update.
func (l *loop) run(ctx context.Context) error {
	tick := time.NewTicker(saveInterval)
	defer tick.Stop()
	for {
		select {
		case h := <-l.updates:
			h.verdict <- l.take(h.update)
		case <-l.own:
			l.dirty = true
		case now := <-tick.C:
			if err := l.release(now); err != nil {
				return err
			}
			l.save(false)
		case <-ctx.Done():
			return nil
		}
	}
}

// restore starts from the state file's leases. They are as good as leases from
// before an outage, so the first snapshot of the store starts a grace period.
func (l *loop) restore(peers []lease.Lease) error {
	out, _ := l.table.change(lease.Update{Snapshot: true, Leases: peers}, time.Now())
	l.table.lost, l.known = true, true
	return l.apply(out)
}

// take judges an update and passes on what is left of it.
func (l *loop) take(u lease.Update) error {
	if u.Lost {
		l.table.change(u, time.Now())
		if l.known {
			l.agent.enter(Stale, ErrUnavailable)
		} else {
			l.agent.enter(NoStore, ErrUnavailable)
		}
		return nil
	}
	out, worth := l.table.change(u, time.Now())
	if worth {
		if err := l.apply(out); err != nil {
			return err
		}
	}
	l.agent.note(func(st *Status) { st.Updated = time.Now() })
	if u.Snapshot {
		l.known = true
		l.agent.enter(Running, nil)
	}
	return nil
}

// release removes the peers that did not come back in their grace period.
func (l *loop) release(now time.Time) error {
	out, worth := l.table.release(now)
	if !worth {
		return nil
	}
	l.agent.Log.Info("leases that did not return after an outage are removed", "count", len(out.Removed))
	return l.apply(out)
}

func (l *loop) apply(u lease.Update) error {
	l.dirty = true
	err := l.agent.Apply(u)
	l.agent.note(func(st *Status) { st.Peers, st.Held = len(l.table.peers), len(l.table.held) })
	return err
}

// save writes the state file if it is behind. A lost subnet is left out, so that a
// start without the store does not use it again.
func (l *loop) save(lost bool) {
	a := l.agent
	if a.StateFile == "" || !l.known || !l.dirty && !lost {
		return
	}
	s := state{
		Version: stateVersion, Origin: a.Origin, Saved: time.Now().UTC(),
		Config: l.place.cfg, Own: a.Status().Lease, Peers: l.table.all(),
	}
	if lost {
		s.Own = lease.Lease{}
	}
	if err := saveState(a.StateFile, s); err != nil {
		l.saving.Down("state file not written; a start without the store will use the last one", err)
		return
	}
	l.dirty = false
	l.saving.Up("state file written again")
}
