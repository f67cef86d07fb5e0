package fib

import (
	"net/netip"

	"github.com/gaissmai/bart"

	"flanx/encap"
)

// keepDirty bounds the list that is kept between commits, so that a burst does
// not hold its memory for ever.
const keepDirty = 1024

// commit brings the compiled entries up to date with the claims and publishes
// a Snapshot if anything came out different.
func (t *Table) commit() {
	if len(t.dirty) == 0 {
		return
	}
	changed := t.peers.commit(&t.claims.byPeer)
	if t.slots.fits(len(t.dirty), t.claims.byPrefix.len()) {
		changed = t.patch() || changed
	} else {
		t.rebuild()
		changed = true
	}
	if t.dirty = t.dirty[:0]; cap(t.dirty) > keepDirty {
		t.dirty = nil
	}
	if changed {
		t.publish()
	}
}

// patch recompiles what is dirty, behind the end of what older snapshots see.
func (t *Table) patch() (changed bool) {
	edit := newEdit(t.lpm, len(t.dirty))
	for _, p := range t.dirty {
		c := t.claims.byPrefix.get(p)
		if c == nil {
			edit.remove(p)
			changed = true
			continue
		}
		if !c.stale { // it is a rival that changed, or c came earlier in this list
			continue
		}
		c.stale = false
		e := t.compile(c)
		if c.slot != noHop && t.slots.get(c.slot) == e {
			continue
		}
		fresh := c.slot == noHop
		c.slot = t.slots.add(&e)
		edit.insert(p, c.slot)
		changed = true
		if fresh {
			t.checkOverlap(c, edit.lpm)
		}
	}
	t.lpm = edit.lpm
	return changed
}

// rebuild moves what is live to new memory, recompiling what is stale.
func (t *Table) rebuild() {
	t.claims.shrink()
	old := t.slots
	t.slots = newSlots(t.claims.byPrefix.len(), t.cfg.Fast != nil, t.cfg.Fallback != nil)
	t.lpm = new(bart.Fast[uint32])
	for _, own := range [...]netip.Prefix{t.cfg.Own.V4, t.cfg.Own.V6} {
		if own.IsValid() {
			t.lpm.Insert(own, noHop)
		}
	}
	var fresh []*claim
	for c := range t.claims.byPrefix.all() {
		var e entry
		switch {
		case c.slot == noHop:
			fresh = append(fresh, c)
			e = t.compile(c)
		case c.stale:
			e = t.compile(c)
		default:
			e = old.get(c.slot)
		}
		c.stale = false
		c.slot = t.slots.add(&e)
		t.lpm.Insert(c.prefix, c.slot)
	}
	for _, c := range fresh {
		t.checkOverlap(c, t.lpm)
	}
}

// compile works out what a claim leads to now.
func (t *Table) compile(c *claim) (e entry) {
	nh := t.cfg.NextHops.NextHop(c.to.peer)
	e.hop = Hop{Peer: c.to.peer.As16(), MTU: uint32(max(0, nh.MTU))}
	f := t.cfg.family(c.v6())
	peer := t.cfg.peer(c.to, &f)
	if t.cfg.Fallback != nil {
		e.fallback = compilePath(t.cfg.Fallback, peer)
	}
	// A zero MAC is never a next hop, whatever the source of it claims: frames
	// to it would vanish without a trace.
	if t.cfg.Fast != nil && nh.Known && !nh.MAC.IsZero() && !nh.LocalMAC.IsZero() {
		peer.LocalMAC, peer.NextHopMAC = nh.LocalMAC, nh.MAC
		e.fast = compilePath(t.cfg.Fast, peer)
		e.hop.Ready = e.fast.Ready
	}
	return e
}

// compilePath returns the zero Path, which is not Ready, when the codec refuses
// the peer or leaves the path unready.
func compilePath(codec encap.Codec, peer encap.Peer) encap.Path {
	path, err := codec.Compile(peer)
	if err != nil || !path.Ready {
		return encap.Path{}
	}
	return path
}

// checkOverlap warns when a prefix that has just come in overlaps another
// lease's. Allocators never give such out, so one of the two is wrong, but
// which one cannot be told from here: the longest prefix decides.
func (t *Table) checkOverlap(c *claim, lpm *bart.Fast[uint32]) {
	other, ok := overlapping(c.prefix, lpm)
	if !ok {
		return
	}
	c.overlaps = true
	t.warn.warn("two leases overlap; the longer prefix decides", "subnet", c.prefix, "other", other, "peer", c.to.peer)
}

// overlapping returns a prefix that lies over or under p, not p itself.
func overlapping(p netip.Prefix, lpm *bart.Fast[uint32]) (netip.Prefix, bool) {
	for other := range lpm.Supernets(p) {
		if other != p {
			return other, true
		}
	}
	for other := range lpm.Subnets(p) {
		if other != p {
			return other, true
		}
	}
	return netip.Prefix{}, false
}

// publish makes the present state what Load returns.
func (t *Table) publish() {
	n := len(t.slots.hops)
	s := &Snapshot{
		Hops:     t.slots.hops[:n:n],
		Fast:     clip(t.slots.fast),
		Fallback: clip(t.slots.fallback),
		Version:  1,
		lpm:      t.lpm,
		peers:    t.peers.set,
	}
	s.setOwn(t.cfg.Own)
	if last := t.snap.Load(); last != nil {
		s.Version = last.Version + 1
	}
	t.snap.Store(s)
}

// clip takes the capacity away, so that nobody can append where later
// snapshots will be written. It keeps nil.
func clip(paths []encap.Path) []encap.Path { return paths[:len(paths):len(paths)] }
