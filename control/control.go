package control

import (
	"context"
	"errors"

	"flanx/control/lease"
)

// Errors that the agent and its callers tell apart.
var (
	// ErrNoConfig: the store answers, but holds no network configuration.
	ErrNoConfig = errors.New("no network configuration in the store")
	// ErrOutOfSubnets: every subnet of the network is taken.
	ErrOutOfSubnets = errors.New("out of subnets")
	// ErrLeaseLost: our subnet belongs to another node now.
	ErrLeaseLost = errors.New("our subnet is held by another node")
)

// Source tells what the cluster looks like: first everything, then changes, and
// everything again whenever continuity was lost.
type Source interface {
	// Config reads the network configuration once.
	Config(ctx context.Context) (lease.NetworkConfig, error)

	// Watch calls apply from one goroutine until ctx ends or apply fails. The
	// first Update is always a snapshot. Watch outlives outages of the store:
	// it returns only ctx's error or apply's.
	Watch(ctx context.Context, apply func(lease.Update) error) error
}

// Leaser holds our own subnet; only stores that allocate have one.
type Leaser interface {
	// Acquire takes a subnet for attrs: ours from before if the store still
	// says so, else prefer if it is free, else any free one.
	Acquire(ctx context.Context, cfg lease.NetworkConfig, attrs lease.Attrs, prefer lease.Subnets) (lease.Lease, error)

	// Keep renews the lease until ctx ends. It re-creates the lease when it was
	// lost and the subnet is still free, and returns ErrLeaseLost when another
	// node holds it. It never overwrites what is not ours.
	Keep(ctx context.Context, l lease.Lease) error
}
