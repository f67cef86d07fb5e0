package lab_test

import (
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"

	"flanx/perf/lab"
	"flanx/perf/lab/labtest"
)

// TestAdopt moves a device between two hosts of one lab: the first plays the
// program's own namespace.
func TestAdopt(t *testing.T) {
	_, hosts := labtest.Hosts(t, lab.Wire{}, "a", "b")
	err := hosts[0].Do(func() error {
		veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "card0"}, PeerName: "card1"}
		if err := netlink.LinkAdd(veth); err != nil {
			return err
		}
		return hosts[1].Adopt("card0", netip.MustParsePrefix("192.0.2.1/24"))
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := hosts[1].Addr(); got != netip.MustParseAddr("192.0.2.1") {
		t.Errorf("address %v", got)
	}
	if mode, err := hosts[1].XDPMode("card0"); err != nil || mode != "none" {
		t.Errorf("XDP mode %q, %v", mode, err)
	}
	if _, err := hosts[1].XDPMode("card9"); err == nil {
		t.Error("a device that is not there has an XDP mode")
	}
}
