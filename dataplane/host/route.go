package host

import (
	"net/netip"
	"unique"
)

// way is how the kernel would send to a remote. Remotes that go the same way
// share one: the gateway is zero for those on the link.
type way struct {
	gateway netip.Addr
	local   netip.Addr // the source address that the kernel would choose
	ifIndex int        // 0: there is no route
	mtu     int        // the route's; 0: the interface's counts
}

// noWay stands for what has not been looked up, or has no route.
var noWay = unique.Make(way{})

// via returns the neighbour that frames for remote go to.
func (w way) via(remote netip.Addr) netip.Addr {
	if w.gateway.IsValid() {
		return w.gateway
	}
	return remote
}

// lookUp asks the kernel for the route to remote, as it is for packets from our
// address (ip_route_output_key in net/ipv4/route.c). Unreachable, prohibited, or
// from an address that is not ours any more: that is no way.
func (n *NextHops) lookUp(remote netip.Addr) way {
	local := n.cfg.Local4
	if remote.Is6() {
		local = n.cfg.Local6
	}
	if !local.IsValid() {
		return way{}
	}
	w, err := n.routes.get(local, remote)
	if err != nil {
		return way{}
	}
	return w
}

// addrOf converts an address of a netlink message, which has no mapped form.
func addrOf(b []byte) (netip.Addr, bool) {
	a, ok := netip.AddrFromSlice(b)
	return a.Unmap(), ok
}

// setWay records the way to a tracked remote and says whether it is another
// than before. The caller holds mu.
func (n *NextHops) setWay(remote netip.Addr, to unique.Handle[way]) (changed bool) {
	from, ok := n.remotes[remote]
	if !ok || from == to {
		return false
	}
	n.remotes[remote] = to
	if gw := to.Value().gateway; gw.IsValid() {
		n.gateways[gw]++
	}
	if gw := from.Value().gateway; gw.IsValid() {
		if n.gateways[gw]--; n.gateways[gw] == 0 {
			delete(n.gateways, gw)
		}
	}
	return true
}

// used says whether frames for a tracked remote go to this neighbour. The
// caller holds mu.
func (n *NextHops) used(neigh netip.Addr) bool {
	if n.gateways[neigh] > 0 {
		return true
	}
	handle, ok := n.remotes[neigh]
	if !ok {
		return false
	}
	w := handle.Value()
	return w.ifIndex == n.cfg.IfIndex && !w.gateway.IsValid()
}

// routesChanged queues the remotes that a changed route may matter to. The
// caller holds mu.
func (n *NextHops) routesChanged(prefixes []netip.Prefix) {
	var wide []netip.Prefix
	for _, p := range prefixes {
		if !p.IsSingleIP() { // most are: hosts' own and pods' addresses
			wide = append(wide, p)
		} else if _, ok := n.remotes[p.Addr()]; ok {
			n.todo.lookup.add(p.Addr())
		}
	}
	if len(wide) == 0 {
		return
	}
	for remote := range n.remotes {
		for _, p := range wide {
			if p.Contains(remote) {
				n.todo.lookup.add(remote)
				break
			}
		}
	}
}
