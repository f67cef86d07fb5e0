package host

import (
	"net/netip"
	"time"
)

// addrSet is a set of addresses; nil is empty.
type addrSet map[netip.Addr]struct{}

func (s *addrSet) add(a netip.Addr) {
	if *s == nil {
		*s = addrSet{}
	}
	(*s)[a] = struct{}{}
}

func (s addrSet) has(a netip.Addr) bool {
	_, ok := s[a]
	return ok
}

// take removes up to count addresses, and returns them.
func (s addrSet) take(count int) (taken addrSet) {
	for a := range s {
		if len(taken) == count {
			break
		}
		taken.add(a)
		delete(s, a)
	}
	return taken
}

// todo is what events and tracking leave for Run.
type todo struct {
	resync  bool           // read everything
	all     bool           // look up every remote's route, when its turn comes
	lookup  addrSet        // look up these remotes' routes
	routes  []netip.Prefix // look up the remotes in these
	tell    addrSet        // tell of the remotes behind these neighbours
	tellAll bool           // tell of all remotes
	probe   addrSet        // these neighbours are stale
}

func (t *todo) empty() bool {
	return !t.resync && !t.all && !t.tellAll && len(t.lookup)+len(t.routes)+len(t.tell)+len(t.probe) == 0
}

// take takes the work of one round out of todo. What has to wait stays there.
// The caller holds mu.
func (n *NextHops) take(pace *pacer) todo {
	n.routesChanged(n.todo.routes)
	t := n.todo
	n.todo, t.routes = todo{}, nil
	switch {
	case !t.resync && !t.all:
	case pace.ready():
		for remote := range n.remotes {
			t.lookup.add(remote)
		}
	default:
		n.todo.resync, n.todo.all = t.resync, t.all
		t.resync, t.all = false, false
	}
	if rest := t.lookup; len(rest) > lookupBatch {
		t.lookup = rest.take(lookupBatch)
		n.todo.lookup = rest
	}
	return t
}

// pacer bounds how much of the time is spent on reading everything.
type pacer struct {
	next  time.Time        // not before
	again <-chan time.Time // fires then, if somebody waits for it
}

// ready says whether it is time; if not, again will tell.
func (p *pacer) ready() bool {
	wait := time.Until(p.next)
	if wait <= 0 {
		return true
	}
	if p.again == nil {
		p.again = time.After(wait)
	}
	return false
}

// spent notes that reading everything has taken so long.
func (p *pacer) spent(d time.Duration) { p.notBefore(d * (readAllShare - 1)) }

// notBefore puts the next time off by d at least.
func (p *pacer) notBefore(d time.Duration) {
	if next := time.Now().Add(d); next.After(p.next) {
		p.next = next
	}
}

// seen is what events told of while everything was being read: they are newer
// than what was read.
type seen struct {
	reading bool
	link    bool
	neighs  addrSet
}

func (s *seen) neigh(a netip.Addr) {
	if s.reading {
		s.neighs.add(a)
	}
}
