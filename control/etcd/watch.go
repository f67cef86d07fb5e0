package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"flanx/control"
	"flanx/control/lease"
)

// Why following the watch ended, when etcd did not say so itself.
var (
	errResync  = errors.New("time to compare with a full list")
	errRewound = errors.New("etcd was wiped, restored or replaced")
	errClosed  = errors.New("watch was closed")
)

// applyError is a refusal by the caller of Watch, which ends it.
type applyError struct{ error }

func (e applyError) Unwrap() error { return e.error }

// Watch tells the leases; see control.Source.
func (s *Store) Watch(ctx context.Context, apply func(lease.Update) error) error {
	w := &watch{
		store:  s,
		apply:  apply,
		told:   map[string]told{},
		outage: control.Outage{Log: s.cfg.Log},
		warn:   control.Warnings{Log: s.cfg.Log},
	}
	retry := control.Backoff{Min: firstBackoff, Max: longestBackoff}
	for {
		began := time.Now()
		err := w.round(ctx)
		var refused applyError
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &refused):
			return refused.error
		case errors.Is(err, errResync):
			retry.Reset()
			continue
		}
		if time.Since(began) > longestBackoff {
			retry.Reset()
		}
		if err := retry.Wait(ctx); err != nil {
			return err
		}
	}
}

// watch is the state of one Watch call. One goroutine owns it.
type watch struct {
	store  *Store
	apply  func(lease.Update) error
	told   map[string]told // by key, good and bad entries
	outage control.Outage
	warn   control.Warnings

	began   bool   // a snapshot was told, and nothing was lost since
	lost    bool   // Lost was told, and no snapshot since
	seen    int64  // the highest revision that we know of
	cluster uint64 // whose revision that is
}

// told is what the caller knows of a key.
type told struct {
	lease lease.Lease
	good  bool
	rev   int64
}

// round lists, tells, and follows until something ends it.
func (w *watch) round(ctx context.Context) error {
	l, err := w.store.list(ctx)
	if err != nil {
		return w.away(ctx, err)
	}
	w.outage.Up("etcd is back; leases are read again")
	if err := w.take(l); err != nil {
		return err
	}
	err = w.follow(ctx)
	var refused applyError
	if errors.Is(err, errResync) || errors.As(err, &refused) || ctx.Err() != nil {
		return err
	}
	w.began = false
	if errors.Is(err, control.ErrUnavailable) {
		return w.away(ctx, err)
	}
	if !errors.Is(err, errRewound) { // take tells that one
		w.warn.Warn("watch on leases ended; they are read again", "err", err)
	}
	return err
}

// away tells once that etcd does not answer.
func (w *watch) away(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return err
	}
	w.outage.Down("etcd is away; the last known leases stay in use", err)
	return errors.Join(err, w.tellLost())
}

func (w *watch) tellLost() error {
	w.began = false
	if w.lost {
		return nil
	}
	w.lost = true
	return w.tell(lease.Update{Lost: true})
}

func (w *watch) tell(u lease.Update) error {
	if err := w.apply(u); err != nil {
		return applyError{err}
	}
	return nil
}

// take brings the caller to what a list says: by a snapshot, or, if continuity
// held, by what the watch should have told and did not.
func (w *watch) take(l listing) error {
	if w.rewound(l.revision, l.cluster) {
		w.warn.Warn("etcd was wiped, restored or replaced; all leases are read again",
			"revision", l.revision, "revision_before", w.seen, "cluster", l.cluster, "cluster_before", w.cluster)
		if err := w.tellLost(); err != nil {
			return err
		}
	}
	w.seen, w.cluster = l.revision, l.cluster

	before := w.told
	w.told = make(map[string]told, len(l.entries))
	u := lease.Update{Snapshot: !w.began}
	for _, e := range l.entries {
		was := before[e.key]
		now := w.learn(e, was)
		delete(before, e.key)
		u = difference(u, was, now)
	}
	for _, was := range before {
		u = difference(u, was, told{})
	}
	if !u.Snapshot {
		if n := len(u.Leases) + len(u.Removed); n > 0 {
			// Missed by the watch, or written while it was down for this list.
			w.store.cfg.Log.Debug("list brought changes of leases", "count", n)
			return w.tell(u)
		}
		return nil
	}
	w.began, w.lost = true, false
	return w.tell(u)
}

// rewound says whether an answer comes from before what we know.
func (w *watch) rewound(revision int64, cluster uint64) bool {
	return w.cluster != 0 && (cluster != w.cluster || revision < w.seen)
}

// learn remembers an entry, and warns once per revision of one that is no good.
func (w *watch) learn(e entry, was told) told {
	now := told{lease: e.lease, good: e.err == nil, rev: e.rev}
	if !now.good && (was.good || was.rev != now.rev) {
		w.warn.Warn("key ignored; its range counts as taken", "key", clip(e.key), "revision", e.rev, "err", e.err)
	}
	w.told[e.key] = now
	return now
}

func clip(s string) string { return fmt.Sprintf("%.*s", maxShown, s) }

// difference adds what a key's change means to u.
func difference(u lease.Update, was, now told) lease.Update {
	switch {
	case now.good && (u.Snapshot || !was.good || !was.lease.Equal(now.lease)):
		u.Leases = append(u.Leases, now.lease)
	case !now.good && was.good && !u.Snapshot:
		u.Removed = append(u.Removed, was.lease.Subnets)
	}
	return u
}

// follow takes in events until the watch breaks, etcd stops to answer or to be
// the same, or it is time for a full list.
func (w *watch) follow(ctx context.Context) error {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	events, err := w.store.watch(ctx, cancel, w.store.cfg.subnetsPrefix(), w.seen+1, clientv3.WithPrefix())
	if err != nil {
		return err
	}
	resync := time.NewTimer(control.Jitter(w.store.cfg.Resync))
	defer resync.Stop()
	beat := time.NewTicker(control.Jitter(w.store.cfg.Heartbeat))
	defer beat.Stop()
	for {
		select {
		case r, ok := <-events:
			if !ok {
				return errClosed
			}
			if err := w.event(r); err != nil {
				return err
			}
		case <-beat.C:
			if err := w.heartbeat(ctx); err != nil {
				return err
			}
		case <-resync.C:
			return errResync
		}
	}
}

// watch opens a watch from a revision. etcd's client would wait for ever for the
// answer, and stop, which must be ctx's cancel, is its only end.
func (s *Store) watch(ctx context.Context, stop func(), key string, rev int64, opts ...clientv3.OpOption) (clientv3.WatchChan, error) {
	client, err := s.dial(ctx)
	if err != nil {
		return nil, err
	}
	late := time.AfterFunc(s.cfg.RequestTimeout, stop)
	opts = append(opts, clientv3.WithRev(rev), clientv3.WithProgressNotify(), clientv3.WithFragment())
	events := client.Watch(ctx, key, opts...)
	if !late.Stop() {
		return nil, fmt.Errorf("%w: no answer to a watch request in %s", control.ErrUnavailable, s.cfg.RequestTimeout)
	}
	return events, nil
}

// heartbeat asks for etcd's revision. Unlike the watch it has a timeout.
func (w *watch) heartbeat(ctx context.Context) error {
	resp, err := w.store.get(ctx, w.store.cfg.configKey(), clientv3.WithCountOnly())
	if err != nil {
		return err
	}
	if w.rewound(resp.Header.Revision, resp.Header.ClusterId) {
		return errRewound
	}
	return nil
}

// event tells the net effect of one answer of the watch.
func (w *watch) event(r clientv3.WatchResponse) error {
	if err := r.Err(); err != nil {
		return err
	}
	if w.rewound(r.Header.Revision, r.Header.ClusterId) {
		return errRewound
	}
	before := map[string]told{}
	for _, ev := range r.Events {
		key := string(ev.Kv.Key)
		was := w.told[key]
		if _, ok := before[key]; !ok {
			before[key] = was
		}
		if ev.Type == clientv3.EventTypeDelete {
			delete(w.told, key)
		} else {
			w.learn(w.store.parse(ev.Kv), was)
		}
		w.seen = max(w.seen, ev.Kv.ModRevision)
	}
	var u lease.Update
	for key, was := range before {
		u = difference(u, was, w.told[key])
	}
	if len(u.Leases)+len(u.Removed) == 0 {
		return nil
	}
	return w.tell(u)
}
