package hostnet

import (
	"errors"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// twoCards is a host with two cards towards another one.
func twoCards(t *testing.T) *namespace {
	a, b := newNamespace(t), newNamespace(t)
	wire(a, "veA", b, "veA")
	wire(a, "veB", b, "veB")
	a.addr("veA", "10.99.0.1/24")
	a.addr("veA", "fd99::1/64")
	a.addr("veB", "10.98.0.1/24")
	a.addr("veB", "fd98::1/64")
	return a
}

func (n *namespace) pick(o Options) (i Interface, err error) {
	n.in(func() { i, err = PickInterface(o) })
	return i, err
}

func TestPickInterfaceOfARealHost(t *testing.T) {
	n := twoCards(t)

	if _, err := n.pick(Options{V4: true}); !errors.Is(err, ErrNoInterface) {
		t.Errorf("without a default route: error %v", err)
	}
	n.route("default4", "10.98.0.254", "veB", 20)
	n.route("default4", "10.99.0.254", "veA", 10)
	n.route("default6", "fd99::ff", "veA", 10)

	tests := []struct {
		name string
		o    Options
		want string
	}{
		{"default route", Options{V4: true}, "veA 10.99.0.1 - 10.99.0.1 -"},
		{"default routes", Options{V4: true, V6: true}, "veA 10.99.0.1 fd99::1 10.99.0.1 fd99::1"},
		{"name", Options{V4: true, Ifaces: []string{"veB"}}, "veB 10.98.0.1 - 10.98.0.1 -"},
		{"address", Options{V4: true, Ifaces: []string{"10.98.0.1"}}, "veB 10.98.0.1 - 10.98.0.1 -"},
		{"regex", Options{V4: true, Regexes: []string{`^10\.98\.`}}, "veB 10.98.0.1 - 10.98.0.1 -"},
		{"can reach", Options{V4: true, CanReach: addr("10.98.0.77")}, "veB 10.98.0.1 - 10.98.0.1 -"},
		{"can reach by IPv6", Options{V4: true, V6: true, CanReach: addr("fd98::77")}, "veB 10.98.0.1 fd98::1 10.98.0.1 fd98::1"},
		{"public", Options{V4: true, PublicIP: addr("10.98.0.1")}, "veB 10.98.0.1 - 10.98.0.1 -"},
		{
			"public elsewhere, interface named",
			Options{V4: true, Ifaces: []string{"veA"}, PublicIP: addr("203.0.113.9")},
			"veA 10.99.0.1 - 203.0.113.9 -",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			i, err := n.pick(test.o)
			if err != nil {
				t.Fatal(err)
			}
			if got := summary(i); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
			if i.MTU != 1500 || i.Index == 0 {
				t.Errorf("MTU %d, index %d", i.MTU, i.Index)
			}
		})
	}

	t.Run("can reach itself", func(t *testing.T) {
		_, err := n.pick(Options{V4: true, CanReach: addr("10.99.0.1")})
		if !errors.Is(err, ErrNoInterface) || !strings.Contains(err.Error(), "own address") {
			t.Errorf("error %v", err)
		}
	})
}

func TestPickAmongEqualDefaultRoutes(t *testing.T) {
	n := twoCards(t)
	n.do(func() error {
		a, err := netlink.LinkByName("veA")
		if err != nil {
			return err
		}
		b, err := netlink.LinkByName("veB")
		if err != nil {
			return err
		}
		return netlink.RouteAdd(&netlink.Route{
			Dst: ipNet(prefix("0.0.0.0/0")),
			MultiPath: []*netlink.NexthopInfo{
				{LinkIndex: a.Attrs().Index, Gw: addr("10.99.0.254").AsSlice()},
				{LinkIndex: b.Attrs().Index, Gw: addr("10.98.0.254").AsSlice()},
			},
		})
	})
	_, err := n.pick(Options{V4: true})
	if !errors.Is(err, ErrAmbiguous) || !strings.Contains(err.Error(), "veA and veB") {
		t.Fatalf("multipath default route: error %v", err)
	}
	if i, err := n.pick(Options{V4: true, Ifaces: []string{"veB"}}); err != nil || i.Name != "veB" {
		t.Errorf("named: %v, %v", i, err)
	}

	// A next hop whose carrier is gone does not count.
	n.withLink("veA", netlink.LinkSetDown)
	if i, err := n.pick(Options{V4: true}); err != nil || i.Name != "veB" {
		t.Errorf("one card down: %+v, %v", i, err)
	}
}

func TestPickPassesOverUnreachableDefault(t *testing.T) {
	n := twoCards(t)
	n.do(func() error {
		return netlink.RouteAdd(&netlink.Route{Dst: ipNet(prefix("0.0.0.0/0")), Type: unix.RTN_UNREACHABLE})
	})
	if _, err := n.pick(Options{V4: true}); !errors.Is(err, ErrNoInterface) {
		t.Errorf("error %v", err)
	}
	n.route("default4", "10.99.0.254", "veA", 10)
	if i, err := n.pick(Options{V4: true}); err != nil || i.Name != "veA" {
		t.Errorf("got %v, %v", i, err)
	}
}

func TestPickFollowsARename(t *testing.T) {
	n := twoCards(t)
	before, err := n.pick(Options{V4: true, Ifaces: []string{"veA"}})
	if err != nil {
		t.Fatal(err)
	}
	n.withLink("veA", netlink.LinkSetDown)
	n.withLink("veA", func(l netlink.Link) error { return netlink.LinkSetName(l, "uplink") })
	n.up("uplink")
	after, err := n.pick(Options{V4: true, Ifaces: []string{"uplink"}})
	if err != nil {
		t.Fatal(err)
	}
	if after.Index != before.Index || after.Addr4 != before.Addr4 {
		t.Errorf("before %+v, after %+v", before, after)
	}
}
