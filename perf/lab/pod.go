package lab

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
)

// Pod is a namespace behind a host, joined to it by a veth pair with the
// offloads that a container's has: eth0 inside, pod-NAME on the host.
type Pod struct {
	*Host
	parent *Host
}

// Pod adds a pod behind the host. It has no address until SetPodAddr.
func (h *Host) Pod(name string) (*Pod, error) {
	if err := checkName(name); err != nil {
		return nil, fmt.Errorf("name pod: %w", err)
	}
	inner, err := h.lab.add(name, h.name+"-"+name)
	if err != nil {
		return nil, err
	}
	w := Wire{MTU: 1500, Queues: 1, Offloads: true}
	if err := w.pair(end{inner, "eth0"}, end{h, "pod-" + name}); err != nil {
		return nil, err
	}
	return &Pod{Host: inner, parent: h}, nil
}

// SetPodAddr gives the pod an address out of its host's subnet, the host the
// gateway address, and sets the MTU at both ends. The shape is that of the CNI
// plugin "ptp": the pod reaches everything, its own subnet too, by the gateway.
// It replaces what an earlier call set.
func (p *Pod) SetPodAddr(addr, gateway netip.Addr, mtu int) error {
	outside, inside := "pod-"+p.name, "eth0"
	if err := p.parent.Do(func() error { return serveGateway(outside, gateway, addr, mtu) }); err != nil {
		return fmt.Errorf("host %s: %w", p.parent.name, err)
	}
	if err := p.Do(func() error { return useGateway(inside, addr, gateway, mtu) }); err != nil {
		return fmt.Errorf("pod %s: %w", p.name, err)
	}
	if addr.Is4() {
		p.addr4 = addr
	} else {
		p.addr6 = addr
	}
	return nil
}

// serveGateway sets the host's end: the gateway's address and a route to the pod.
func serveGateway(dev string, gateway, pod netip.Addr, mtu int) error {
	link, err := readdress(dev, gateway, mtu)
	if err != nil {
		return err
	}
	r := &netlink.Route{LinkIndex: link.Attrs().Index, Scope: netlink.SCOPE_LINK, Dst: ipNet(single(pod))}
	return wrap(netlink.RouteReplace(r), "route %s to %s", pod, dev)
}

// useGateway sets the pod's end: its address, the gateway, and the default route.
func useGateway(dev string, pod, gateway netip.Addr, mtu int) error {
	link, err := readdress(dev, pod, mtu)
	if err != nil {
		return err
	}
	index := link.Attrs().Index
	direct := &netlink.Route{LinkIndex: index, Scope: netlink.SCOPE_LINK, Dst: ipNet(single(gateway))}
	if err := netlink.RouteReplace(direct); err != nil {
		return fmt.Errorf("route gateway %s to %s: %w", gateway, dev, err)
	}
	everything := netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	if gateway.Is6() {
		everything = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	}
	rest := &netlink.Route{LinkIndex: index, Gw: net.IP(gateway.AsSlice()), Dst: ipNet(everything)}
	return wrap(netlink.RouteReplace(rest), "route the rest by %s", gateway)
}

// readdress leaves dev with one address of that family, alone in its prefix, and
// without routes of an earlier one.
func readdress(dev string, addr netip.Addr, mtu int) (netlink.Link, error) {
	link, err := netlink.LinkByName(dev)
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", dev, err)
	}
	if err := netlink.LinkSetMTU(link, mtu); err != nil {
		return nil, fmt.Errorf("set MTU %d on %s: %w", mtu, dev, err)
	}
	if err := flush(link, addr); err != nil {
		return nil, fmt.Errorf("clear %s: %w", dev, err)
	}
	return link, addAddress(dev, single(addr))
}

// flush removes the addresses and routes of addr's family, but for link-local.
func flush(link netlink.Link, addr netip.Addr) error {
	family := netlink.FAMILY_V4
	if addr.Is6() {
		family = netlink.FAMILY_V6
	}
	routes, err := netlink.RouteList(link, family)
	if err != nil {
		return err
	}
	for _, r := range routes {
		if r.Dst != nil && r.Dst.IP.IsLinkLocalUnicast() {
			continue
		}
		if err := netlink.RouteDel(&r); err != nil {
			return err
		}
	}
	addrs, err := netlink.AddrList(link, family)
	if err != nil {
		return err
	}
	for _, a := range addrs {
		if a.IP.IsLinkLocalUnicast() {
			continue
		}
		if err := netlink.AddrDel(link, &a); err != nil {
			return err
		}
	}
	return nil
}

func single(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }
