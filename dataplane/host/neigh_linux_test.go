package host

import (
	"context"
	"net/netip"
	"strings"
	"testing"
	"time"

	"flanx/control/lease"
	"flanx/dataplane/fib"
	"flanx/dataplane/packet"
	"flanx/encap"
	"flanx/perf/lab"
	"flanx/perf/lab/labtest"
)

// Both families: a neighbour that is resolved, replaced, forgotten, and found
// again.
func TestNextHopsOnLink(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		t.Run(map[bool]string{false: "v4", true: "v6"}[v6], func(t *testing.T) {
			_, h := labtest.Hosts(t, lab.Wire{MTU: 1400}, "a", "b")
			a, b := h[0], h[1]
			peer := b.Addr()
			if v6 {
				peer = b.Addr6()
			}
			f := follow(t, a)
			f.Track(peer)
			f.within(promise, peer, "routed", func(nh fib.NextHop) bool {
				return nh.IfIndex == f.cfg.IfIndex && nh.MTU == 1400 && unknown(nh)
			})
			f.change(func() { talk(t, a, peer) })
			f.within(promise, peer, "resolved", known(macOfLink(t, b, "eth0")))

			// The peer's card is replaced, and it says so (arp_notify,
			// ndisc_notify: announcement when the address changes).
			sysctl(t, b, "ipv4/conf/eth0/arp_notify", "1")
			sysctl(t, b, "ipv6/conf/eth0/ndisc_notify", "1")
			other := encap.MAC{2, 0, 0, 0, 0xbb, 1}
			time.Sleep(150 * time.Millisecond) // "locktime": younger entries are not overwritten
			f.change(func() { ip(t, b, "link set eth0 address 02:00:00:00:bb:01") })
			f.within(promise, peer, "on its new MAC", known(other))

			f.change(func() { ip(t, a, "neigh flush dev eth0") })
			f.within(promise, peer, "forgotten", unknown)
			f.change(func() { talk(t, a, peer) })
			f.within(promise, peer, "resolved again", known(other))

			f.change(func() { ip(t, a, "link set eth0 mtu 1300") })
			f.within(promise, peer, "narrower", func(nh fib.NextHop) bool { return nh.MTU == 1300 })

			// The kernel forgets the neighbours of an interface that changes its own.
			f.change(func() { ip(t, a, "link set eth0 address 02:00:00:00:aa:01"); talk(t, a, peer) })
			f.within(promise, peer, "sent from our new MAC", func(nh fib.NextHop) bool {
				return nh.LocalMAC == encap.MAC{2, 0, 0, 0, 0xaa, 1}
			})
			f.Untrack(peer)
			if nh := f.NextHop(peer); nh != (fib.NextHop{}) {
				t.Errorf("an untracked remote has %+v", nh)
			}
		})
	}
}

// A remote behind a gateway follows the gateway's MAC, another gateway, a route
// that leaves by another interface, and routes of every kind that lead nowhere.
func TestNextHopsFollowRoutes(t *testing.T) {
	l, h := labtest.Hosts(t, lab.Wire{}, "a", "r1", "r2")
	a, r1, r2 := h[0], h[1], h[2]
	if err := l.Connect(lab.Wire{}, a, r1); err != nil { // eth1
		t.Fatal(err)
	}
	remote, other := netip.MustParseAddr("198.51.100.9"), netip.MustParseAddr("198.51.100.10")
	mac1, mac2 := macOfLink(t, r1, "eth0"), macOfLink(t, r2, "eth0")
	f := follow(t, a)
	f.Track(remote)
	f.Track(other)
	f.change(func() {})
	route := func(args string) { f.change(func() { ip(t, a, "route "+args) }) }

	route("add 198.51.100.0/24 via " + r1.Addr().String())
	f.within(promise, remote, "routed", func(nh fib.NextHop) bool { return nh.IfIndex == f.cfg.IfIndex && unknown(nh) })
	f.change(func() { talk(t, a, r1.Addr()) })
	f.within(promise, remote, "behind the first gateway", known(mac1))
	f.within(promise, other, "behind the first gateway", known(mac1))

	talk(t, a, r2.Addr())
	route("replace 198.51.100.0/24 via " + r2.Addr().String())
	f.within(promise, remote, "behind the second gateway", known(mac2))

	route("add 198.51.100.9/32 via " + r1.Addr().String() + " mtu 1280")
	f.within(promise, remote, "on a route of its own", func(nh fib.NextHop) bool { return known(mac1)(nh) && nh.MTU == 1280 })
	if nh := f.NextHop(other); !known(mac2)(nh) {
		t.Errorf("another's route moved %v too: %+v", other, nh)
	}

	route("replace 198.51.100.9/32 via 10.99.1.2 dev eth1")
	f.within(promise, remote, "on the other interface", func(nh fib.NextHop) bool {
		return unknown(nh) && nh.IfIndex != 0 && nh.IfIndex != f.cfg.IfIndex
	})
	route("del 198.51.100.9/32")
	f.within(promise, remote, "back", known(mac2))

	for _, kind := range []string{"unreachable", "blackhole", "prohibit"} {
		route("add " + kind + " 198.51.100.9/32")
		f.within(promise, remote, kind, func(nh fib.NextHop) bool { return nh == fib.NextHop{} })
		route("del " + kind + " 198.51.100.9/32")
		f.within(promise, remote, "reachable again", known(mac2))
	}
	// Policy: rules change the way without a route changing.
	ip(t, a, "route add 198.51.100.0/24 via 10.99.1.2 table 77")
	f.change(func() { ip(t, a, "rule add from "+a.Addr().String()+" to 198.51.100.0/24 table 77") })
	f.within(promise, remote, "ruled out", unknown)
	f.change(func() { ip(t, a, "rule del to 198.51.100.0/24 table 77") })
	f.within(promise, remote, "ruled in", known(mac2))

	// A route by way of an IPv6 neighbour (RFC 5549).
	talk(t, a, r1.Addr6())
	route("replace 198.51.100.0/24 via inet6 " + r1.Addr6().String() + " dev eth0")
	f.within(promise, remote, "behind an IPv6 gateway", known(mac1))

	// The other interface goes down: the kernel drops its routes in silence.
	route("add 198.51.100.9/32 via 10.99.1.2 dev eth1")
	f.within(promise, remote, "on the other interface", unknown)
	f.change(func() { ip(t, a, "link set eth1 down") })
	f.within(promise, remote, "back after the other went down", known(mac1))
}

func TestNextHopsFollowTheInterface(t *testing.T) {
	_, h := labtest.Hosts(t, lab.Wire{}, "a", "b")
	a, b := h[0], h[1]
	peer, mac := b.Addr(), macOfLink(t, b, "eth0")
	f := follow(t, a)
	f.Track(peer)
	talk(t, a, peer)
	f.within(promise, peer, "resolved", known(mac))

	f.change(func() { ip(t, a, "link set eth0 down") })
	f.within(promise, peer, "down", unknown)
	f.change(func() { ip(t, a, "link set eth0 up"); talk(t, a, peer) })
	f.within(promise, peer, "up again", known(mac))

	// The kernel itself tells of a carrier up to a second late, to calm flapping
	// ones (net/core/link_watch.c).
	f.change(func() { ip(t, b, "link set eth0 down") })
	f.within(time.Second+promise, peer, "without carrier", unknown)
	f.change(func() { ip(t, b, "link set eth0 up"); talk(t, a, peer) })
	f.within(time.Second+promise, peer, "with carrier again", known(mac))

	f.change(func() { ip(t, a, "addr del "+a.Addr().String()+"/24 dev eth0") })
	f.within(promise, peer, "without our address", unknown)
	f.change(func() { ip(t, a, "addr add "+a.Addr().String()+"/24 dev eth0"); talk(t, a, peer) })
	f.within(promise, peer, "with our address again", known(mac))

	f.change(func() {
		ip(t, a, "link set eth0 down")
		ip(t, a, "link set eth0 name under0")
		ip(t, a, "link set under0 up")
	})
	talk(t, a, peer)
	f.within(promise, peer, "on the renamed interface", known(mac))

	f.change(func() { ip(t, a, "link del under0") })
	f.within(promise, peer, "gone with the interface", unknown)
}

// The kernel does not see our frames. Entries that would go stale stay alive, for
// much longer than they would by themselves, and nobody is told of anything.
func TestNextHopsKeepNeighboursAlive(t *testing.T) {
	_, h := labtest.Hosts(t, lab.Wire{}, "a", "b")
	a, b := h[0], h[1]
	quick(t, a, 2400*time.Millisecond, "1")
	f := follow(t, a)
	mac := macOfLink(t, b, "eth0")
	peers := []netip.Addr{b.Addr(), b.Addr6()}
	for _, peer := range peers {
		f.Track(peer)
		talk(t, a, peer)
		f.within(promise, peer, "resolved", known(mac))
	}
	probes := f.Stats().Probes
	f.change(func() {})
	states := map[string]bool{}
	for began := time.Now(); time.Since(began) < 10*time.Second; time.Sleep(50 * time.Millisecond) {
		for _, peer := range peers {
			if nh := f.NextHop(peer); !known(mac)(nh) {
				t.Fatalf("%v is %+v after %v\n%s", peer, nh, time.Since(began), f.show())
			}
		}
		states[stateOf(t, a, b.Addr())] = true
	}
	if !states["REACHABLE"] || !states["DELAY"] && !states["PROBE"] {
		t.Errorf("the kernel did not probe: states %v", states)
	}
	if n := f.Stats().Probes - probes; n < 4 || n > 40 {
		t.Errorf("%d probes of 2 neighbours in 10 s", n)
	}
	if n := f.heard(peers[0]) + f.heard(peers[1]); n > 0 {
		t.Errorf("told %d times of no change", n)
	}
}

// A neighbour that is not tracked is left to the kernel, and a permanent entry
// as it is.
func TestNextHopsLeaveOthersAlone(t *testing.T) {
	_, h := labtest.Hosts(t, lab.Wire{}, "a", "b", "c")
	a, b, c := h[0], h[1], h[2]
	quick(t, a, 600*time.Millisecond, "0")
	mac := macOfLink(t, b, "eth0")
	f := follow(t, a)
	ip(t, a, "neigh replace "+b.Addr().String()+" lladdr "+macString(mac)+" dev eth0 nud permanent")
	f.Track(b.Addr())
	f.within(promise, b.Addr(), "resolved", known(mac))
	talk(t, a, c.Addr())
	time.Sleep(2 * time.Second)
	if got := stateOf(t, a, b.Addr()); got != "PERMANENT" {
		t.Errorf("the permanent entry is %s now", got)
	}
	if got := stateOf(t, a, c.Addr()); got != "STALE" {
		t.Errorf("the untracked neighbour is %s, want STALE", got)
	}
	if n := f.Stats().Probes; n != 0 {
		t.Errorf("%d probes", n)
	}
}

// A peer that is gone, or has another card and did not say so, is not known any
// more in the time that the kernel takes to find out: here at most 0.9 s
// reachable and 3 probes 0.1 s apart.
func TestNextHopsNoticeTheDead(t *testing.T) {
	_, h := labtest.Hosts(t, lab.Wire{}, "a", "b", "c")
	a, b, c := h[0], h[1], h[2]
	quick(t, a, 600*time.Millisecond, "0")
	f := follow(t, a)
	mac := macOfLink(t, b, "eth0")
	for _, peer := range []netip.Addr{b.Addr(), c.Addr()} {
		f.Track(peer)
		talk(t, a, peer)
	}
	f.within(promise, b.Addr(), "resolved", known(mac))
	f.within(promise, c.Addr(), "resolved", known(macOfLink(t, c, "eth0")))

	const notice = 3 * time.Second
	f.change(func() { ip(t, c, "link set eth0 down") }) // our side of the switch stays up
	f.within(notice, c.Addr(), "dead", unknown)

	f.change(func() { ip(t, b, "link set eth0 address 02:00:00:00:bb:02") })
	f.within(notice, b.Addr(), "on a MAC that nobody has", unknown)
	f.change(func() { talk(t, a, b.Addr()) }) // what the fallback does
	f.within(promise, b.Addr(), "on its new MAC", known(encap.MAC{2, 0, 0, 0, 0xbb, 2}))
}

// A remote that was stale before it was tracked is checked too.
func TestNextHopsProbeWhatWasStale(t *testing.T) {
	_, h := labtest.Hosts(t, lab.Wire{}, "a", "b")
	a, b := h[0], h[1]
	quick(t, a, 600*time.Millisecond, "0")
	ip(t, a, "neigh replace "+b.Addr().String()+" lladdr 02:00:00:00:de:ad dev eth0 nud stale")
	f := follow(t, a)
	f.Track(b.Addr())
	f.within(promise, b.Addr(), "stale", known(encap.MAC{2, 0, 0, 0, 0xde, 0xad}))
	f.change(func() {})
	f.within(4*time.Second, b.Addr(), "found dead", unknown)
}

// Remotes that no frame can leave for.
func TestNextHopsNeverKnown(t *testing.T) {
	_, h := labtest.Hosts(t, lab.Wire{}, "a", "b")
	a, b := h[0], h[1]
	f := follow(t, a)
	for _, remote := range []string{
		a.Addr().String(), "127.0.0.1", "10.99.0.255", "224.0.0.1", "255.255.255.255", "0.0.0.0",
		"203.0.113.1", "::1", "ff02::1", "2001:db8::1", a.Addr6().String(), "::ffff:192.0.2.1",
	} {
		f.Track(netip.MustParseAddr(remote))
	}
	f.Track(b.Addr())
	talk(t, a, b.Addr())
	f.within(promise, b.Addr(), "resolved", known(macOfLink(t, b, "eth0")))
	st := f.Stats()
	if st.Tracked != 13 || st.Known != 1 || st.Lookups < 13 {
		t.Errorf("stats %+v, want 13 tracked, all looked up, 1 known", st)
	}
}

// When events are lost everything is read again, and nothing is missed.
func TestNextHopsSurviveLostEvents(t *testing.T) {
	_, h := labtest.Hosts(t, lab.Wire{}, "a", "b")
	a, b := h[0], h[1]
	f := follow(t, a)
	peer := b.Addr()
	f.Track(peer)
	talk(t, a, peer)
	f.within(promise, peer, "resolved", known(macOfLink(t, b, "eth0")))

	f.NextHops.mu.Lock() // the reader stands still behind this lock
	var batch strings.Builder
	for i := range 30000 {
		batch.WriteString("neigh replace 10.99.0.77 lladdr 02:00:00:00:00:77 dev eth0 nud permanent\n")
		if i == 15000 {
			batch.WriteString("neigh replace " + peer.String() + " lladdr 02:00:00:00:cc:01 dev eth0 nud permanent\n")
		}
		batch.WriteString("neigh del 10.99.0.77 dev eth0\n")
	}
	batchFile(t, a, batch.String())
	f.change(f.NextHops.mu.Unlock)
	f.within(promise, peer, "as it is after all", known(encap.MAC{2, 0, 0, 0, 0xcc, 1}))
	if st := f.Stats(); st.Lost == 0 || st.Resyncs < 2 {
		t.Errorf("stats %+v: no events were lost, so nothing was tested", st)
	}
}

// The whole way: a lease leads to a path with the neighbour's MAC, and a flushed
// neighbour takes it away.
func TestNextHopsReachTheTable(t *testing.T) {
	_, h := labtest.Hosts(t, lab.Wire{}, "a", "b")
	a, b := h[0], h[1]
	f := follow(t, a)
	table := fib.New(fib.Config{
		Fast: macCodec{}, Local4: a.Addr(), Port: 8472,
		Network: netip.MustParsePrefix("10.5.0.0/16"), NextHops: f.NextHops,
	})
	err := table.Apply(lease.Update{Snapshot: true, Leases: []lease.Lease{{
		Subnets: lease.Subnets{V4: netip.MustParsePrefix("10.5.2.0/24")}, Attrs: lease.Attrs{PublicIP: b.Addr()},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	ready := func() (encap.MAC, bool) {
		s := table.Load()
		hop, ok := s.Lookup4(0x0A050201)
		return encap.MAC(s.Fast[hop].Header[:6]), ok && s.Hops[hop].Ready
	}
	await := func(want bool) {
		t.Helper()
		for began := time.Now(); ; time.Sleep(time.Millisecond) {
			if mac, ok := ready(); ok == want && (!want || mac == macOfLink(t, b, "eth0")) {
				t.Logf("ready %v after %v", want, time.Since(began).Round(time.Millisecond))
				return
			}
			if time.Since(began) > promise {
				t.Fatalf("ready is not %v after %v\n%s", want, promise, f.show())
			}
		}
	}
	await(false)
	talk(t, a, b.Addr())
	await(true)
	ip(t, a, "neigh flush dev eth0")
	await(false)
	talk(t, a, b.Addr())
	await(true)
}

// macCodec puts the next hop's MAC first, as Ethernet does.
type macCodec struct{}

func (macCodec) Overhead() int                    { return 0 }
func (macCodec) Push(*packet.Batch, []encap.Path) {}
func (macCodec) Pop(*packet.Batch)                {}
func (macCodec) Compile(p encap.Peer) (path encap.Path, err error) {
	copy(path.Header[:], p.NextHopMAC[:])
	path.Ready = !p.NextHopMAC.IsZero()
	return path, nil
}

// stateOf returns what ip(8) calls the state of a neighbour.
func stateOf(tb testing.TB, h *lab.Host, a netip.Addr) string {
	tb.Helper()
	out, err := h.Output(context.Background(), "ip", "neigh", "show", a.String(), "dev", "eth0")
	if err != nil {
		tb.Fatalf("ip neigh show: %v\n%s", err, out)
	}
	fields := strings.Fields(string(out))
	if len(fields) == 0 {
		return ""
	}
	return fields[len(fields)-1]
}
