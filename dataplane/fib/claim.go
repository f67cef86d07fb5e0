package fib

import (
	"net/netip"

	"flanx/control/lease"
)

// maxRivals bounds how many leases may wait for the same prefix, so that a
// store full of them cannot make every change walk a long list.
const maxRivals = 16

// claim is one family of one lease that was admitted. There are 65,536 of them
// in the largest overlay, so its 104 bytes matter.
type claim struct {
	prefix netip.Prefix
	other  *netip.Prefix // the lease's subnet of the other family, if any
	to     endpoint
	stale  bool // the entry in slots must be compiled anew
	// overlaps says that the prefix overlapped another's when it came in.
	overlaps bool
	round    uint8  // of the last lease snapshot that had it
	slot     uint32 // its entry in slots; noHop when it has none

	rival      *claim // the next in line for the same prefix
	prev, next *claim // others with the same peer
}

func newClaim(s lease.Subnets, f *family, to endpoint) *claim {
	c := &claim{prefix: s.V4, to: to, slot: noHop}
	other := s.V6
	if f.v6 {
		c.prefix, other = s.V6, s.V4
	}
	if other.IsValid() {
		c.other = &other
	}
	return c
}

func (c *claim) v6() bool { return c.prefix.Addr().Is6() }

// subnets is the lease that the claim belongs to.
func (c *claim) subnets() lease.Subnets {
	var other netip.Prefix
	if c.other != nil {
		other = *c.other
	}
	if c.v6() {
		return lease.Subnets{V4: other, V6: c.prefix}
	}
	return lease.Subnets{V4: c.prefix, V6: other}
}

// claims are all admitted claims, found by prefix and by peer.
type claims struct {
	byPrefix prefixMap // who holds it; rivals wait behind
	byPeer   prefixMap // the first of those with the peer
	peak     int       // the most prefixes since the maps were made
}

func newClaims() claims { return claims{byPrefix: newPrefixMap(), byPeer: newPrefixMap()} }

// shrink gives back what the maps grew to when most of it is empty now, for a Go
// map does not.
func (cs *claims) shrink() {
	if cs.peak = max(cs.peak, cs.byPrefix.len()); cs.peak <= 4*cs.byPrefix.len()+1024 {
		return
	}
	cs.byPrefix, cs.byPeer = cs.byPrefix.clone(), cs.byPeer.clone()
	cs.peak = cs.byPrefix.len()
}

// find returns the lease's claim to p, or nil, and how many claims to p there
// are.
func (cs *claims) find(p netip.Prefix, s lease.Subnets) (found *claim, line int) {
	for c := cs.byPrefix.get(p); c != nil; c = c.rival {
		if c.subnets() == s {
			found = c
		}
		line++
	}
	return found, line
}

// add puts a new claim at the end of the line for its prefix. First says that
// its peer was not known before.
func (cs *claims) add(c *claim) (first bool) {
	end := cs.byPrefix.get(c.prefix)
	if end == nil {
		cs.byPrefix.set(c.prefix, c)
		return cs.link(c)
	}
	for end.rival != nil {
		end = end.rival
	}
	end.rival = c
	return cs.link(c)
}

// remove takes a claim out of the line for its prefix. Last says that no other
// claim has its peer.
func (cs *claims) remove(c *claim) (last bool) {
	if head := cs.byPrefix.get(c.prefix); head != c {
		for head.rival != c {
			head = head.rival
		}
		head.rival = c.rival
	} else if c.rival != nil {
		cs.byPrefix.set(c.prefix, c.rival)
	} else {
		cs.byPrefix.remove(c.prefix)
	}
	c.rival = nil
	return cs.unlink(c)
}

// link enters c under its peer.
func (cs *claims) link(c *claim) (first bool) {
	head := cs.byPeer.get(host(c.to.peer))
	if head != nil {
		head.prev = c
	}
	c.next = head
	cs.byPeer.set(host(c.to.peer), c)
	return head == nil
}

// unlink is the inverse of link.
func (cs *claims) unlink(c *claim) (last bool) {
	if c.next != nil {
		c.next.prev = c.prev
	}
	switch {
	case c.prev != nil:
		c.prev.next = c.next
	case c.next != nil:
		cs.byPeer.set(host(c.to.peer), c.next)
	default:
		cs.byPeer.remove(host(c.to.peer))
		last = true
	}
	c.prev, c.next = nil, nil
	return last
}
