package fib

import (
	"encoding/binary"
	"iter"
	"net/netip"
)

// prefixMap finds claims by prefix. IPv4 prefixes, which most are, take 8 bytes
// in it instead of a netip.Prefix's 32: in the largest overlay that is 7 MiB
// less for the two maps that there are.
type prefixMap struct {
	v4 map[uint64]*claim // by address and length
	v6 map[netip.Prefix]*claim
}

func newPrefixMap() prefixMap {
	return prefixMap{v4: map[uint64]*claim{}, v6: map[netip.Prefix]*claim{}}
}

// key4 is the key of an IPv4 prefix.
func key4(p netip.Prefix) uint64 {
	a := p.Addr().As4()
	return uint64(binary.BigEndian.Uint32(a[:]))<<8 | uint64(uint8(p.Bits()))
}

func (m *prefixMap) get(p netip.Prefix) *claim {
	if p.Addr().Is4() {
		return m.v4[key4(p)]
	}
	return m.v6[p]
}

func (m *prefixMap) set(p netip.Prefix, c *claim) {
	if p.Addr().Is4() {
		m.v4[key4(p)] = c
	} else {
		m.v6[p] = c
	}
}

func (m *prefixMap) remove(p netip.Prefix) {
	if p.Addr().Is4() {
		delete(m.v4, key4(p))
	} else {
		delete(m.v6, p)
	}
}

func (m *prefixMap) len() int { return len(m.v4) + len(m.v6) }

// all iterates over the claims, in no particular order.
func (m *prefixMap) all() iter.Seq[*claim] {
	return func(yield func(*claim) bool) {
		for _, c := range m.v4 {
			if !yield(c) {
				return
			}
		}
		for _, c := range m.v6 {
			if !yield(c) {
				return
			}
		}
	}
}

// clone copies the map into memory of the size that it needs.
func (m *prefixMap) clone() prefixMap {
	n := newPrefixMap()
	for k, c := range m.v4 {
		n.v4[k] = c
	}
	for p, c := range m.v6 {
		n.v6[p] = c
	}
	return n
}
