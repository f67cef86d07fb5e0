package static

import (
	"context"

	"flanx/control"
	"flanx/control/lease"
)

// Config reads the network configuration.
func (f *File) Config(ctx context.Context) (lease.NetworkConfig, error) {
	if err := ctx.Err(); err != nil {
		return lease.NetworkConfig{}, err
	}
	c, err := f.load()
	return c.network, err
}

// Watch tells the nodes of the file, our own among them; see control.Source. Once
// it was read, the store is never away: the last good content is the truth.
func (f *File) Watch(ctx context.Context, apply func(lease.Update) error) error {
	r := f.reader()
	told := map[lease.Subnets]lease.Lease{}
	began, lost, revision := false, false, int64(0)
	for {
		var u lease.Update
		tell := false
		switch changed := r.look(); {
		case changed:
			revision++
			told, u = difference(told, r.good.leases, revision)
			u.Snapshot, tell = !began, !began || len(u.Leases)+len(u.Removed) > 0
			began = true
		case !began && !lost && r.outage.IsDown():
			u.Lost, tell, lost = true, true, true
		}
		if tell {
			if err := apply(u); err != nil {
				return err
			}
		}
		if err := control.Sleep(ctx, pollInterval); err != nil {
			return err
		}
	}
}

// difference is what turns told into now, and the new told.
func difference(told map[lease.Subnets]lease.Lease, now []lease.Lease, revision int64) (map[lease.Subnets]lease.Lease, lease.Update) {
	var u lease.Update
	fresh := make(map[lease.Subnets]lease.Lease, len(now))
	for _, l := range now {
		l.Revision = revision
		fresh[l.Subnets] = l
		if old, known := told[l.Subnets]; !known || !old.Equal(l) {
			u.Leases = append(u.Leases, l)
		}
	}
	for s := range told {
		if _, still := fresh[s]; !still {
			u.Removed = append(u.Removed, s)
		}
	}
	return fresh, u
}
