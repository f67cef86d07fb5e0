package fib

import (
	"maps"
	"net/netip"

	"flanx/control/lease"
)

// maxRivals bounds how many leases may wait for the same prefix, so that a
// store full of them cannot make every change walk a long list.
const maxRivals = 16

// claim is one family of one lease that was admitted.
type claim struct {
	subnets lease.Subnets
	to      endpoint
	v6      bool
	stale   bool // the entry in slots must be compiled anew
	// overlaps says that the prefix overlapped another's when it came in.
	overlaps bool
	slot     uint32 // its entry in slots; noHop when it has none
	round    uint32 // the last snapshot that had it

	rival      *claim // the next in line for the same prefix
	prev, next *claim // others with the same peer
}

func (c *claim) prefix() netip.Prefix {
	if c.v6 {
		return c.subnets.V6
	}
	return c.subnets.V4
}

// claims are all admitted claims, found by prefix and by peer.
type claims struct {
	byPrefix map[netip.Prefix]*claim // who holds it; rivals wait behind
	byPeer   map[netip.Addr]*claim
	peak     int // the most prefixes since the maps were made
}

func newClaims() claims {
	return claims{byPrefix: map[netip.Prefix]*claim{}, byPeer: map[netip.Addr]*claim{}}
}

// shrink gives back what the maps grew to when most of it is empty now, for a Go
// map does not.
func (cs *claims) shrink() {
	if cs.peak = max(cs.peak, len(cs.byPrefix)); cs.peak <= 4*len(cs.byPrefix)+1024 {
		return
	}
	old := *cs
	*cs = newClaims()
	maps.Copy(cs.byPrefix, old.byPrefix)
	maps.Copy(cs.byPeer, old.byPeer)
	cs.peak = len(cs.byPrefix)
}

// find returns the lease's claim to p, or nil, and how many claims to p there
// are.
func (cs *claims) find(p netip.Prefix, s lease.Subnets) (found *claim, line int) {
	for c := cs.byPrefix[p]; c != nil; c = c.rival {
		if c.subnets == s {
			found = c
		}
		line++
	}
	return found, line
}

// add puts a new claim at the end of the line for its prefix. First says that
// its peer was not known before.
func (cs *claims) add(c *claim) (first bool) {
	end := cs.byPrefix[c.prefix()]
	if end == nil {
		cs.byPrefix[c.prefix()] = c
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
	p := c.prefix()
	if head := cs.byPrefix[p]; head != c {
		for head.rival != c {
			head = head.rival
		}
		head.rival = c.rival
	} else if c.rival != nil {
		cs.byPrefix[p] = c.rival
	} else {
		delete(cs.byPrefix, p)
	}
	c.rival = nil
	return cs.unlink(c)
}

// link enters c under its peer.
func (cs *claims) link(c *claim) (first bool) {
	head := cs.byPeer[c.to.peer]
	if head != nil {
		head.prev = c
	}
	c.next = head
	cs.byPeer[c.to.peer] = c
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
		cs.byPeer[c.to.peer] = c.next
	default:
		delete(cs.byPeer, c.to.peer)
		last = true
	}
	c.prev, c.next = nil, nil
	return last
}
