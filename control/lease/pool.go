package lease

import (
	"fmt"
	"net/netip"
	"slices"
)

// Fits says, by its error, whether the configuration could have given s out:
// every enabled family present, of the right length, and in bounds.
func (c NetworkConfig) Fits(s Subnets) error {
	if c.EnableIPv4 != s.V4.IsValid() || c.EnableIPv6 != s.V6.IsValid() {
		return fmt.Errorf("subnets %s are not of the configured address families", s)
	}
	if c.EnableIPv4 {
		if err := fits(s.V4, c.SubnetLen, c.SubnetMin, c.SubnetMax); err != nil {
			return err
		}
	}
	if c.EnableIPv6 {
		return fits(s.V6, c.IPv6SubnetLen, c.IPv6SubnetMin, c.IPv6SubnetMax)
	}
	return nil
}

func fits(p netip.Prefix, length int, lo, hi netip.Addr) error {
	if p.Bits() != length {
		return fmt.Errorf("subnet %s is not a /%d", p, length)
	}
	if p.Addr().Less(lo) || hi.Less(p.Addr()) {
		return fmt.Errorf("subnet %s is not between %s and %s", p, lo, hi)
	}
	return nil
}

// CheckPeer says whether another node's lease may be routed in this network. A
// lease is hostile input: one that claims the whole network, or that says its
// underlay address is inside the overlay, would turn traffic into a loop.
func (c NetworkConfig) CheckPeer(l Lease) error {
	if c.EnableIPv4 {
		if err := checkPeer(l.Subnets.V4, c.Network, l.Attrs.PublicIP); err != nil {
			return err
		}
	}
	if c.EnableIPv6 && l.Subnets.V6.IsValid() {
		return checkPeer(l.Subnets.V6, c.IPv6Network, l.Attrs.PublicIPv6)
	}
	return nil
}

func checkPeer(subnet, network netip.Prefix, public netip.Addr) error {
	switch {
	case !subnet.IsValid():
		return fmt.Errorf("lease has no subnet in %s", network)
	case !network.Contains(subnet.Addr()) || subnet.Bits() <= network.Bits():
		return fmt.Errorf("subnet %s is not inside the network %s", subnet, network)
	case network.Contains(public):
		return fmt.Errorf("public address %s is inside the network %s that it should carry", public, network)
	}
	return nil
}

// Free lists the first subnets, at most limit, that overlap none of taken, per
// enabled family and in ascending order. Its cost grows with taken and limit,
// not with the size of the network.
func (c NetworkConfig) Free(taken []Subnets, limit int) (v4, v6 []netip.Prefix) {
	if c.EnableIPv4 {
		busy := spans(taken, func(s Subnets) netip.Prefix { return s.V4 })
		v4 = free(c.SubnetLen, c.SubnetMin, c.SubnetMax, busy, limit)
	}
	if c.EnableIPv6 {
		busy := spans(taken, func(s Subnets) netip.Prefix { return s.V6 })
		v6 = free(c.IPv6SubnetLen, c.IPv6SubnetMin, c.IPv6SubnetMax, busy, limit)
	}
	return v4, v6
}

// span is an inclusive range of addresses.
type span struct{ first, last netip.Addr }

// spans are the taken ranges in ascending order of their first address.
func spans(taken []Subnets, family func(Subnets) netip.Prefix) []span {
	var out []span
	for _, s := range taken {
		if p := family(s); p.IsValid() {
			p = p.Masked()
			out = append(out, span{p.Addr(), lastAddr(p)})
		}
	}
	slices.SortFunc(out, func(a, b span) int { return a.first.Compare(b.first) })
	return out
}

func free(length int, lo, hi netip.Addr, busy []span, limit int) []netip.Prefix {
	var out []netip.Prefix
	base := lo
	for base.IsValid() && !hi.Less(base) && len(out) < limit {
		candidate := netip.PrefixFrom(base, length)
		last := lastAddr(candidate)
		for len(busy) > 0 && busy[0].last.Less(base) {
			busy = busy[1:]
		}
		if len(busy) == 0 || last.Less(busy[0].first) {
			out = append(out, candidate)
			base = last.Next()
			continue
		}
		// Prefixes nest or are disjoint, so the range after the longer of the
		// two is again the start of a subnet, or the end of the addresses.
		if last.Less(busy[0].last) {
			last = busy[0].last
		}
		base = last.Next()
	}
	return out
}
