package control

import (
	"context"
	"errors"
	"net/netip"

	"flanx/control/lease"
)

// Errors that the agent and its callers tell apart.
var (
	// ErrUnavailable: the store does not answer in time, or refuses.
	ErrUnavailable = errors.New("store unavailable")
	// ErrNoConfig: the store answers, but holds no network configuration.
	ErrNoConfig = errors.New("no network configuration in the store")
	// ErrBadConfig: the store's network configuration cannot be used.
	ErrBadConfig = errors.New("unusable network configuration in the store")
	// ErrOutOfSubnets: every subnet of the network is taken.
	ErrOutOfSubnets = errors.New("out of subnets")
	// ErrLeaseLost: our subnet belongs to another node now.
	ErrLeaseLost = errors.New("our subnet is held by another node")
)

// Source tells what the cluster looks like: first everything, then changes, and
// everything again whenever continuity was lost.
type Source interface {
	// Config reads the network configuration once. Its errors are one of
	// ErrUnavailable, ErrNoConfig, ErrBadConfig, wrapped with what to do.
	Config(ctx context.Context) (lease.NetworkConfig, error)

	// Watch calls apply from one goroutine until ctx ends or apply fails. The
	// first Update that carries leases is a snapshot. Watch outlives outages of
	// the store: it says so by an Update with Lost set, and tells everything
	// again when the store is back. An entry that cannot be read costs only
	// itself. Watch returns only ctx's error or apply's.
	Watch(ctx context.Context, apply func(lease.Update) error) error
}

// Leaser holds our own subnet; only stores that allocate have one.
type Leaser interface {
	// Find returns the lease that the store still holds for this node, that is,
	// what Acquire would take up again, so that the caller can keep what it said
	// before (its VtepMAC). It is ours if it says publicIP, or if its ID is that
	// of last. Between several, the subnets of last decide.
	Find(ctx context.Context, cfg lease.NetworkConfig, publicIP netip.Addr, last lease.Lease) (l lease.Lease, found bool, err error)

	// Acquire takes a subnet for attrs: ours from before if the store still says
	// so, else that of last if it is free, else any free one. last is what we
	// held in our former life as far as known: the Subnets are a wish, the ID is
	// a proof. A lost race against another node is tried again; ErrOutOfSubnets
	// is not.
	Acquire(ctx context.Context, cfg lease.NetworkConfig, attrs lease.Attrs, last lease.Lease) (lease.Lease, error)

	// Keep renews the lease until ctx ends. It re-creates the lease when it was
	// lost and the subnet is still free, and returns ErrLeaseLost when another
	// node holds it. It never overwrites what is not ours. Outages of the store
	// do not end it. After every renewal or re-creation it calls changed, if
	// not nil, with the lease as it is now.
	Keep(ctx context.Context, l lease.Lease, changed func(lease.Lease)) error
}
