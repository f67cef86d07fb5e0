package fib

import (
	"net/netip"

	"github.com/gaissmai/bart"
)

// IsPeer says whether an underlay address, in the form of packet.Buf.Peer, is a
// member's: the peer of any lease that is used.
func (s *Snapshot) IsPeer(addr *[16]byte) bool {
	return s.peers.Contains(netip.AddrFrom16(*addr).Unmap())
}

// peers are the members' underlay addresses as snapshots show them.
type peers struct {
	set   *bart.Lite
	moved []netip.Addr // came or went since the last commit
}

func (p *peers) touch(a netip.Addr) { p.moved = append(p.moved, a) }

// commit brings the set up to date with what the claims say now, in new memory
// where a reader may hold the old, and says whether there was anything to do.
func (p *peers) commit(now *prefixMap) (changed bool) {
	changed = len(p.moved) > 0
	if len(p.moved) > 8+p.set.Size()/256 {
		p.rebuild(now)
	} else {
		for _, a := range p.moved {
			p.patch(a, now.get(host(a)) != nil)
		}
	}
	if p.moved = p.moved[:0]; cap(p.moved) > keepDirty {
		p.moved = nil
	}
	return changed
}

func (p *peers) rebuild(now *prefixMap) {
	p.set = new(bart.Lite)
	for c := range now.all() {
		p.set.Insert(host(c.to.peer))
	}
}

func (p *peers) patch(a netip.Addr, member bool) {
	if member {
		p.set = p.set.InsertPersist(host(a))
		return
	}
	p.set = p.set.DeletePersist(host(a))
}

// host is the prefix that holds one address.
func host(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }
