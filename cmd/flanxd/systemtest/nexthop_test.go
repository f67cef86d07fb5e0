package systemtest

import (
	"fmt"
	"testing"
	"time"

	"flanx/perf/gen"
	"flanx/perf/lab"
	"flanx/perf/lab/labtest"
)

// newRouted makes two nodes with a router between them.
func newRouted(t *testing.T) (w *world, router *lab.Host) {
	t.Helper()
	l := labtest.New(t)
	var hosts []*lab.Host
	for _, name := range []string{"left", "router", "right"} {
		h, err := l.Host(name)
		if err != nil {
			t.Fatal(err)
		}
		hosts = append(hosts, h)
	}
	for _, pair := range [][2]*lab.Host{{hosts[0], hosts[1]}, {hosts[1], hosts[2]}} {
		if err := l.Connect(lab.Wire{}, pair[0], pair[1]); err != nil {
			t.Fatal(err)
		}
	}
	ip(t, hosts[0], "route add 10.99.1.0/24 via 10.99.0.2")
	ip(t, hosts[2], "route add 10.99.0.0/24 via 10.99.1.2")
	w = &world{
		T: t, lab: l, hosts: []*lab.Host{hosts[0], hosts[2]}, endpoint: endpoint, etcd: etcd,
		prefix: fmt.Sprintf("/world-%d/network", worlds.Add(1)),
	}
	w.put("config", vxlan)
	return w, hosts[1]
}

// Nothing is known of the next hop when the first packets come: none may be lost
// for that. Later the gateway is replaced by one with another MAC, and within a
// second packets go there.
func TestNextHop(t *testing.T) {
	parallel(t)
	w, router := newRouted(t)
	a, b := w.start(w.hosts[0], "-io", "native"), w.start(w.hosts[1], "-io", "native")
	defer b.stop()
	defer a.stop()
	reach(t, a.host, a.addr(), b.addr())
	for _, h := range w.hosts {
		ip(t, h, "neigh flush all")
	}
	ping(t, a.host, a.addr(), b.addr(), 56)
	ping(t, b.host, b.addr(), a.addr(), 1422)

	// Both wires' ends at once, with announcements, as VRRP's new master does it.
	for i, h := range w.hosts {
		dev, fresh := fmt.Sprintf("eth%d", i), fmt.Sprintf("02:00:00:00:00:%02x", 0xa0+i)
		ip(t, router, fmt.Sprintf("link set %s address %s", dev, fresh))
		ip(t, h, fmt.Sprintf("neigh replace 10.99.%d.2 lladdr %s dev eth0 nud reachable", i, fresh))
	}
	changed := time.Now()
	res, err := gen.Ping(within(t), a.host.Do, gen.PingConfig{From: a.addr(), To: b.addr(), Count: 100, Interval: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	// Those of the first second may be lost: 50 of 100.
	if lost := res.Sent - res.Received; lost > 50 {
		t.Errorf("%d of %d pings lost in %s after the gateway's MAC changed", lost, res.Sent, time.Since(changed))
	}
	ping(t, b.host, b.addr(), a.addr(), 56)
}

// A node on the same wire that comes back with another MAC announces itself, and
// is reached.
func TestPeerChangesMAC(t *testing.T) {
	parallel(t)
	w := newWorld(t, lab.Wire{}, vxlan, "ours", "other")
	a, b := w.start(w.hosts[0]), w.start(w.hosts[1], "-io", "udp")
	reach(t, a.host, a.addr(), b.addr())
	time.Sleep(1100 * time.Millisecond) // the kernel takes no change of an entry younger than a second (locktime, arp(7))
	err := b.host.Do(func() error { return setSysctl("net/ipv4/conf/eth0/arp_notify", "1") })
	if err != nil {
		t.Fatal(err)
	}
	ip(t, b.host, "link set eth0 down", "link set eth0 address 02:00:00:00:00:bb", "link set eth0 up")
	began := time.Now()
	reach(t, a.host, a.addr(), b.addr())
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("reached after %s", took)
	}
	a.stop()
	b.stop()
}
