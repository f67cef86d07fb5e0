package hostnet

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// host is what the choice of an interface needs to know about the host.
type host struct {
	nics             []nic // by index
	routes4, routes6 []defaultRoute
	reach            reach
}

// nic is a network interface and its addresses.
type nic struct {
	index, mtu int
	name       string
	all        []netip.Addr // every address
	v4, v6     []netip.Addr // those fit for use, best first
}

// defaultRoute is one way of the main table to everywhere.
type defaultRoute struct {
	index, metric int
}

// reach is the kernel's answer to how -iface-can-reach is reached.
type reach struct {
	index int
	src   netip.Addr
	local bool
	err   error
}

func readHost(canReach netip.Addr) (host, error) {
	var h host
	var err error
	if h.nics, err = readNICs(); err != nil {
		return host{}, err
	}
	if h.routes4, err = readDefaultRoutes(netlink.FAMILY_V4); err != nil {
		return host{}, err
	}
	if h.routes6, err = readDefaultRoutes(netlink.FAMILY_V6); err != nil {
		return host{}, err
	}
	if canReach.IsValid() {
		h.reach = readReach(canReach)
	}
	return h, nil
}

func readNICs() ([]nic, error) {
	links, err := dump(netlink.LinkList)
	if err != nil {
		return nil, fmt.Errorf("list interfaces: %w", err)
	}
	addrs, err := dump(func() ([]netlink.Addr, error) { return netlink.AddrList(nil, netlink.FAMILY_ALL) })
	if err != nil {
		return nil, fmt.Errorf("list addresses: %w", err)
	}
	slices.SortStableFunc(addrs, preferAddr)
	nics := make([]nic, 0, len(links))
	for _, l := range links {
		n := nic{index: l.Attrs().Index, mtu: l.Attrs().MTU, name: l.Attrs().Name}
		for _, a := range addrs {
			if a.LinkIndex == n.index {
				n.add(a)
			}
		}
		nics = append(nics, n)
	}
	slices.SortFunc(nics, func(a, b nic) int { return a.index - b.index })
	return nics, nil
}

func (n *nic) add(a netlink.Addr) {
	addr := addrOf(a.IP)
	n.all = append(n.all, addr)
	switch {
	case !a.IP.IsGlobalUnicast() && !a.IP.IsLinkLocalUnicast(), a.Flags&unix.IFA_F_DEPRECATED != 0:
	case addr.Is4():
		n.v4 = append(n.v4, addr)
	default:
		n.v6 = append(n.v6, addr)
	}
}

// preferAddr orders addresses as flanneld does; others stay as the kernel lists them.
func preferAddr(a, b netlink.Addr) int {
	rank := func(x netlink.Addr) int {
		r := 0
		if x.IP.IsLinkLocalUnicast() {
			r += 4
		}
		if x.Flags&unix.IFA_F_PERMANENT == 0 {
			r += 2
		}
		if x.Flags&unix.IFA_F_TEMPORARY != 0 {
			r++
		}
		return r
	}
	return rank(a) - rank(b)
}

// readDefaultRoutes lists the usable default routes of the main table, each next
// hop of a multipath route on its own.
func readDefaultRoutes(family int) ([]defaultRoute, error) {
	routes, err := dump(func() ([]netlink.Route, error) { return netlink.RouteList(nil, family) })
	if err != nil {
		return nil, fmt.Errorf("list routes: %w", err)
	}
	var all []defaultRoute
	add := func(index, metric, flags int) {
		if index > 0 && flags&unix.RTNH_F_DEAD == 0 {
			all = append(all, defaultRoute{index, metric})
		}
	}
	for _, r := range routes {
		if prefixOf(r.Dst, family).Bits() != 0 || r.Type != unix.RTN_UNICAST {
			continue
		}
		for _, hop := range r.MultiPath {
			add(hop.LinkIndex, r.Priority, hop.Flags)
		}
		if len(r.MultiPath) == 0 {
			add(r.LinkIndex, r.Priority, r.Flags)
		}
	}
	slices.SortStableFunc(all, func(a, b defaultRoute) int { return a.metric - b.metric })
	return all, nil
}

func readReach(to netip.Addr) reach {
	routes, err := netlink.RouteGet(to.AsSlice())
	if err != nil {
		return reach{err: fmt.Errorf("look up the route: %w", err)}
	}
	if len(routes) == 0 {
		return reach{err: fmt.Errorf("look up the route: %w", unix.ENETUNREACH)}
	}
	r := routes[0]
	return reach{index: r.LinkIndex, src: addrOf(r.Src), local: r.Type == unix.RTN_LOCAL}
}

// byDefaultRoute takes the interface of the best default route; a dual-stack
// node's must be the same for both families.
func (h host) byDefaultRoute(o Options) (choice, error) {
	switch {
	case !o.V6:
		return h.oneWay(h.routes4, "IPv4")
	case !o.V4:
		return h.oneWay(h.routes6, "IPv6")
	}
	c4, err := h.oneWay(h.routes4, "IPv4")
	if err != nil {
		return choice{}, err
	}
	c6, err := h.oneWay(h.routes6, "IPv6")
	if err != nil {
		return choice{}, err
	}
	if c4.nic.index != c6.nic.index {
		return choice{}, fmt.Errorf("%w: the default routes of IPv4 (%s) and IPv6 (%s) use different interfaces",
			ErrAmbiguous, c4.nic.name, c6.nic.name)
	}
	return c4, nil
}

func (h host) oneWay(routes []defaultRoute, family string) (choice, error) {
	if len(routes) == 0 {
		return choice{}, fmt.Errorf("%w: no %s default route", ErrNoInterface, family)
	}
	best, equal, later := routes[0], []nic{}, []string{}
	seen := map[int]bool{}
	for _, r := range routes {
		n, ok := h.nic(r.index)
		if !ok || seen[r.index] {
			continue
		}
		seen[r.index] = true
		if r.metric == best.metric {
			equal = append(equal, n)
		} else {
			later = append(later, n.name)
		}
	}
	switch len(equal) {
	case 0:
		return choice{}, fmt.Errorf("%w: the interface of the %s default route is gone", ErrNoInterface, family)
	case 1:
		return choice{nic: equal[0], others: later}, nil
	}
	return choice{}, fmt.Errorf("%w: %s default routes of one metric on %s", ErrAmbiguous, family, names(equal))
}

func (h host) nic(index int) (nic, bool) {
	for _, n := range h.nics {
		if n.index == index {
			return n, true
		}
	}
	return nic{}, false
}

// maxListed bounds the interfaces named in a message: a host may have thousands.
const maxListed = 16

// list says which interfaces there are.
func (h host) list() string {
	var b strings.Builder
	for i, n := range h.nics {
		if i > 0 {
			b.WriteString(", ")
		}
		if i == maxListed {
			fmt.Fprintf(&b, "and %d more", len(h.nics)-i)
			break
		}
		fmt.Fprintf(&b, "%s %v", n.name, n.all)
	}
	if b.Len() == 0 {
		return "none"
	}
	return b.String()
}

func names(nics []nic) string {
	all := make([]string, len(nics))
	for i, n := range nics {
		all[i] = n.name
	}
	return strings.Join(all, " and ")
}
