package hostnet

import (
	"errors"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
)

// dump repeats a list that changed while the kernel wrote it (NLM_F_DUMP_INTR).
// On a host where that never ends the last, possibly incomplete, list is refused.
func dump[T any](list func() ([]T, error)) (all []T, err error) {
	for range 20 {
		if all, err = list(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			return all, err
		}
	}
	return nil, err
}

// ipNet turns a prefix into the form that netlink takes.
func ipNet(p netip.Prefix) *net.IPNet {
	addr := p.Addr()
	return &net.IPNet{IP: addr.AsSlice(), Mask: net.CIDRMask(p.Bits(), addr.BitLen())}
}

// prefixOf is the inverse of ipNet. A nil network is the default route's.
func prefixOf(n *net.IPNet, family int) netip.Prefix {
	if n == nil {
		if family == netlink.FAMILY_V6 {
			return netip.PrefixFrom(netip.IPv6Unspecified(), 0)
		}
		return netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	}
	addr, _ := netip.AddrFromSlice(n.IP)
	bits, _ := n.Mask.Size()
	return netip.PrefixFrom(addr.Unmap(), bits)
}

// addrOf turns an address of netlink into a netip.Addr; nil into the zero one.
func addrOf(ip net.IP) netip.Addr {
	addr, _ := netip.AddrFromSlice(ip)
	return addr.Unmap()
}

// familyOf returns the netlink family of an address.
func familyOf(a netip.Addr) int {
	if a.Is4() {
		return netlink.FAMILY_V4
	}
	return netlink.FAMILY_V6
}
