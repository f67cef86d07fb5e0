package porttest

import (
	"net/netip"
	"strings"
	"testing"
)

// Wire is two namespaces joined by a veth pair, each end named "wire", its
// addresses set and each knowing the other's MAC.
type Wire struct {
	Near, Far *Namespace
}

// Name is the interface's name at both ends of a Wire.
const Name = "wire"

// The addresses of a Wire's ends.
var (
	Near4 = netip.MustParseAddr("10.99.0.1")
	Far4  = netip.MustParseAddr("10.99.0.2")
	Near6 = netip.MustParseAddr("fd99::1")
	Far6  = netip.MustParseAddr("fd99::2")
)

// NewWire makes the namespaces and joins them with the MTU given.
func NewWire(t testing.TB, mtu string) *Wire {
	t.Helper()
	w := &Wire{Near: NewNamespace(t), Far: NewNamespace(t)}
	w.Near.IP("link add " + Name + " mtu " + mtu + " type veth peer name " + Name +
		" mtu " + mtu + " netns " + w.Far.Path())
	w.Near.IP("addr add " + Near4.String() + "/24 dev " + Name)
	w.Far.IP("addr add " + Far4.String() + "/24 dev " + Name)
	w.Near.IP("addr add " + Near6.String() + "/64 dev " + Name + " nodad")
	w.Far.IP("addr add " + Far6.String() + "/64 dev " + Name + " nodad")
	w.Near.IP("link set " + Name + " up")
	w.Far.IP("link set " + Name + " up")
	for _, addr := range []netip.Addr{Far4, Far6} {
		w.Meet(addr)
	}
	for _, addr := range []netip.Addr{Near4, Near6} {
		w.Far.IP("neigh replace " + addr.String() + " lladdr " + w.Near.MAC(Name) + " dev " + Name + " nud permanent")
	}
	return w
}

// Meet tells the near end the MAC of the far address, which sends on what waits
// for it.
func (w *Wire) Meet(addr netip.Addr) {
	w.Near.IP("neigh replace " + addr.String() + " lladdr " + w.Far.MAC(Name) + " dev " + Name + " nud permanent")
}

// Part makes the near end forget the MAC of the far address, and the far end
// answer no question for it: packets to it wait in the kernel, for a hundred
// seconds before they are given up.
func (w *Wire) Part(addr netip.Addr) {
	w.Far.IP("link set " + Name + " arp off")
	family := "ipv4"
	if addr.Is6() {
		family = "ipv6"
	}
	w.Near.Sysctl("net/"+family+"/neigh/"+Name+"/mcast_solicit", "100")
	w.Near.IP("neigh del " + addr.String() + " dev " + Name)
}

// MAC returns the Ethernet address of an interface of the namespace.
func (n *Namespace) MAC(ifname string) string {
	n.t.Helper()
	words := strings.Fields(n.IP("-o link show dev " + ifname))
	for i, word := range words {
		if word == "link/ether" {
			return words[i+1]
		}
	}
	n.t.Fatalf("no MAC in %q", words)
	return ""
}
