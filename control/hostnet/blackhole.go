package hostnet

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"flanx/control/lease"
)

// blackholeMetric marks our blackhole routes, and is so large that every other
// route to the subnet, a bridge's for one, comes before them.
const blackholeMetric = 1<<31 - 1

// SetBlackhole makes packets to an address of our subnets that no pod has end
// here, instead of running into the overlay (-ip-blackhole-route). Blackhole
// routes of ours to other subnets are removed; with zero subnets, all are.
// Repeating the call changes nothing; it returns what was changed, in words.
func SetBlackhole(subnets lease.Subnets) (changes []string, err error) {
	have, err := ourBlackholes()
	if err != nil {
		return nil, err
	}
	var want []netip.Prefix
	for _, p := range []netip.Prefix{subnets.V4, subnets.V6} {
		if p.IsValid() {
			want = append(want, p.Masked())
		}
	}
	for _, r := range have {
		dst := prefixOf(r.Dst, r.Family)
		if i := slices.Index(want, dst); i >= 0 {
			want = slices.Delete(want, i, i+1)
			continue
		}
		if err := netlink.RouteDel(&r); err != nil && !errors.Is(err, unix.ESRCH) {
			return changes, fmt.Errorf("remove blackhole route %s: %w", dst, explain(err))
		}
		changes = append(changes, fmt.Sprintf("removed blackhole route %s", dst))
	}
	for _, dst := range want {
		if err := netlink.RouteAdd(blackhole(dst)); err != nil {
			return changes, fmt.Errorf("add blackhole route %s: %w", dst, explain(err))
		}
		changes = append(changes, fmt.Sprintf("added blackhole route %s", dst))
	}
	return changes, nil
}

func blackhole(dst netip.Prefix) *netlink.Route {
	return &netlink.Route{
		Dst: ipNet(dst), Family: familyOf(dst.Addr()), Type: unix.RTN_BLACKHOLE, Priority: blackholeMetric,
	}
}

func ourBlackholes() ([]netlink.Route, error) {
	routes, err := mainRoutes()
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(routes, func(r netlink.Route) bool {
		return r.Type != unix.RTN_BLACKHOLE || r.Priority != blackholeMetric
	}), nil
}
