package lease

import (
	"fmt"
	"net/netip"
)

// family holds flannel's rules for one address family. IPv4 and IPv6 differ in
// numbers only.
type family struct {
	prefix     string // of the JSON fields
	is4        bool
	wideLen    int // default subnet length of networks up to wideUpTo
	wideUpTo   int
	maxLen     int // longest subnet
	maxNetwork int // longest network that still gets a default subnet length
}

var (
	ipv4 = family{prefix: "", is4: true, wideLen: 24, wideUpTo: 22, maxLen: 30, maxNetwork: 28}
	ipv6 = family{prefix: "IPv6", wideLen: 64, wideUpTo: 62, maxLen: 126, maxNetwork: 124}
)

// written is one family's part of the configuration as written.
type written struct {
	network  string
	length   int
	min, max string
}

func (f family) resolve(w written) (network netip.Prefix, length int, lo, hi netip.Addr, err error) {
	if network, err = f.network(w.network); err != nil {
		return
	}
	if length, err = f.length(network, w.length); err != nil {
		return
	}
	first := netip.PrefixFrom(network.Addr(), length)
	if lo, err = f.bound("SubnetMin", w.min, lastAddr(first).Next(), network, length); err != nil {
		return
	}
	last := netip.PrefixFrom(lastAddr(network), length).Masked().Addr()
	if hi, err = f.bound("SubnetMax", w.max, last, network, length); err != nil {
		return
	}
	if hi.Less(lo) {
		err = fmt.Errorf("%sSubnetMin %s is after %sSubnetMax %s: swap them", f.prefix, lo, f.prefix, hi)
	}
	return
}

func (f family) network(text string) (netip.Prefix, error) {
	if text == "" {
		return netip.Prefix{}, fmt.Errorf("%sNetwork is missing: write the overlay's range as address/length", f.prefix)
	}
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("%sNetwork: %w", f.prefix, err)
	}
	if p.Addr().Is4() != f.is4 || p.Addr().Is4In6() {
		return netip.Prefix{}, fmt.Errorf("%sNetwork %s is of the wrong address family", f.prefix, p)
	}
	return p.Masked(), nil // flanneld cuts host bits off without a word
}

func (f family) length(network netip.Prefix, length int) (int, error) {
	roomy := network.Bits() + 2 // at least four subnets
	switch {
	case length == 0 && network.Bits() > f.maxNetwork:
		return 0, fmt.Errorf("%sNetwork %s is too small: /%d or shorter is needed", f.prefix, network, f.maxNetwork)
	case length == 0 && network.Bits() <= f.wideUpTo:
		return f.wideLen, nil
	case length == 0:
		return roomy, nil
	case length < 0 || length > f.maxLen:
		return 0, fmt.Errorf("%sSubnetLen %d is not possible: at most %d", f.prefix, length, f.maxLen)
	case length < roomy:
		return 0, fmt.Errorf("%sSubnetLen %d leaves fewer than four subnets in %s: at least %d", f.prefix, length, network, roomy)
	}
	return length, nil
}

func (f family) bound(field, text string, def netip.Addr, network netip.Prefix, length int) (netip.Addr, error) {
	if text == "" {
		return def, nil
	}
	a, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("%s%s: %w", f.prefix, field, err)
	}
	if !network.Contains(a) {
		return netip.Addr{}, fmt.Errorf("%s%s %s is outside %sNetwork %s", f.prefix, field, a, f.prefix, network)
	}
	if base := netip.PrefixFrom(a, length).Masked().Addr(); base != a {
		return netip.Addr{}, fmt.Errorf("%s%s %s is not the start of a /%d: %s is", f.prefix, field, a, length, base)
	}
	return a, nil
}

// lastAddr is the highest address of p.
func lastAddr(p netip.Prefix) netip.Addr {
	b := p.Addr().As16()
	offset := 128 - p.Addr().BitLen()
	for i := offset + p.Bits(); i < 128; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	if p.Addr().Is4() {
		return netip.AddrFrom4([4]byte(b[12:]))
	}
	return netip.AddrFrom16(b)
}
