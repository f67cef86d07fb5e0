package etcd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"flanx/control"
	"flanx/control/lease"
)

const (
	// choices is among how many free subnets one is drawn, as flannel does it:
	// nodes that start together seldom want the same.
	choices = 100
	// guardedTries is how often a new key demands that no lease changed since
	// the list. After that only the key itself must be free, lest a store that
	// never rests keep us out.
	guardedTries = 10
	// maxTries bounds the races lost in one Acquire; each time another node won.
	maxTries = 100
)

// errRace says that a transaction's conditions no longer held.
var errRace = errors.New("another node was quicker")

// Find tells which lease Acquire would take up again; see control.Leaser.
func (s *Store) Find(ctx context.Context, cfg lease.NetworkConfig, publicIP netip.Addr, last lease.Lease) (lease.Lease, bool, error) {
	l, err := s.list(ctx)
	if err != nil {
		return lease.Lease{}, false, err
	}
	e, found := own(l.entries, cfg, publicIP, last)
	return e.lease, found, nil
}

// own picks the entry that is ours and fits: proved by the etcd lease, else by
// our public address, and then that of last, else the first.
func own(entries []entry, cfg lease.NetworkConfig, publicIP netip.Addr, last lease.Lease) (best entry, found bool) {
	rank := 0
	for _, e := range entries {
		if e.err != nil || cfg.Fits(e.lease.Subnets) != nil {
			continue
		}
		r := 0
		switch {
		case last.ID != 0 && e.etcd == last.ID:
			r = 3
		case e.lease.Attrs.PublicIP != publicIP:
		case e.lease.Subnets == last.Subnets:
			r = 2
		default:
			r = 1
		}
		if r > rank {
			best, found, rank = e, true, r
		}
	}
	return best, found
}

// Acquire takes a subnet; see control.Leaser.
func (s *Store) Acquire(ctx context.Context, cfg lease.NetworkConfig, attrs lease.Attrs, last lease.Lease) (lease.Lease, error) {
	if !cfg.EnableIPv4 {
		return lease.Lease{}, fmt.Errorf("%w: flannel's etcd keys need IPv4: set EnableIPv4, or use a file instead of etcd", control.ErrBadConfig)
	}
	value, err := json.Marshal(attrs)
	if err != nil {
		return lease.Lease{}, fmt.Errorf("encode our lease: %w", err)
	}
	a := &acquisition{store: s, cfg: cfg, attrs: attrs, value: string(value), last: last}
	retry := control.Backoff{Min: 20 * time.Millisecond, Max: time.Second}
	for range maxTries {
		got, err := a.try(ctx)
		if !errors.Is(err, errRace) {
			return got, err
		}
		a.lost++
		if err := retry.Wait(ctx); err != nil {
			return lease.Lease{}, err
		}
	}
	return lease.Lease{}, fmt.Errorf("acquire a subnet: %w %d times", errRace, maxTries)
}

// acquisition is one call of Acquire.
type acquisition struct {
	store *Store
	cfg   lease.NetworkConfig
	attrs lease.Attrs
	value string
	last  lease.Lease
	lost  int // races
}

func (a *acquisition) try(ctx context.Context) (lease.Lease, error) {
	l, err := a.store.list(ctx)
	if err != nil {
		return lease.Lease{}, err
	}
	if e, found := own(l.entries, a.cfg, a.attrs.PublicIP, a.last); found {
		return a.reuse(ctx, e)
	}
	if err := a.dropUnfit(ctx, l.entries); err != nil {
		return lease.Lease{}, err
	}
	subnets, err := a.choose(l.entries)
	if err != nil {
		return lease.Lease{}, err
	}
	guard := l.revision
	if a.lost >= guardedTries {
		guard = 0
	}
	return a.store.create(ctx, subnets, a.attrs, a.value, guard)
}

// reuse takes up our lease from before. It writes even if the value is the same:
// should another node have our public address, its watch tells it so.
func (a *acquisition) reuse(ctx context.Context, e entry) (lease.Lease, error) {
	if a.last.ID != 0 && e.etcd != 0 && e.etcd != a.last.ID && !e.lease.Attrs.Equal(a.attrs) {
		a.store.cfg.Log.Warn("our lease was written by somebody else; another node may have our public address",
			"subnets", e.lease.Subnets, "public_ip", a.attrs.PublicIP)
	}
	l := lease.Lease{Subnets: e.lease.Subnets, Attrs: a.attrs, Reserved: e.etcd == 0, Revision: e.rev}
	if l.Reserved {
		if e.lease.Attrs.Equal(a.attrs) {
			return l, nil
		}
		return a.store.rewrite(ctx, e.key, a.value, l)
	}
	return a.store.grant(ctx, l, func(ctx context.Context, id clientv3.LeaseID) (int64, error) {
		return a.store.swap(ctx,
			[]clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(e.key), "=", e.rev)},
			clientv3.OpPut(e.key, a.value, clientv3.WithLease(id)))
	})
}

// dropUnfit deletes leases of ours that the configuration has outgrown: nobody
// answers on them any more. Reservations are the operator's to delete.
func (a *acquisition) dropUnfit(ctx context.Context, entries []entry) error {
	for _, e := range entries {
		if e.err != nil || e.etcd == 0 || e.lease.Attrs.PublicIP != a.attrs.PublicIP {
			continue
		}
		_, err := a.store.swap(ctx,
			[]clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(e.key), "=", e.rev)},
			clientv3.OpDelete(e.key))
		if err != nil {
			return err
		}
		a.store.cfg.Log.Info("our old lease does not fit the network configuration and was deleted", "subnets", e.lease.Subnets)
	}
	return nil
}

// choose picks what to claim: the last subnets if free, else any.
func (a *acquisition) choose(entries []entry) (lease.Subnets, error) {
	taken := make([]lease.Subnets, 0, len(entries))
	bad := 0
	wanted := a.cfg.Fits(a.last.Subnets) == nil
	for _, e := range entries {
		taken = append(taken, e.claim)
		if e.err != nil {
			bad++
		}
		wanted = wanted && !e.claim.Overlaps(a.last.Subnets)
	}
	if wanted {
		return a.last.Subnets, nil
	}
	v4, v6 := a.cfg.Free(taken, choices)
	if a.cfg.EnableIPv4 && len(v4) == 0 || a.cfg.EnableIPv6 && len(v6) == 0 {
		return lease.Subnets{}, fmt.Errorf(
			"%w: %d keys under %s, %d of them unreadable, leave none in %s with SubnetLen %d: delete keys of dead nodes, or enlarge Network",
			control.ErrOutOfSubnets, len(entries), a.store.cfg.subnetsPrefix(), bad, a.cfg.Network, a.cfg.SubnetLen)
	}
	return lease.Subnets{V4: draw(v4), V6: draw(v6)}, nil
}

func draw(from []netip.Prefix) netip.Prefix {
	if len(from) == 0 {
		return netip.Prefix{}
	}
	return from[rand.N(len(from))]
}

// create makes a new key. With a guard, a revision, it also demands that no
// lease was written since: the key alone does not tell of overlaps.
func (s *Store) create(ctx context.Context, subnets lease.Subnets, attrs lease.Attrs, value string, guard int64) (lease.Lease, error) {
	name, err := subnets.Key()
	if err != nil {
		return lease.Lease{}, err
	}
	key := s.cfg.subnetsPrefix() + name
	conditions := []clientv3.Cmp{clientv3.Compare(clientv3.Version(key), "=", 0)}
	if guard > 0 {
		untouched := clientv3.Compare(clientv3.ModRevision(s.cfg.subnetsPrefix()), "<", guard+1)
		conditions = append(conditions, untouched.WithPrefix())
	}
	l := lease.Lease{Subnets: subnets, Attrs: attrs}
	return s.grant(ctx, l, func(ctx context.Context, id clientv3.LeaseID) (int64, error) {
		return s.swap(ctx, conditions, clientv3.OpPut(key, value, clientv3.WithLease(id)))
	})
}

// grant gets an etcd lease, lets write use it, and revokes it if that fails. A
// write whose answer was lost is undone by that too.
func (s *Store) grant(ctx context.Context, l lease.Lease, write func(context.Context, clientv3.LeaseID) (int64, error)) (lease.Lease, error) {
	asked := time.Now()
	var granted *clientv3.LeaseGrantResponse
	err := s.do(ctx, func(ctx context.Context, c *clientv3.Client) (err error) {
		granted, err = c.Grant(ctx, int64(math.Ceil(s.cfg.TTL.Seconds())))
		return err
	})
	if err != nil {
		return lease.Lease{}, fmt.Errorf("grant lease: %w", err)
	}
	rev, err := write(ctx, granted.ID)
	if err != nil {
		s.revoke(ctx, granted.ID)
		return lease.Lease{}, err
	}
	l.ID, l.Revision = int64(granted.ID), rev
	l.Expires = asked.Add(time.Duration(granted.TTL) * time.Second)
	return l, nil
}

// revoke gives back an etcd lease that nothing hangs on, also while we are being
// stopped. If that fails, it runs out by itself.
func (s *Store) revoke(ctx context.Context, id clientv3.LeaseID) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	err := s.do(ctx, func(ctx context.Context, c *clientv3.Client) error {
		_, err := c.Revoke(ctx, id)
		return err
	})
	if err != nil {
		s.cfg.Log.Debug("unused etcd lease not revoked", "err", err)
	}
}

// swap does one operation if all conditions hold, else returns errRace. It
// returns the revision of the write.
func (s *Store) swap(ctx context.Context, conditions []clientv3.Cmp, op clientv3.Op) (rev int64, err error) {
	var resp *clientv3.TxnResponse
	err = s.do(ctx, func(ctx context.Context, c *clientv3.Client) error {
		resp, err = c.Txn(ctx).If(conditions...).Then(op).Commit()
		return err
	})
	switch {
	case err != nil:
		return 0, fmt.Errorf("write lease: %w", err)
	case !resp.Succeeded:
		return 0, errRace
	}
	return resp.Header.Revision, nil
}

// rewrite puts our value on a key that is ours at l.Revision, on the etcd lease
// it hangs on; a reservation stays one.
func (s *Store) rewrite(ctx context.Context, key, value string, l lease.Lease) (lease.Lease, error) {
	var opts []clientv3.OpOption
	if l.ID != 0 {
		opts = append(opts, clientv3.WithLease(clientv3.LeaseID(l.ID)))
	}
	rev, err := s.swap(ctx,
		[]clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(key), "=", l.Revision)},
		clientv3.OpPut(key, value, opts...))
	if err == nil {
		l.Revision = rev
	}
	return l, err
}
