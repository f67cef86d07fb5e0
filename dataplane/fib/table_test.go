package fib

import (
	"bytes"
	"log/slog"
	"net/netip"
	"strings"
	"testing"

	"flanx/control/lease"
	"flanx/encap"
)

// What a sequence of updates leads to. The last element of want is checked
// after the last step.
func TestApply(t *testing.T) {
	type step = lease.Update
	leases := func(l ...lease.Lease) []lease.Lease { return l }
	gone := func(l ...lease.Lease) (s []lease.Subnets) {
		for i := range l {
			s = append(s, l[i].Subnets)
		}
		return s
	}
	a := testLease("10.5.1.0/24", "", 1)
	aMoved := testLease("10.5.1.0/24", "", 11)
	b := testLease("10.5.2.0/24", "", 2)
	dual := testLease("10.5.3.0/24", "fd00:5:0:3::/64", 3)
	dualV6Moved := dual
	dualV6Moved.Attrs.PublicIPv6 = netip.MustParseAddr("2001:db8::33")
	own := testLease("10.5.200.0/24", "fd00:5:0:c8::/64", 77)
	wide := testLease("10.5.0.0/16", "", 5)
	narrow := testLease("10.5.1.128/25", "", 6)
	rival := testLease("10.5.1.0/24", "fd00:5:0:99::/64", 7)
	broken := aMoved
	broken.Attrs.PublicIP = netip.MustParseAddr("127.0.0.1")

	for _, tc := range []struct {
		name  string
		steps []step
		want  map[string]string // inner → underlay, "" for nowhere
		stats Stats
	}{
		{
			name:  "a lease and its removal",
			steps: []step{{Leases: leases(a, b)}, {Removed: gone(a)}},
			want:  map[string]string{"10.5.1.1": "", "10.5.2.1": "192.0.2.2", "10.5.3.1": ""},
			stats: Stats{Hops: 1, Peers: 1},
		},
		{
			name:  "removing what is not there",
			steps: []step{{Leases: leases(a)}, {Removed: gone(b, wide)}},
			want:  map[string]string{"10.5.1.1": "192.0.2.1"},
			stats: Stats{Hops: 1, Peers: 1},
		},
		{
			name:  "changed address without removal",
			steps: []step{{Leases: leases(a)}, {Leases: leases(aMoved)}},
			want:  map[string]string{"10.5.1.1": "192.0.2.11"},
			stats: Stats{Hops: 1, Peers: 1},
		},
		{
			name:  "changed address seen only in a snapshot",
			steps: []step{{Snapshot: true, Leases: leases(a, b)}, {Snapshot: true, Leases: leases(aMoved, b)}},
			want:  map[string]string{"10.5.1.1": "192.0.2.11", "10.5.2.1": "192.0.2.2"},
			stats: Stats{Hops: 2, Peers: 2},
		},
		{
			name:  "a snapshot forgets what it does not have",
			steps: []step{{Leases: leases(a, b, dual)}, {Snapshot: true, Leases: leases(b)}},
			want:  map[string]string{"10.5.1.1": "", "10.5.2.1": "192.0.2.2", "10.5.3.1": "", "fd00:5:0:3::1": ""},
			stats: Stats{Hops: 1, Peers: 1},
		},
		{
			name:  "an empty snapshot forgets all",
			steps: []step{{Leases: leases(a, b, dual)}, {Snapshot: true}},
			want:  map[string]string{"10.5.1.1": "", "10.5.2.1": "", "fd00:5:0:3::1": ""},
		},
		{
			name:  "removed and new in one update",
			steps: []step{{Leases: leases(a)}, {Removed: gone(a), Leases: leases(aMoved)}},
			want:  map[string]string{"10.5.1.1": "192.0.2.11"},
			stats: Stats{Hops: 1, Peers: 1},
		},
		{
			name:  "the same lease twice in one update: the last counts",
			steps: []step{{Snapshot: true, Leases: leases(a, aMoved)}},
			want:  map[string]string{"10.5.1.1": "192.0.2.11"},
			stats: Stats{Hops: 1, Peers: 1},
		},
		{
			name:  "our own lease is no hop",
			steps: []step{{Snapshot: true, Leases: leases(own, a)}},
			want:  map[string]string{"10.5.200.1": "", "fd00:5:0:c8::1": "", "10.5.1.1": "192.0.2.1"},
			stats: Stats{Hops: 1, Peers: 1},
		},
		{
			name:  "dual stack gives two hops",
			steps: []step{{Leases: leases(dual)}},
			want:  map[string]string{"10.5.3.1": "192.0.2.3", "fd00:5:0:3::1": "2001:db8::3"},
			stats: Stats{Hops: 2, Peers: 2},
		},
		{
			name:  "one family of a dual-stack lease moves",
			steps: []step{{Leases: leases(dual)}, {Leases: leases(dualV6Moved)}},
			want:  map[string]string{"10.5.3.1": "192.0.2.3", "fd00:5:0:3::1": "2001:db8::33"},
			stats: Stats{Hops: 2, Peers: 2},
		},
		{
			name:  "the longest prefix decides, wide first",
			steps: []step{{Leases: leases(wide)}, {Leases: leases(a)}, {Leases: leases(narrow)}},
			want: map[string]string{
				"10.5.1.1": "192.0.2.1", "10.5.1.127": "192.0.2.1", "10.5.1.128": "192.0.2.6", "10.5.9.9": "192.0.2.5",
				"10.5.200.1": "", // a lease over our own subnet does not attract it
			},
			stats: Stats{Hops: 3, Peers: 3, Overlaps: 3},
		},
		{
			name:  "the longest prefix decides, narrow first",
			steps: []step{{Leases: leases(narrow)}, {Leases: leases(a)}, {Leases: leases(wide)}},
			want:  map[string]string{"10.5.1.1": "192.0.2.1", "10.5.1.128": "192.0.2.6", "10.5.9.9": "192.0.2.5"},
			stats: Stats{Hops: 3, Peers: 3, Overlaps: 2},
		},
		{
			name:  "what lay under a removed prefix shows again",
			steps: []step{{Leases: leases(narrow, a, wide)}, {Removed: gone(a)}, {Removed: gone(narrow)}},
			want:  map[string]string{"10.5.1.1": "192.0.2.5", "10.5.1.128": "192.0.2.5"},
			stats: Stats{Hops: 1, Peers: 1, Overlaps: 1},
		},
		{
			name:  "a rival waits",
			steps: []step{{Leases: leases(a)}, {Leases: leases(rival)}},
			want:  map[string]string{"10.5.1.1": "192.0.2.1", "fd00:5:0:99::1": "2001:db8::7"},
			stats: Stats{Hops: 2, Peers: 3, Rivals: 1},
		},
		{
			name:  "a rival inherits",
			steps: []step{{Leases: leases(a, rival)}, {Removed: gone(a)}},
			want:  map[string]string{"10.5.1.1": "192.0.2.7", "fd00:5:0:99::1": "2001:db8::7"},
			stats: Stats{Hops: 2, Peers: 2},
		},
		{
			name:  "a waiting rival goes",
			steps: []step{{Leases: leases(a, rival)}, {Removed: gone(rival)}},
			want:  map[string]string{"10.5.1.1": "192.0.2.1", "fd00:5:0:99::1": ""},
			stats: Stats{Hops: 1, Peers: 1},
		},
		{
			name:  "a lease turns bad",
			steps: []step{{Leases: leases(aMoved)}, {Leases: leases(broken)}},
			want:  map[string]string{"10.5.1.1": ""},
			stats: Stats{Refused: [NumRefusals]int{BadPeer: 1}},
		},
		{
			name:  "a lease turns good",
			steps: []step{{Leases: leases(broken)}, {Leases: leases(aMoved)}},
			want:  map[string]string{"10.5.1.1": "192.0.2.11"},
			stats: Stats{Hops: 1, Peers: 1},
		},
		{
			name:  "a lease turns bad and its rival inherits",
			steps: []step{{Leases: leases(aMoved, rival)}, {Snapshot: true, Leases: leases(broken, rival)}},
			want:  map[string]string{"10.5.1.1": "192.0.2.7"},
			stats: Stats{Hops: 2, Peers: 2, Refused: [NumRefusals]int{BadPeer: 1}},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			nh := newFakeNextHops(t)
			table := New(testConfig(nh))
			for _, u := range tc.steps {
				apply(t, table, u)
			}
			for inner, want := range tc.want {
				got := hopOf(table.Load(), inner)
				if want == "" && got.IsValid() || want != "" && got.String() != want {
					t.Errorf("%s leads to %v, want %q", inner, got, want)
				}
			}
			st := table.Stats()
			if st != tc.stats {
				t.Errorf("stats %+v, want %+v", st, tc.stats)
			}
			if len(nh.tracked) != st.Peers {
				t.Errorf("%d next hops tracked for %d peers", len(nh.tracked), st.Peers)
			}
		})
	}
}

func TestPathsAreTheHops(t *testing.T) {
	nh := newFakeNextHops(t)
	table := New(testConfig(nh))
	apply(t, table, lease.Update{Leases: []lease.Lease{testLease("10.5.3.0/24", "fd00:5:0:3::/64", 3)}})
	mac := encap.MAC{2, 0, 0, 0, 0, 3}
	nh.set(netip.MustParseAddr("2001:db8::3"), NextHop{Known: true, LocalMAC: testMAC, MAC: mac, MTU: 1400})

	s := table.Load()
	for _, tc := range []struct {
		inner string
		vtep  encap.MAC
		ready bool
		mac   encap.MAC
		mtu   uint32
	}{
		{inner: "10.5.3.1", vtep: macOf(3)},
		{inner: "fd00:5:0:3::1", vtep: macOf(0x603), ready: true, mac: mac, mtu: 1400},
	} {
		i, ok := lookup(s, netip.MustParseAddr(tc.inner))
		if !ok {
			t.Fatalf("%s leads nowhere", tc.inner)
		}
		hop := s.Hops[i]
		if hop.Ready != tc.ready || hop.MTU != tc.mtu {
			t.Errorf("%s: hop %+v, want ready %v and mtu %d", tc.inner, hop, tc.ready, tc.mtu)
		}
		if vtep, next, _ := pathMACs(&s.Fallback[i]); vtep != tc.vtep || !next.IsZero() || !s.Fallback[i].Ready {
			t.Errorf("%s: fallback to vtep %x by %x", tc.inner, vtep, next)
		}
		if !tc.ready {
			if s.Fast[i] != (encap.Path{}) {
				t.Errorf("%s: a fast path without next hop: %+v", tc.inner, s.Fast[i])
			}
			continue
		}
		if vtep, next, local := pathMACs(&s.Fast[i]); vtep != tc.vtep || next != tc.mac || local != testMAC || s.Fast[i].Peer != hop.Peer {
			t.Errorf("%s: fast path to vtep %x by %x from %x", tc.inner, vtep, next, local)
		}
	}
}

// A frame to a zero MAC is lost without a trace, so none may be compiled.
func TestNeverToAZeroMAC(t *testing.T) {
	peer := netip.MustParseAddr("192.0.2.1")
	mac := encap.MAC{2, 0, 0, 0, 0, 1}
	for _, tc := range []struct {
		name  string
		nh    NextHop
		ready bool
	}{
		{name: "nothing known"},
		{name: "not known, MACs left over", nh: NextHop{LocalMAC: testMAC, MAC: mac}},
		{name: "known without next hop", nh: NextHop{Known: true, LocalMAC: testMAC}},
		{name: "known without our own", nh: NextHop{Known: true, MAC: mac}},
		{name: "negative MTU", nh: NextHop{MTU: -1}},
		{name: "known", nh: NextHop{Known: true, LocalMAC: testMAC, MAC: mac}, ready: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			nh := newFakeNextHops(t)
			nh.known[peer] = tc.nh
			table := New(testConfig(nh))
			apply(t, table, lease.Update{Leases: []lease.Lease{testLease("10.5.1.0/24", "", 1)}})
			s := table.Load()
			if s.Hops[0].Ready != tc.ready || s.Fast[0].Ready != tc.ready || s.Hops[0].MTU != 0 {
				t.Errorf("hop %+v, path ready %v; want ready %v", s.Hops[0], s.Fast[0].Ready, tc.ready)
			}
			if !tc.ready && s.Fast[0] != (encap.Path{}) {
				t.Errorf("an unready path has content: %+v", s.Fast[0])
			}
		})
	}
}

// A next hop that comes, changes and goes reaches every lease behind it, and
// nothing else changes.
func TestChanged(t *testing.T) {
	nh := newFakeNextHops(t)
	table := New(testConfig(nh))
	second := testLease("10.5.4.0/24", "", 1) // the same node's former subnet
	apply(t, table, lease.Update{Leases: []lease.Lease{
		testLease("10.5.1.0/24", "", 1), second, testLease("10.5.2.0/24", "", 2),
	}})
	peer := netip.MustParseAddr("192.0.2.1")
	macs := func(s *Snapshot) (got [3]encap.MAC) {
		for n, inner := range []string{"10.5.1.1", "10.5.4.1", "10.5.2.1"} {
			i, _ := lookup(s, netip.MustParseAddr(inner))
			_, got[n], _ = pathMACs(&s.Fast[i])
		}
		return got
	}
	for n := range byte(5) {
		before := table.Load()
		old := macs(before)
		mac := encap.MAC{2, 0, 0, 0, 0, n} // the first is not known
		nh.set(peer, NextHop{Known: n > 0, LocalMAC: testMAC, MAC: mac})
		want := [3]encap.MAC{mac, mac, {}}
		if n == 0 {
			want = [3]encap.MAC{}
		}
		if got := macs(table.Load()); got != want {
			t.Fatalf("change %d: next hops %x, want %x", n, got, want)
		}
		if got := macs(before); got != old {
			t.Fatalf("change %d altered a snapshot already handed out: %x, was %x", n, got, old)
		}
	}
	if st := table.Stats(); st.Ready != 2 || st.Hops != 3 {
		t.Errorf("stats %+v, want 2 of 3 ready", st)
	}
	nh.known[netip.MustParseAddr("192.0.2.2")] = NextHop{Known: true, LocalMAC: testMAC, MAC: encap.MAC{2, 9}}
	table.Refresh()
	if st := table.Stats(); st.Ready != 3 {
		t.Errorf("stats after Refresh %+v, want all ready", st)
	}
	nh.changed([]netip.Addr{netip.MustParseAddr("203.0.113.1")}) // nobody's
}

// Nothing is published when nothing changed: workers' caches stay warm.
func TestNoChangeNoSnapshot(t *testing.T) {
	nh := newFakeNextHops(t)
	table := New(testConfig(nh))
	all := lease.Update{Snapshot: true, Leases: []lease.Lease{
		testLease("10.5.1.0/24", "fd00:5:0:1::/64", 1), testLease("10.5.2.0/24", "", 2), testLease("", "", 3), {},
	}}
	apply(t, table, all)
	before := table.Load()
	apply(t, table, all)
	apply(t, table, lease.Update{Leases: all.Leases})
	apply(t, table, lease.Update{})
	renewed := all.Leases[1]
	renewed.Revision++
	apply(t, table, lease.Update{Leases: []lease.Lease{renewed}})
	nh.changed([]netip.Addr{netip.MustParseAddr("192.0.2.1")})
	table.Refresh()
	if after := table.Load(); after != before {
		t.Errorf("version %d became %d without a change", before.Version, after.Version)
	}
}

// Codecs may be missing, and next hops too.
func TestWithoutParts(t *testing.T) {
	l := testLease("10.5.1.0/24", "", 1)
	for _, tc := range []struct {
		name           string
		config         func(*Config)
		fast, fallback int
	}{
		{"no fast path", func(c *Config) { c.Fast = nil }, 0, 1},
		{"no fallback", func(c *Config) { c.Fallback = nil }, 1, 0},
		{"no codec", func(c *Config) { c.Fast, c.Fallback = nil, nil }, 0, 0},
		{"no next hops", func(c *Config) { c.NextHops = nil }, 1, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg := testConfig(newFakeNextHops(t))
			tc.config(&cfg)
			table := New(cfg)
			apply(t, table, lease.Update{Leases: []lease.Lease{l}})
			s := table.Load()
			if len(s.Fast) != tc.fast || len(s.Fallback) != tc.fallback || len(s.Hops) != 1 {
				t.Errorf("%d fast, %d fallback, %d hops", len(s.Fast), len(s.Fallback), len(s.Hops))
			}
			if s.Hops[0].Ready {
				t.Error("ready without a next hop")
			}
			if got := hopOf(s, "10.5.1.1"); got.String() != "192.0.2.1" {
				t.Errorf("leads to %v", got)
			}
		})
	}
}

// A store full of claims to one prefix must not make changes slow.
func TestRivalsAreBounded(t *testing.T) {
	table := New(testConfig(newFakeNextHops(t)))
	var u lease.Update
	for n := range byte(100) {
		l := testLease("10.5.1.0/24", "fd00:5::/64", n+1)
		l.Subnets.V6 = netip.PrefixFrom(netip.AddrFrom16([16]byte{0xfd, 0, 0, 5, 7: n}), 64)
		u.Leases = append(u.Leases, l)
	}
	apply(t, table, u)
	st := table.Stats()
	if st.Hops != 101 || st.Rivals != maxRivals || st.Refused[Crowded] != 100-1-maxRivals {
		t.Errorf("stats %+v, want 101 hops and %d rivals", st, maxRivals)
	}
}

func TestWarnsOfOverlapAndRivals(t *testing.T) {
	var log bytes.Buffer
	cfg := testConfig(newFakeNextHops(t))
	cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
	table := New(cfg)
	apply(t, table, lease.Update{Leases: []lease.Lease{testLease("10.5.1.0/24", "", 1)}})
	apply(t, table, lease.Update{Leases: []lease.Lease{testLease("10.5.1.128/25", "", 2)}})
	apply(t, table, lease.Update{Leases: []lease.Lease{testLease("10.5.1.0/24", "fd00:5::/64", 3)}})
	apply(t, table, lease.Update{Leases: []lease.Lease{testLease("10.5.1.0/24", "", 1)}})
	for _, want := range []string{
		`two leases overlap; the longer prefix decides" subnet=10.5.1.128/25 other=10.5.1.0/24`,
		`two leases claim one subnet; the first to come keeps it" subnet=10.5.1.0/24 peer=192.0.2.3`,
	} {
		if strings.Count(log.String(), want) != 1 {
			t.Errorf("not warned once of %q:\n%s", want, &log)
		}
	}
}

func TestAll(t *testing.T) {
	table := New(testConfig(newFakeNextHops(t)))
	apply(t, table, lease.Update{Leases: []lease.Lease{testLease("10.5.1.0/24", "fd00:5:0:1::/64", 1), testLease("10.5.2.0/24", "", 2)}})
	apply(t, table, lease.Update{Leases: []lease.Lease{testLease("10.5.2.0/24", "", 3)}})
	s := table.Load()
	got := map[string]string{}
	for p, hop := range s.All() {
		got[p.String()] = netip.AddrFrom16(s.Hops[hop].Peer).Unmap().String()
	}
	want := map[string]string{"10.5.1.0/24": "192.0.2.1", "fd00:5:0:1::/64": "2001:db8::1", "10.5.2.0/24": "192.0.2.3"}
	if len(got) != len(want) {
		t.Errorf("All gives %v, want %v", got, want)
	}
	for p := range want {
		if got[p] != want[p] {
			t.Errorf("All gives %s for %s, want %s", got[p], p, want[p])
		}
	}
	for range s.All() {
		break // stopping early is allowed
	}
}
