package fib

import (
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/gaissmai/bart"

	"flanx/control/lease"
)

// Table holds the leases of the cluster and publishes Snapshots of where they
// lead. It is made by New.
type Table struct {
	cfg  Config
	snap atomic.Pointer[Snapshot]

	mu      sync.Mutex
	claims  claims
	refused map[refusedKey]refusedLease
	round   uint8          // counts lease snapshots, to see what is not in the last; wraps
	dirty   []netip.Prefix // what they lead to may have changed since the last Snapshot
	slots   slots
	peers   peers
	lpm     *bart.Fast[uint32]
	warn    warner
}

// refusedKey names one family of a lease.
type refusedKey struct {
	subnets lease.Subnets
	v6      bool
}

type refusedLease struct {
	why      Refusal
	round    uint8
	revision int64
}

// New returns a Table that is empty but for our own subnet.
func New(cfg Config) *Table {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.NextHops == nil {
		cfg.NextHops = noNextHops{}
	}
	t := &Table{
		cfg:     cfg,
		claims:  newClaims(),
		refused: map[refusedKey]refusedLease{},
		warn:    warner{log: cfg.Log},
	}
	t.rebuild()
	t.peers.rebuild(&t.claims.byPeer)
	t.publish()
	cfg.NextHops.Watch(func(remotes []netip.Addr) { t.Changed(remotes...) })
	return t
}

// Load returns the newest Snapshot. It is never nil. A worker reads it once per
// batch.
func (t *Table) Load() *Snapshot { return t.snap.Load() }

// Apply takes a change of the leases and publishes a Snapshot of the outcome,
// if it is another one. Applying the same update twice is like applying it
// once. Removed is taken before Leases. A lease that cannot be used costs only
// itself: it is counted and warned of, and the error, which gives Apply the
// form that control.Source.Watch takes, is nil.
func (t *Table) Apply(u lease.Update) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if u.Snapshot {
		t.round++
	}
	for _, s := range u.Removed {
		t.remove(s)
	}
	for i := range u.Leases {
		t.put(&u.Leases[i])
	}
	if u.Snapshot {
		t.sweep()
	}
	t.commit()
	return nil
}

// Changed tells the Table that these underlay addresses may have another
// NextHop than before.
func (t *Table) Changed(remotes ...netip.Addr) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, remote := range remotes {
		for c := t.claims.byPeer.get(host(remote)); c != nil; c = c.next {
			t.touch(c)
		}
	}
	t.commit()
}

// Refresh asks for every NextHop again.
func (t *Table) Refresh() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for c := range t.claims.byPrefix.all() {
		t.touch(c)
	}
	t.commit()
}

// put takes a new or changed lease.
func (t *Table) put(l *lease.Lease) {
	if l.Subnets == t.cfg.Own {
		return
	}
	for _, v6 := range [...]bool{false, true} {
		f := t.cfg.family(v6)
		if !f.subnet(l.Subnets).IsValid() {
			continue
		}
		to, r := t.cfg.admit(l, &f)
		if r == nil {
			r = t.claim(l.Subnets, &f, to)
		}
		if r != nil {
			t.drop(l.Subnets, &f)
			t.refuse(l, &f, r)
			continue
		}
		delete(t.refused, refusedKey{l.Subnets, v6})
	}
}

// claim enters an admitted lease, new or not.
func (t *Table) claim(s lease.Subnets, f *family, to endpoint) *refusal {
	p := f.subnet(s)
	c, line := t.claims.find(p, s)
	switch {
	case c == nil && line > maxRivals:
		return refuse(Crowded, "%d leases claim %v", line, p)
	case c == nil:
		c = newClaim(s, f, to)
		if line > 0 {
			t.warn.warn("two leases claim one subnet; the first to come keeps it", "subnet", p, "peer", to.peer)
		}
		if t.claims.add(c) {
			t.track(to.peer)
		}
		t.touch(c)
	case c.to != to:
		if t.claims.unlink(c) {
			t.untrack(c.to.peer)
		}
		c.to = to
		if t.claims.link(c) {
			t.track(to.peer)
		}
		t.touch(c)
	}
	c.round = t.round
	return nil
}

// remove forgets a lease.
func (t *Table) remove(s lease.Subnets) {
	for _, v6 := range [...]bool{false, true} {
		f := t.cfg.family(v6)
		t.drop(s, &f)
		delete(t.refused, refusedKey{s, v6})
	}
}

// drop forgets one family's claim of a lease, if there is one.
func (t *Table) drop(s lease.Subnets, f *family) {
	if c, _ := t.claims.find(f.subnet(s), s); c != nil {
		t.dropClaim(c)
	}
}

func (t *Table) dropClaim(c *claim) {
	p := c.prefix
	if t.claims.remove(c) {
		t.untrack(c.to.peer)
	}
	t.dirty = append(t.dirty, p)
	if heir := t.claims.byPrefix.get(p); heir != nil {
		heir.stale = true
	}
}

// track and untrack follow an underlay address from its first claim to its last.
func (t *Table) track(a netip.Addr) {
	t.cfg.NextHops.Track(a)
	t.peers.touch(a)
}

func (t *Table) untrack(a netip.Addr) {
	t.cfg.NextHops.Untrack(a)
	t.peers.touch(a)
}

// touch marks what a claim leads to as perhaps changed.
func (t *Table) touch(c *claim) {
	c.stale = true
	t.dirty = append(t.dirty, c.prefix)
}

// refuse counts a lease that is not used, and warns once per revision.
func (t *Table) refuse(l *lease.Lease, f *family, r *refusal) {
	key := refusedKey{l.Subnets, f.v6}
	old := t.refused[key]
	t.refused[key] = refusedLease{r.why, t.round, l.Revision}
	if r.why.quiet() || (old.why == r.why && old.revision == l.Revision) {
		return
	}
	t.warn.warn("lease not used", "subnet", f.subnet(l.Subnets), "revision", l.Revision, "error", r)
}

// sweep forgets what the lease snapshot just taken did not have.
func (t *Table) sweep() {
	var gone []*claim
	for c := range t.claims.byPrefix.all() {
		for ; c != nil; c = c.rival {
			if c.round != t.round {
				gone = append(gone, c)
			}
		}
	}
	for _, c := range gone {
		t.dropClaim(c)
	}
	for key, r := range t.refused {
		if r.round != t.round {
			delete(t.refused, key)
		}
	}
}

// Stats is what a Table holds now.
type Stats struct {
	Hops     int // prefixes that lead to a hop
	Ready    int // those of them whose Fast path may be used
	Overlaps int // those that overlapped another's when they came in
	Rivals   int // claims that wait for a prefix that another lease holds
	Peers    int // different underlay addresses
	// Refused counts, by reason, families of leases that are not used.
	Refused [NumRefusals]int
}

// Stats counts. It takes some milliseconds in a table of 65,536 routes, and is
// for metrics, not for workers.
func (t *Table) Stats() Stats {
	t.mu.Lock()
	defer t.mu.Unlock()
	st := Stats{Peers: t.claims.byPeer.len()}
	for c := range t.claims.byPrefix.all() {
		st.Hops++
		if t.slots.hops[c.slot].Ready {
			st.Ready++
		}
		if c.overlaps {
			st.Overlaps++
		}
		for r := c.rival; r != nil; r = r.rival {
			st.Rivals++
		}
	}
	for _, r := range t.refused {
		st.Refused[r.why]++
	}
	return st
}

// noNextHops knows of none.
type noNextHops struct{}

// Track does nothing.
func (noNextHops) Track(netip.Addr) {}

// Untrack does nothing.
func (noNextHops) Untrack(netip.Addr) {}

// NextHop knows nothing.
func (noNextHops) NextHop(netip.Addr) NextHop { return NextHop{} }

// Watch has nothing to tell.
func (noNextHops) Watch(func([]netip.Addr)) {}

var _ NextHops = noNextHops{}
