package control

import (
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"flanx/control/lease"
)

// table is what the packet half has been told about the other nodes. It judges
// what a Source says before it is passed on: leases that must not be routed are
// left out, and removals after an outage are held down.
//
// Why hold down: leases that ran out because nobody could reach the store say
// nothing about their nodes, which are forwarding still. They come back one by
// one when the store does. Without a grace period the outage of the store would
// become an outage of the network just when it ends.
type table struct {
	cfg      lease.NetworkConfig
	self     lease.Subnets // ours; zero if we hold none
	publicIP netip.Addr    // ours
	grace    time.Duration
	warn     *Warnings

	peers    map[lease.Subnets]lease.Lease
	held     map[lease.Subnets]bool  // of peers: gone from the store
	rejected map[lease.Subnets]int64 // revision that was warned about
	until    time.Time               // removals before this are held
	lost     bool                    // continuity was lost: the next snapshot starts a grace period
}

func newTable(cfg lease.NetworkConfig, self lease.Subnets, publicIP netip.Addr, grace time.Duration, log *slog.Logger) *table {
	return &table{
		cfg: cfg, self: self, publicIP: publicIP, grace: grace,
		warn:     &Warnings{Log: log},
		peers:    map[lease.Subnets]lease.Lease{},
		held:     map[lease.Subnets]bool{},
		rejected: map[lease.Subnets]int64{},
	}
}

// change takes in what a Source says and returns what to pass on; worth is false
// if that is nothing.
func (t *table) change(u lease.Update, now time.Time) (out lease.Update, worth bool) {
	switch {
	case u.Lost:
		t.lost = true
		return out, false
	case u.Snapshot:
		return t.snapshot(u.Leases, now), true
	}
	out = t.delta(u, now)
	return out, len(out.Leases)+len(out.Removed) > 0
}

func (t *table) delta(u lease.Update, now time.Time) (out lease.Update) {
	fresh := map[lease.Subnets]lease.Lease{}
	gone := map[lease.Subnets]bool{}
	for _, s := range u.Removed {
		gone[s] = true
		delete(t.rejected, s)
	}
	for _, l := range u.Leases {
		admitted := t.admit(l)
		gone[l.Subnets] = !admitted
		if admitted {
			fresh[l.Subnets] = l
		} else {
			delete(fresh, l.Subnets)
		}
	}
	var known []lease.Subnets
	for s := range gone {
		if _, ok := t.peers[s]; ok && gone[s] {
			known = append(known, s)
		}
	}
	out.Removed = t.remove(known, now)
	for s, l := range fresh {
		out.Removed = append(out.Removed, t.evict(s)...)
		if old, ok := t.peers[s]; !ok || !old.Equal(l) {
			out.Leases = append(out.Leases, l)
		}
		t.peers[s] = l
		delete(t.held, s)
	}
	return out
}

func (t *table) snapshot(leases []lease.Lease, now time.Time) lease.Update {
	if t.lost {
		t.lost, t.until = false, now.Add(t.grace)
	}
	fresh := make(map[lease.Subnets]lease.Lease, len(leases))
	for _, l := range leases {
		if t.admit(l) {
			fresh[l.Subnets] = l
		}
	}
	var gone []lease.Subnets
	for s := range t.peers {
		if _, ok := fresh[s]; !ok {
			gone = append(gone, s)
		}
	}
	t.remove(gone, now)
	for s, l := range fresh {
		t.evict(s)
		t.peers[s] = l
		delete(t.held, s)
	}
	out := lease.Update{Snapshot: true, Leases: make([]lease.Lease, 0, len(t.peers))}
	for _, l := range t.peers {
		out.Leases = append(out.Leases, l)
	}
	return out
}

// massRemoval is how many leases at once, and more than half of all, are no
// single node's end but the store's trouble.
const massRemoval = 3

// remove forgets peers, or holds them, and returns those forgotten.
func (t *table) remove(gone []lease.Subnets, now time.Time) []lease.Subnets {
	if len(gone) >= massRemoval && 2*len(gone) > len(t.peers) {
		t.until = now.Add(t.grace)
	}
	if now.Before(t.until) {
		for _, s := range gone {
			t.held[s] = true
		}
		return nil
	}
	for _, s := range gone {
		delete(t.peers, s)
		delete(t.held, s)
	}
	return gone
}

// evict forgets the held peers whose range is claimed by somebody new.
func (t *table) evict(claim lease.Subnets) (gone []lease.Subnets) {
	for s := range t.held {
		if s != claim && s.Overlaps(claim) {
			delete(t.held, s)
			delete(t.peers, s)
			gone = append(gone, s)
		}
	}
	return gone
}

// release ends the grace period if it is over: what did not come back is gone.
func (t *table) release(now time.Time) (out lease.Update, worth bool) {
	if t.lost || len(t.held) == 0 || now.Before(t.until) {
		return out, false
	}
	for s := range t.held {
		out.Removed = append(out.Removed, s)
		delete(t.peers, s)
	}
	clear(t.held)
	return out, true
}

// admit says whether a lease may be routed. It warns once per revision of a
// lease that may not. Our own is left out in silence: it is no peer.
func (t *table) admit(l lease.Lease) bool {
	if l.Subnets == t.self && !t.self.IsZero() {
		return false
	}
	err := t.judge(l)
	if err == nil {
		delete(t.rejected, l.Subnets)
		return true
	}
	if rev, known := t.rejected[l.Subnets]; !known || rev != l.Revision {
		t.rejected[l.Subnets] = l.Revision
		t.warn.Warn("lease ignored", "subnets", l.Subnets, "public_ip", l.Attrs.PublicIP, "revision", l.Revision, "err", err)
	}
	return false
}

func (t *table) judge(l lease.Lease) error {
	if err := t.cfg.CheckPeer(l); err != nil {
		return err
	}
	if l.Subnets.Overlaps(t.self) {
		return fmt.Errorf("it overlaps our own subnets %s", t.self)
	}
	if t.publicIP.IsValid() && (l.Attrs.PublicIP == t.publicIP || l.Attrs.PublicIPv6 == t.publicIP) {
		return fmt.Errorf("it says our own public address %s: an old lease of ours, or another node has the same address", t.publicIP)
	}
	return nil
}

// all are the peers, for the state file.
func (t *table) all() []lease.Lease {
	out := make([]lease.Lease, 0, len(t.peers))
	for _, l := range t.peers {
		out = append(out, l)
	}
	return out
}
