package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"flanx/control/lease"
)

// Defaults of the Agent's times.
const (
	DefaultGrace       = time.Minute
	DefaultConfigCheck = time.Minute
	saveInterval       = time.Second // the state file is written at most this often
	configRetry        = time.Second // how often a missing configuration is asked for
)

// Agent finds our place in the cluster and tells the packet half who else is
// there. Fill the fields, call Run once; the fields are not to be changed then.
type Agent struct {
	Source   Source
	Leaser   Leaser     // nil: this node only looks on and holds no subnet
	PublicIP netip.Addr // ours on the underlay; IPv6 only where the network has no IPv4
	Log      *slog.Logger

	// Attrs is what this node says about itself in a network like cfg. prev is
	// what the store or the state file has from before, or zero: a node that
	// keeps its VtepMAC spares the others a change. Needed with a Leaser. An
	// error ends Run.
	Attrs func(cfg lease.NetworkConfig, prev lease.Attrs) (lease.Attrs, error)
	// Prefer is the subnet to take if the store does not know ours, from subnet.env.
	Prefer lease.Subnets

	// OnLease prepares the host; it returns before the first Apply. An error
	// ends Run.
	OnLease func(ctx context.Context, cfg lease.NetworkConfig, own lease.Lease) error
	// Apply takes the leases of the other nodes, never our own: a snapshot
	// first, then changes. An error ends Run.
	Apply func(lease.Update) error
	// OnStatus, if set, is called after every change of Status, from the agent's
	// goroutines. It must return at once.
	OnStatus func(Status)

	// StateFile keeps the last known cluster for a start without the store;
	// empty: nothing is kept. Origin names the store and prefix; a file about
	// another one is not used.
	StateFile string
	Origin    string

	Grace       time.Duration // before peers are removed after an outage; 0: DefaultGrace, negative: none
	ConfigCheck time.Duration // how often the configuration is compared; 0: DefaultConfigCheck

	mu       sync.Mutex
	status   Status
	badState bool // the state file was complained about
}

// place is how we stand in the cluster once the start is over.
type place struct {
	cfg   lease.NetworkConfig
	own   lease.Lease
	peers []lease.Lease // from the state file
	stale bool          // all of it is from the state file
}

// Run starts, waits as long as the store or its configuration is missing, and
// then keeps the lease and the table until ctx ends, which returns nil. With
// ErrLeaseLost our subnet must not be used any more.
func (a *Agent) Run(ctx context.Context) error {
	a.defaults()
	a.enter(Starting, nil)
	p, err := a.start(ctx)
	if err != nil {
		return ended(ctx, err)
	}
	a.note(func(st *Status) { st.Config, st.Lease = p.cfg, p.own })
	if a.OnLease != nil && a.Leaser != nil {
		if err := a.OnLease(ctx, p.cfg, p.own); err != nil {
			return ended(ctx, fmt.Errorf("prepare host for subnets %s: %w", p.own.Subnets, err))
		}
	}
	err = a.serve(ctx, p)
	if errors.Is(err, ErrLeaseLost) {
		a.enter(Lost, err)
	}
	return ended(ctx, err)
}

func (a *Agent) defaults() {
	if a.Log == nil {
		a.Log = slog.New(slog.DiscardHandler)
	}
	if a.Grace == 0 {
		a.Grace = DefaultGrace
	}
	if a.ConfigCheck <= 0 {
		a.ConfigCheck = DefaultConfigCheck
	}
}

// ended makes the end of ctx a success.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil && !errors.Is(err, ErrLeaseLost) {
		return nil
	}
	return err
}

// serve runs the goroutines of a started agent until the first of them fails.
func (a *Agent) serve(ctx context.Context, p place) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	l := newLoop(a, p)
	if p.stale {
		if err := l.restore(p.peers); err != nil {
			return err
		}
	}
	if a.Leaser != nil {
		wg.Go(func() { cancel(a.Leaser.Keep(ctx, p.own, l.renewed)) })
	}
	wg.Go(func() {
		cancel(a.Source.Watch(ctx, func(u lease.Update) error { return l.hand(ctx, u) }))
	})
	wg.Go(func() { a.compareConfig(ctx, p.cfg) })
	if err := l.run(ctx); err != nil {
		cancel(err)
	}
	wg.Wait()
	err := context.Cause(ctx)
	l.save(errors.Is(err, ErrLeaseLost))
	return err
}

// compareConfig reports that the configuration in the store is another one than
// the one in use. Changing a network under running nodes breaks it, so that
// takes a restart, as with flanneld.
func (a *Agent) compareConfig(ctx context.Context, inUse lease.NetworkConfig) {
	last := ""
	for Sleep(ctx, Jitter(a.ConfigCheck)) == nil {
		now, err := a.Source.Config(ctx)
		if ctx.Err() != nil || errors.Is(err, ErrUnavailable) {
			continue
		}
		said := ""
		switch {
		case err != nil:
			said = err.Error()
		case !now.Equal(inUse):
			said = "it differs from the one in use"
		}
		if said != last && said != "" {
			a.Log.Warn("network configuration changed in the store; the old one stays in use until a restart", "err", said)
		}
		last = said
	}
}
