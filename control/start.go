package control

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"flanx/control/lease"
)

// start waits until we have a place in the cluster: from the store, or from the
// state file when the store does not answer.
func (a *Agent) start(ctx context.Context) (place, error) {
	retry := Backoff{Min: 100 * time.Millisecond, Max: 5 * time.Second}
	for {
		p, err := a.join(ctx)
		if err == nil {
			return p, nil
		}
		var own attrsError
		if ctx.Err() != nil || errors.As(err, &own) {
			return place{}, err
		}
		if errors.Is(err, ErrUnavailable) {
			if p, ok, err := a.recall(); ok || err != nil {
				return p, err
			}
		}
		wait := retry.Next()
		a.enter(waiting(err), err)
		if errors.Is(err, ErrNoConfig) || errors.Is(err, ErrBadConfig) {
			wait = configRetry
			retry.Reset()
		}
		if err := Sleep(ctx, wait); err != nil {
			return place{}, err
		}
	}
}

// waiting is the state that an error of join leaves us in.
func waiting(err error) State {
	switch {
	case errors.Is(err, ErrNoConfig):
		return NoConfig
	case errors.Is(err, ErrBadConfig):
		return BadConfig
	case errors.Is(err, ErrUnavailable):
		return NoStore
	}
	return NoSubnet
}

// attrsError is a refusal by the caller's Attrs: nothing that waiting would cure.
type attrsError struct{ error }

func (e attrsError) Unwrap() error { return e.error }

// join asks the store for the configuration and a subnet, once.
func (a *Agent) join(ctx context.Context) (p place, err error) {
	if p.cfg, err = a.Source.Config(ctx); err != nil || a.Leaser == nil {
		return p, err
	}
	last, before := a.former()
	prev, found, err := a.Leaser.Find(ctx, p.cfg, a.PublicIP, last)
	if err != nil {
		return p, err
	}
	if found {
		before = prev.Attrs
	}
	attrs, err := a.Attrs(p.cfg, before)
	if err != nil {
		return p, attrsError{fmt.Errorf("set up backend %s: %w", p.cfg.BackendType, err)}
	}
	p.own, err = a.Leaser.Acquire(ctx, p.cfg, attrs, last)
	return p, err
}

// former is what this node held and said in its former life, by the subnet file
// and the state file. Where they disagree on the subnets, another program held
// the place in between, and the subnet file is right.
func (a *Agent) former() (last lease.Lease, said lease.Attrs) {
	last.Subnets = a.Prefer
	s, err := a.load()
	if err != nil {
		return last, said
	}
	if a.Prefer.IsZero() || a.Prefer == s.Own.Subnets {
		last = s.Own
	}
	return last, s.Own.Attrs
}

// recall takes our place from the state file. ok is false if there is none that
// fits; an error is the caller's Attrs'.
func (a *Agent) recall() (p place, ok bool, err error) {
	s, err := a.load()
	if err != nil {
		return p, false, nil
	}
	p = place{cfg: s.Config, own: s.Own, peers: s.Peers, stale: true}
	if a.Leaser == nil {
		return p, true, nil
	}
	if p.own.Subnets.IsZero() {
		return p, false, nil
	}
	if !a.Prefer.IsZero() && a.Prefer != p.own.Subnets {
		a.badStateFile(fmt.Errorf("it says our subnets are %s, the subnet file %s", p.own.Subnets, a.Prefer))
		return p, false, nil
	}
	if p.own.Attrs, err = a.Attrs(p.cfg, p.own.Attrs); err != nil {
		return p, false, attrsError{fmt.Errorf("set up backend %s: %w", p.cfg.BackendType, err)}
	}
	a.enter(Stale, fmt.Errorf("forwarding by the state file of %s: %w", s.Saved.Format(time.RFC3339), ErrUnavailable))
	return p, true, nil
}

// load reads the state file, and says once why it cannot be used.
func (a *Agent) load() (state, error) {
	if a.StateFile == "" {
		return state{}, fs.ErrNotExist
	}
	s, err := loadState(a.StateFile, a.Origin)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		a.badStateFile(err)
	}
	return s, err
}

func (a *Agent) badStateFile(why error) {
	if !a.badState {
		a.badState = true
		a.Log.Warn("state file not used", "err", why)
	}
}
