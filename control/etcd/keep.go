package etcd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"flanx/control"
	"flanx/control/lease"
)

// rewriteEvery is how often at most our value is put back on our own key: who
// writes there more often is another owner, and we do not fight.
const rewriteEvery = time.Minute

// Keep renews our lease; see control.Leaser.
func (s *Store) Keep(ctx context.Context, l lease.Lease, changed func(lease.Lease)) error {
	name, err := l.Subnets.Key()
	if err != nil {
		return err
	}
	value, err := json.Marshal(l.Attrs)
	if err != nil {
		return fmt.Errorf("encode our lease: %w", err)
	}
	if changed == nil {
		changed = func(lease.Lease) {}
	}
	k := &keeper{
		store: s, lease: l, key: s.cfg.subnetsPrefix() + name, value: string(value), changed: changed,
		due: s.renewAt(l.Expires),
	}
	outage := control.Outage{Log: s.cfg.Log}
	retry := control.Backoff{Min: firstBackoff, Max: longestBackoff}
	for {
		rev, err := k.check(ctx)
		switch {
		case errors.Is(err, control.ErrLeaseLost):
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
			outage.Up("our lease is renewed again", "subnets", l.Subnets)
			retry.Reset()
			k.wait(ctx, rev)
			err = control.Sleep(ctx, firstBackoff) // who writes on our key does not set our pace
		case errors.Is(err, errRace):
			err = retry.Wait(ctx)
		default:
			outage.Down("our lease cannot be renewed; the subnet stays in use", err, "subnets", l.Subnets)
			err = retry.Wait(ctx)
		}
		if err != nil {
			return err
		}
	}
}

// renewAt is when to renew a lease that ends at expires; at once if that is not
// known. Both are on the monotonic clock.
func (s *Store) renewAt(expires time.Time) time.Time {
	if expires.IsZero() {
		return time.Now()
	}
	at := expires.Add(-s.cfg.Margin)
	if soon := time.Now().Add(time.Until(expires) / 3); at.Before(soon) {
		return soon // etcd granted less than the margin
	}
	return at
}

// keeper is the state of one Keep call.
type keeper struct {
	store   *Store
	lease   lease.Lease
	key     string
	value   string
	changed func(lease.Lease)
	due     time.Time // for renewal
	rewrote time.Time
}

// check looks at our key, puts right what is ours to put right, and returns the
// revision at which all was well.
func (k *keeper) check(ctx context.Context) (int64, error) {
	resp, err := k.store.get(ctx, k.key)
	if err != nil {
		return 0, err
	}
	if len(resp.Kvs) == 0 {
		if err := k.recreate(ctx); err != nil {
			return 0, err
		}
		return k.lease.Revision, nil
	}
	if err := k.inspect(ctx, k.store.parse(resp.Kvs[0]), string(resp.Kvs[0].Value)); err != nil {
		return 0, err
	}
	if !k.lease.Reserved && !time.Now().Before(k.due) {
		if err := k.renew(ctx); err != nil {
			return 0, err
		}
	}
	return max(resp.Header.Revision, k.lease.Revision), nil
}

// inspect says whether the key as found is still ours.
func (k *keeper) inspect(ctx context.Context, e entry, value string) error {
	switch {
	case e.rev == k.lease.Revision: // nobody wrote since we did
	case e.err != nil:
		return k.lost("its value cannot be read: %w", e.err)
	case e.lease.Attrs.PublicIP != k.lease.Attrs.PublicIP:
		return k.lost("it says public address %s, ours is %s", e.lease.Attrs.PublicIP, k.lease.Attrs.PublicIP)
	case e.etcd != 0 && e.etcd != k.lease.ID:
		return k.lost("another node took it up with our own public address %s: give every node its own", k.lease.Attrs.PublicIP)
	}
	if e.etcd == 0 && !k.lease.Reserved {
		k.store.cfg.Log.Info("our lease was made a reservation; it is not renewed any more", "subnets", k.lease.Subnets)
		k.lease.Reserved, k.lease.ID, k.lease.Expires = true, 0, time.Time{}
		k.changed(k.lease)
	}
	k.lease.Revision = e.rev
	if e.err == nil && e.lease.Attrs.Equal(k.lease.Attrs) || value == k.value {
		return nil
	}
	if !k.rewrote.IsZero() && time.Since(k.rewrote) < rewriteEvery {
		return k.lost("somebody keeps writing on it")
	}
	l, err := k.store.rewrite(ctx, k.key, k.value, k.lease)
	if err != nil {
		return err
	}
	k.rewrote, k.lease = time.Now(), l
	k.store.cfg.Log.Info("our lease did not say what we are and was written again", "subnets", l.Subnets)
	k.changed(l)
	return nil
}

func (k *keeper) lost(why string, args ...any) error {
	return fmt.Errorf("%w: key %s: %w", control.ErrLeaseLost, k.key, fmt.Errorf(why, args...))
}

// renew keeps the etcd lease alive; the key is not touched.
func (k *keeper) renew(ctx context.Context) error {
	asked := time.Now()
	var alive *clientv3.LeaseKeepAliveResponse
	err := k.store.do(ctx, func(ctx context.Context, c *clientv3.Client) (err error) {
		alive, err = c.KeepAliveOnce(ctx, clientv3.LeaseID(k.lease.ID))
		return err
	})
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return errRace // it ran out just now: the next check finds no key
	}
	if err != nil {
		return fmt.Errorf("renew lease: %w", err)
	}
	k.hold(asked.Add(time.Duration(alive.TTL) * time.Second))
	return nil
}

func (k *keeper) hold(expires time.Time) {
	k.lease.Expires = expires
	k.due = k.store.renewAt(expires)
	k.changed(k.lease)
}

// recreate makes our key again after it was deleted or ran out. It gives up only
// to a node that holds our range in a lease that can be read.
func (k *keeper) recreate(ctx context.Context) error {
	l, err := k.store.list(ctx)
	if err != nil {
		return err
	}
	for _, e := range l.entries {
		ours := e.lease.Attrs.PublicIP == k.lease.Attrs.PublicIP
		if e.err == nil && e.key != k.key && !ours && e.claim.Overlaps(k.lease.Subnets) {
			return k.lost("it is gone, and %s of node %s covers it", e.lease.Subnets, e.lease.Attrs.PublicIP)
		}
	}
	got, err := k.store.create(ctx, k.lease.Subnets, k.lease.Attrs, k.value, 0)
	if err != nil {
		return err
	}
	k.store.cfg.Log.Info("our lease was gone and was made again", "subnets", got.Subnets)
	k.lease = got
	k.hold(got.Expires)
	return nil
}

// wait returns when our key changed, or it is time to look or to renew.
func (k *keeper) wait(ctx context.Context, rev int64) {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	look := control.Jitter(k.store.cfg.Verify)
	if !k.lease.Reserved {
		look = min(look, max(time.Until(k.due), 0))
	}
	timer := time.NewTimer(look)
	defer timer.Stop()
	events, err := k.store.watch(ctx, cancel, k.key, rev+1)
	if err != nil {
		events = nil // the timer is enough
	}
	for {
		select {
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		case r, ok := <-events:
			if !ok || !r.IsProgressNotify() {
				return
			}
		}
	}
}
