package hostnet

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// metric6 is the metric that the kernel gives an IPv6 route without one
// (IP6_RT_PRIO_USER in net/ipv6_route.h).
const metric6 = 1024

// mainRoutes lists the main table of both families.
func mainRoutes() ([]netlink.Route, error) {
	routes, err := dump(func() ([]netlink.Route, error) { return netlink.RouteList(nil, netlink.FAMILY_ALL) })
	if err != nil {
		return nil, fmt.Errorf("list routes: %w", err)
	}
	return routes, nil
}

// wantedRoutes returns the device's routes. The one for IPv6 has an MTU of its
// own where that is smaller than the device's.
func (s *tunSetup) wantedRoutes() []netlink.Route {
	var want []netlink.Route
	if s.Network.IsValid() {
		want = append(want, netlink.Route{
			LinkIndex: s.Index, Dst: ipNet(s.Network.Masked()), Family: netlink.FAMILY_V4, MTU: s.routeMTU(s.MTU.V4),
		})
	}
	if s.IPv6Network.IsValid() {
		want = append(want, netlink.Route{
			LinkIndex: s.Index, Dst: ipNet(s.IPv6Network.Masked()), Family: netlink.FAMILY_V6,
			Priority: metric6, MTU: s.routeMTU(s.MTU.V6),
		})
	}
	return want
}

func (s *tunSetup) routeMTU(mtu int) int {
	if mtu == s.MTU.Link() {
		return 0
	}
	return mtu
}

// samePlace says whether a route is to the wanted network, over the device and
// nothing else; sameRoute, whether it also has the wanted MTU.
func samePlace(have, want netlink.Route) bool {
	return have.Family == want.Family && prefixOf(have.Dst, have.Family) == prefixOf(want.Dst, want.Family) &&
		have.LinkIndex == want.LinkIndex && have.Priority == want.Priority &&
		have.Type == unix.RTN_UNICAST && have.Gw == nil && have.Via == nil
}

func sameRoute(have, want netlink.Route) bool { return samePlace(have, want) && have.MTU == want.MTU }

// checkConflict refuses a network that is already routed elsewhere: replacing
// such a route would cut the host off from whatever it leads to. One that is more
// preferred than ours would be used instead of it.
func (s *tunSetup) checkConflict(routes []netlink.Route) error {
	for _, want := range s.wantedRoutes() {
		dst := prefixOf(want.Dst, want.Family)
		for _, r := range routes {
			if r.Family == want.Family && prefixOf(r.Dst, r.Family) == dst && r.Priority <= want.Priority &&
				r.LinkIndex != s.Index {
				return fmt.Errorf("%w: network %s is routed to %s already: remove that route "+
					"(ip route del %s dev %[3]s) or choose another Network", ErrConflict, dst, linkName(r.LinkIndex), dst)
			}
		}
	}
	return nil
}

// linkName names an interface for a message.
func linkName(index int) string {
	link, err := netlink.LinkByIndex(index)
	if err != nil {
		return fmt.Sprintf("interface %d", index)
	}
	return link.Attrs().Name
}

// setRoutes adds what is missing, then removes what is not wanted on the device;
// the kernel's own routes (fe80::/64 of a link-local address) go by themselves.
func (s *tunSetup) setRoutes() error {
	have, err := mainRoutes()
	if err != nil {
		return err
	}
	want := s.wantedRoutes()
	for _, w := range want {
		if slices.ContainsFunc(have, func(r netlink.Route) bool { return sameRoute(r, w) }) {
			continue
		}
		dst := prefixOf(w.Dst, w.Family)
		// Replaces at most our own with another MTU: checkConflict saw to that.
		if err := netlink.RouteReplace(&w); err != nil {
			return fmt.Errorf("add route %s: %w", dst, err)
		}
		s.note("added route %s", dst)
	}
	for _, r := range have {
		if r.LinkIndex != s.Index || r.Protocol == unix.RTPROT_KERNEL ||
			slices.ContainsFunc(want, func(w netlink.Route) bool { return samePlace(r, w) }) {
			continue
		}
		if err := netlink.RouteDel(&r); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("remove route %s: %w", prefixOf(r.Dst, r.Family), err)
		}
		s.note("removed route %s", prefixOf(r.Dst, r.Family))
	}
	return nil
}

// TeardownTUN removes the routes and addresses that ConfigureTUN sets, for a
// device that outlives the process. A device that is gone is no error.
func TeardownTUN(index int) error {
	link, err := netlink.LinkByIndex(index)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("clear TUN: find interface %d: %w", index, err)
	}
	s := &tunSetup{TUN: TUN{Index: index}, link: link, name: link.Attrs().Name}
	if err := errors.Join(s.setRoutes(), s.setAddrs()); err != nil {
		return fmt.Errorf("clear TUN %s: %w", s.name, explain(err))
	}
	return nil
}

// Detours lists routes that lead parts of the overlay past the device, in words:
// left over from flanneld (flannel.<VNI>, host-gw, DirectRouting) or made by
// hand. What lies in our own subnet belongs to the pods and is not listed.
func Detours(t TUN) ([]string, error) {
	routes, err := mainRoutes()
	if err != nil {
		return nil, err
	}
	var found []string
	for _, r := range routes {
		dst := prefixOf(r.Dst, r.Family)
		if r.LinkIndex == t.Index || r.Protocol == unix.RTPROT_KERNEL ||
			inside(dst, t.Subnets.V4) || inside(dst, t.Subnets.V6) {
			continue
		}
		if inside(dst, t.Network) || inside(dst, t.IPv6Network) {
			found = append(found, fmt.Sprintf("%s to %s", dst, linkName(r.LinkIndex)))
		}
	}
	return found, nil
}

// inside says whether p is part of whole.
func inside(p, whole netip.Prefix) bool {
	return whole.IsValid() && p.Bits() >= whole.Bits() && whole.Contains(p.Addr())
}
