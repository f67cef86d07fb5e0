package hostnet

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"flanx/control/lease"
)

func dualTUN(index int) TUN {
	return TUN{
		Index: index, MTU: MTU{V4: 1450, V6: 1430},
		Subnets: lease.Subnets{V4: prefix("10.5.72.0/24"), V6: prefix("fd05:0:0:23::/64")},
		Network: prefix("10.5.0.0/16"), IPv6Network: prefix("fd05::/48"),
	}
}

func v4TUN(index int) TUN {
	return TUN{
		Index: index, MTU: MTU{V4: 1472},
		Subnets: lease.Subnets{V4: prefix("10.5.72.0/24")}, Network: prefix("10.5.0.0/16"),
	}
}

func (n *namespace) configure(t TUN) (changes []string, err error) {
	n.in(func() { changes, err = ConfigureTUN(t) })
	return changes, err
}

// mustConfigure configures and wants these changes.
func (n *namespace) mustConfigure(tun TUN, want ...string) {
	n.t.Helper()
	got, err := n.configure(tun)
	if err != nil {
		n.t.Fatal(err)
	}
	if !slices.Equal(got, want) {
		n.t.Errorf("changes %q, want %q", got, want)
	}
}

// state describes a device: MTU, addresses and routes, sorted.
func (n *namespace) state(index int) string {
	n.t.Helper()
	var lines []string
	n.do(func() error {
		link, err := netlink.LinkByIndex(index)
		if err != nil {
			return err
		}
		addrs, err := netlink.AddrList(link, netlink.FAMILY_ALL)
		if err != nil {
			return err
		}
		for _, a := range addrs {
			lines = append(lines, "addr "+a.IPNet.String())
		}
		routes, err := netlink.RouteList(link, netlink.FAMILY_ALL)
		if err != nil {
			return err
		}
		for _, r := range routes {
			if r.Protocol != unix.RTPROT_KERNEL {
				lines = append(lines, "route "+r.Dst.String())
			}
		}
		if link.Attrs().Flags&unix.IFF_UP != 0 {
			lines = append(lines, "up")
		}
		return nil
	})
	slices.Sort(lines)
	return strings.Join(lines, ", ")
}

const dualState = "addr 10.5.72.0/32, addr fd05:0:0:23::/128, route 10.5.0.0/16, route fd05::/48, up"

func TestConfigureTUN(t *testing.T) {
	n := newNamespace(t)
	i := n.tun("flannel0", false)
	n.mustConfigure(dualTUN(i),
		"MTU 1500 -> 1450", "set up",
		"added address 10.5.72.0/32", "added address fd05:0:0:23::/128",
		"added route 10.5.0.0/16", "added route fd05::/48")
	if got := n.state(i); got != dualState {
		t.Errorf("state %s", got)
	}
	for range 20 { // as many restarts
		n.mustConfigure(dualTUN(i))
	}
	if got := n.state(i); got != dualState {
		t.Errorf("state after repeats %s", got)
	}
	n.in(func() {
		// The kernel sends as .0, and knows the smaller MTU for IPv6.
		routes, err := netlink.RouteGet(addr("10.5.1.1").AsSlice())
		if err != nil || routes[0].LinkIndex != i || !routes[0].Src.Equal(addr("10.5.72.0").AsSlice()) {
			t.Errorf("route to a remote pod: %v, %v", routes, err)
		}
		routes, err = netlink.RouteGet(addr("fd05:0:0:1::1").AsSlice())
		if err != nil || routes[0].LinkIndex != i || routes[0].MTU != 1430 {
			t.Errorf("route to a remote IPv6 pod: %v, %v", routes, err)
		}
	})
}

func TestConfigureTUNAnew(t *testing.T) {
	n := newNamespace(t)
	i := n.tun("flannel0", false)
	n.mustConfigure(v4TUN(i), "MTU 1500 -> 1472", "set up", "added address 10.5.72.0/32", "added route 10.5.0.0/16")

	t.Run("MTU follows the underlay", func(t *testing.T) {
		tun := v4TUN(i)
		tun.MTU.V4 = 1372
		n.mustConfigure(tun, "MTU 1472 -> 1372")
	})
	t.Run("another subnet", func(t *testing.T) {
		tun := v4TUN(i)
		tun.MTU.V4 = 1372
		tun.Subnets.V4 = prefix("10.5.9.0/24")
		n.mustConfigure(tun, "added address 10.5.9.0/32", "removed address 10.5.72.0/32")
	})
	t.Run("another network and family", func(t *testing.T) {
		n.mustConfigure(dualTUN(i),
			"MTU 1372 -> 1450",
			"added address 10.5.72.0/32", "added address fd05:0:0:23::/128", "removed address 10.5.9.0/32",
			"added route fd05::/48")
		tun := dualTUN(i)
		tun.Network = prefix("10.0.0.0/8")
		n.mustConfigure(tun, "added route 10.0.0.0/8", "removed route 10.5.0.0/16")
	})
	t.Run("IPv6 goes, its MTU changes", func(t *testing.T) {
		tun := dualTUN(i)
		tun.MTU.V6 = 1400
		n.mustConfigure(tun, "added route 10.5.0.0/16", "added route fd05::/48", "removed route 10.0.0.0/8")
		v4 := v4TUN(i)
		n.mustConfigure(v4, "MTU 1450 -> 1472", "removed address fd05:0:0:23::/128", "removed route fd05::/48")
	})
}

func TestConfigureTUNHeals(t *testing.T) {
	n := newNamespace(t)
	i := n.tun("flannel0", false)
	if _, err := n.configure(dualTUN(i)); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		harm func(l netlink.Link) error
		want []string
	}{
		{
			"set down and up", func(l netlink.Link) error { return errors.Join(netlink.LinkSetDown(l), netlink.LinkSetUp(l)) },
			[]string{"added address fd05:0:0:23::/128", "added route 10.5.0.0/16", "added route fd05::/48"},
		},
		{
			"set down", netlink.LinkSetDown,
			[]string{"set up", "added address fd05:0:0:23::/128", "added route 10.5.0.0/16", "added route fd05::/48"},
		},
		{
			"address gone", func(l netlink.Link) error {
				return netlink.AddrDel(l, &netlink.Addr{IPNet: ipNet(prefix("10.5.72.0/32"))})
			},
			// The kernel flushes the routes of a device with its last address.
			[]string{"added address 10.5.72.0/32", "added route 10.5.0.0/16"},
		},
		{
			"route gone", func(l netlink.Link) error {
				return netlink.RouteDel(&netlink.Route{LinkIndex: i, Dst: ipNet(prefix("fd05::/48"))})
			},
			[]string{"added route fd05::/48"},
		},
		{
			"foreign address and routes", func(l netlink.Link) error {
				return errors.Join(
					netlink.AddrAdd(l, &netlink.Addr{IPNet: ipNet(prefix("10.5.1.0/32"))}),
					netlink.AddrAdd(l, &netlink.Addr{IPNet: ipNet(prefix("fd05:0:0:1::/128"))}),
					netlink.RouteAdd(&netlink.Route{LinkIndex: i, Dst: ipNet(prefix("10.6.0.0/16"))}),
					netlink.RouteAdd(&netlink.Route{LinkIndex: i, Dst: ipNet(prefix("10.5.0.0/16")), Priority: 7}),
					netlink.RouteAdd(&netlink.Route{
						LinkIndex: i, Dst: ipNet(prefix("10.5.3.0/24")), Gw: addr("10.5.3.0").AsSlice(),
						Flags: int(netlink.FLAG_ONLINK),
					}),
					netlink.RouteAdd(&netlink.Route{LinkIndex: i, Dst: ipNet(prefix("fd06::/48"))}),
				)
			},
			[]string{
				"removed address 10.5.1.0/32", "removed address fd05:0:0:1::/128",
				"removed route 10.5.0.0/16", "removed route 10.5.3.0/24", "removed route 10.6.0.0/16", "removed route fd06::/48",
			},
		},
		{
			"MTU changed", func(l netlink.Link) error { return netlink.LinkSetMTU(l, 1300) },
			// With the device's MTU the kernel lowers the route's.
			[]string{"MTU 1300 -> 1450", "added route fd05::/48"},
		},
		{
			"MTU too small for IPv6", func(l netlink.Link) error { return netlink.LinkSetMTU(l, 1000) },
			[]string{"MTU 1000 -> 1450", "added address fd05:0:0:23::/128", "added route fd05::/48", "removed address fe80"},
		},
		{
			"IPv6 turned off", func(netlink.Link) error {
				return os.WriteFile(filepath.Join(sysctlRoot, "net/ipv6/conf/flannel0/disable_ipv6"), []byte("1"), 0)
			},
			[]string{"IPv6 turned on", "added address fd05:0:0:23::/128", "added route fd05::/48"},
		},
		{"nothing", func(netlink.Link) error { return nil }, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			n.withLink("flannel0", test.harm)
			got, err := n.configure(dualTUN(i))
			if err != nil {
				t.Fatal(err)
			}
			for i, c := range got { // link-local addresses are random
				if strings.HasPrefix(c, "removed address fe80") {
					got[i] = "removed address fe80"
				}
			}
			slices.Sort(got)
			slices.Sort(test.want)
			if !slices.Equal(got, test.want) {
				t.Errorf("changes\n%q, want\n%q", got, test.want)
			}
			if s := n.state(i); s != dualState {
				t.Errorf("state %s", s)
			}
		})
	}
}

func TestConfigureTUNOnAHostWithoutIPv6ByDefault(t *testing.T) {
	n := newNamespace(t)
	n.sysctl("net/ipv6/conf/default/disable_ipv6", "1")
	i := n.tun("flannel0", false)
	if _, err := n.configure(dualTUN(i)); err != nil {
		t.Fatal(err)
	}
	if got := n.state(i); got != dualState {
		t.Errorf("state %s", got)
	}
}

func TestConfigureTUNGivesNoLinkLocalAddress(t *testing.T) {
	n := newNamespace(t)
	i := n.tun("flannel0", false)
	if _, err := n.configure(v4TUN(i)); err != nil {
		t.Fatal(err)
	}
	if got := n.state(i); strings.Contains(got, "fe80") {
		t.Errorf("state %s", got)
	}
}

func TestConfigureTUNConflict(t *testing.T) {
	n, far := newNamespace(t), newNamespace(t)
	wire(n, "eth0", far, "eth0")
	n.addr("eth0", "10.5.0.1/16")
	i := n.tun("flannel0", false)
	_, err := n.configure(v4TUN(i))
	if !errors.Is(err, ErrConflict) {
		t.Fatalf("error %v", err)
	}
	for _, s := range []string{"flannel0", "10.5.0.0/16", "eth0", "ip route del 10.5.0.0/16 dev eth0"} {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("error %q does not say %q", err, s)
		}
	}
	if got := n.state(i); got != "" {
		t.Errorf("device was changed: %s", got)
	}
	// A less preferred route to the same network is none of our business.
	n.withLink("eth0", func(l netlink.Link) error {
		return errors.Join(
			netlink.AddrDel(l, &netlink.Addr{IPNet: ipNet(prefix("10.5.0.1/16"))}),
			netlink.AddrAdd(l, &netlink.Addr{IPNet: ipNet(prefix("192.168.0.1/24"))}),
			netlink.RouteAdd(&netlink.Route{LinkIndex: l.Attrs().Index, Dst: ipNet(prefix("10.5.0.0/16")), Priority: 50}),
		)
	})
	if _, err := n.configure(v4TUN(i)); err != nil {
		t.Error(err)
	}
}

func TestConfigureTUNWithoutDevice(t *testing.T) {
	n := newNamespace(t)
	if _, err := n.configure(v4TUN(4711)); err == nil || !strings.Contains(err.Error(), "4711") {
		t.Errorf("error %v", err)
	}
}

func TestTeardownTUN(t *testing.T) {
	n := newNamespace(t)
	i := n.tun("flannel0", true)
	teardown := func() error {
		var err error
		n.in(func() { err = TeardownTUN(i) })
		return err
	}
	if _, err := n.configure(dualTUN(i)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := teardown(); err != nil {
			t.Fatal(err)
		}
		if got := n.state(i); got != "up" {
			t.Errorf("state %s", got)
		}
	}
	if _, err := n.configure(dualTUN(i)); err != nil {
		t.Fatal(err)
	}
	n.withLink("flannel0", netlink.LinkDel)
	if err := teardown(); err != nil {
		t.Errorf("without the device: %v", err)
	}
}

func TestDetours(t *testing.T) {
	n, far := newNamespace(t), newNamespace(t)
	wire(n, "eth0", far, "eth0")
	n.addr("eth0", "192.168.0.1/24")
	n.addr("eth0", "fd99::1/64")
	i := n.tun("flannel0", false)
	if _, err := n.configure(dualTUN(i)); err != nil {
		t.Fatal(err)
	}
	detours := func() (found []string) {
		n.do(func() (err error) {
			found, err = Detours(dualTUN(i))
			return err
		})
		return found
	}
	if got := detours(); len(got) != 0 {
		t.Errorf("detours %q", got)
	}
	n.route("10.5.3.0/24", "192.168.0.3", "eth0", 0)  // host-gw
	n.route("fd05:0:0:3::/64", "fd99::3", "eth0", 0)  // the same for IPv6
	n.route("10.5.72.128/25", "", "eth0", 0)          // a bridge's part of our subnet
	n.route("10.0.0.0/8", "192.168.0.254", "eth0", 0) // less specific
	n.route("172.16.0.0/16", "192.168.0.254", "eth0", 0)
	want := []string{"10.5.3.0/24 to eth0", "fd05:0:0:3::/64 to eth0"}
	if got := detours(); !slices.Equal(got, want) {
		t.Errorf("detours %q, want %q", got, want)
	}
}

func TestSetBlackhole(t *testing.T) {
	n, far := newNamespace(t), newNamespace(t)
	wire(n, "cni0", far, "eth0")
	i := n.tun("flannel0", false)
	tun := dualTUN(i)
	if _, err := n.configure(tun); err != nil {
		t.Fatal(err)
	}
	set := func(s lease.Subnets, want ...string) {
		t.Helper()
		var got []string
		n.do(func() (err error) {
			got, err = SetBlackhole(s)
			return err
		})
		if !slices.Equal(got, want) {
			t.Errorf("changes %q, want %q", got, want)
		}
	}
	set(tun.Subnets, "added blackhole route 10.5.72.0/24", "added blackhole route fd05:0:0:23::/64")
	set(tun.Subnets)

	reach := func(to string) (index int, err error) {
		n.in(func() {
			var routes []netlink.Route
			if routes, err = netlink.RouteGet(addr(to).AsSlice()); err == nil {
				index = routes[0].LinkIndex
			}
		})
		return index, err
	}
	if _, err := reach("10.5.72.9"); !errors.Is(err, unix.EINVAL) { // what the kernel says of a blackhole
		t.Errorf("route to a pod that is not there: %v", err)
	}
	if got, err := reach("10.5.71.9"); err != nil || got != i {
		t.Errorf("route to another node's pod: interface %d, %v", got, err)
	}
	// A bridge that comes later, with the very same prefix, wins.
	n.addr("cni0", "10.5.72.1/24")
	n.withLink("cni0", func(l netlink.Link) error {
		if got, err := netlink.RouteGet(addr("10.5.72.9").AsSlice()); err != nil || got[0].LinkIndex != l.Attrs().Index {
			t.Errorf("route to a pod behind the bridge: %v, %v", got, err)
		}
		return nil
	})
	// An operator's own blackhole is left alone.
	n.do(func() error {
		return netlink.RouteAdd(&netlink.Route{Dst: ipNet(prefix("10.9.0.0/16")), Type: unix.RTN_BLACKHOLE})
	})
	set(lease.Subnets{V4: prefix("10.5.9.0/24")},
		"removed blackhole route 10.5.72.0/24", "removed blackhole route fd05:0:0:23::/64", "added blackhole route 10.5.9.0/24")
	set(lease.Subnets{}, "removed blackhole route 10.5.9.0/24")
	set(lease.Subnets{})
	if _, err := reach("10.9.1.1"); !errors.Is(err, unix.EINVAL) {
		t.Errorf("operator's blackhole: %v", err)
	}
}
