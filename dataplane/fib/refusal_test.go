package fib

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"flanx/control/lease"
)

func TestRefusals(t *testing.T) {
	addr := netip.MustParseAddr
	for _, tc := range []struct {
		name   string
		subnet string
		change func(*lease.Lease)
		config func(*Config)
		want   Refusal
	}{
		{name: "good"},
		{name: "own underlay network's neighbour", change: func(l *lease.Lease) { l.Attrs.PublicIP = addr("192.0.2.201") }},
		{name: "link-local v4 underlay", change: func(l *lease.Lease) { l.Attrs.PublicIP = addr("169.254.7.7") }},
		{name: "type in another case", change: func(l *lease.Lease) { l.Attrs.BackendType = "VXLAN" }},
		{name: "udp takes any type", change: func(l *lease.Lease) { l.Attrs.BackendType = "host-gw" }, config: func(c *Config) { c.BackendType, c.VTEP = "udp", nil }},
		{name: "udp takes no type", change: func(l *lease.Lease) { l.Attrs.BackendType = "" }, config: func(c *Config) { c.BackendType, c.VTEP = "udp", nil }},

		{name: "other backend", change: func(l *lease.Lease) { l.Attrs.BackendType = "host-gw" }, want: OtherBackend},
		{name: "no backend", change: func(l *lease.Lease) { l.Attrs.BackendType = "" }, want: OtherBackend},
		{name: "family without network", config: func(c *Config) { c.Network = netip.Prefix{} }, want: NotCarried},
		{name: "family without local address", config: func(c *Config) { c.Local4 = netip.Addr{} }, want: NotCarried},
		{name: "codecs of the other family", subnet: "v6", config: func(c *Config) { c.Fast, c.Fallback = nil, fakeCodec{v4only: true} }, want: NotCarried},
		{name: "codec refuses", config: func(c *Config) { c.Port = 0 }, want: BadPeer},

		{name: "outside the network", subnet: "10.6.1.0/24", want: BadSubnet},
		{name: "wider than the network", subnet: "10.0.0.0/8", want: BadSubnet},
		{name: "everything", subnet: "0.0.0.0/0", want: BadSubnet},
		{name: "host bits", subnet: "10.5.1.1/24", want: BadSubnet},
		{name: "v6 in the v4 place", subnet: "fd00:5:0:1::/64", want: BadSubnet},
		{name: "ours", subnet: "10.5.200.0/24", want: OwnSubnet},
		{name: "half of ours", subnet: "10.5.200.128/25", want: OwnSubnet},
		{name: "one address of ours", subnet: "10.5.200.1/32", want: OwnSubnet},

		{name: "no address", change: func(l *lease.Lease) { l.Attrs.PublicIP = netip.Addr{} }, want: BadPeer},
		{name: "unspecified", change: func(l *lease.Lease) { l.Attrs.PublicIP = addr("0.0.0.0") }, want: BadPeer},
		{name: "this network", change: func(l *lease.Lease) { l.Attrs.PublicIP = addr("0.1.2.3") }, want: BadPeer},
		{name: "loopback", change: func(l *lease.Lease) { l.Attrs.PublicIP = addr("127.0.0.53") }, want: BadPeer},
		{name: "multicast", change: func(l *lease.Lease) { l.Attrs.PublicIP = addr("224.0.0.1") }, want: BadPeer},
		{name: "broadcast", change: func(l *lease.Lease) { l.Attrs.PublicIP = addr("255.255.255.255") }, want: BadPeer},
		{name: "inside the overlay", change: func(l *lease.Lease) { l.Attrs.PublicIP = addr("10.5.9.9") }, want: BadPeer},
		{name: "v6 address for v4", change: func(l *lease.Lease) { l.Attrs.PublicIP = addr("2001:db8::9") }, want: BadPeer},
		{name: "v4-mapped", change: func(l *lease.Lease) { l.Attrs.PublicIP = addr("::ffff:192.0.2.9") }, want: BadPeer},
		{name: "our address", change: func(l *lease.Lease) { l.Attrs.PublicIP = addr("192.0.2.200") }, want: OwnPeer},
		{name: "our public address", change: func(l *lease.Lease) { l.Attrs.PublicIP = addr("198.51.100.200") }, want: OwnPeer},

		{name: "no backend data", change: func(l *lease.Lease) { l.Attrs.BackendData = nil }, want: BadVTEP},
		{name: "broken backend data", change: func(l *lease.Lease) { l.Attrs.BackendData = json.RawMessage("{") }, want: BadVTEP},
		{name: "zero MAC", change: func(l *lease.Lease) { l.Attrs.BackendData = json.RawMessage("0") }, want: BadVTEP},
		{name: "group MAC", change: func(l *lease.Lease) { l.Attrs.BackendData = json.RawMessage("1099511627777") }, want: BadVTEP},

		{name: "v6 good", subnet: "v6"},
		{name: "v6 no address", subnet: "v6", change: func(l *lease.Lease) { l.Attrs.PublicIPv6 = netip.Addr{} }, want: BadPeer},
		{name: "v6 loopback", subnet: "v6", change: func(l *lease.Lease) { l.Attrs.PublicIPv6 = addr("::1") }, want: BadPeer},
		{name: "v6 link-local", subnet: "v6", change: func(l *lease.Lease) { l.Attrs.PublicIPv6 = addr("fe80::1") }, want: BadPeer},
		{name: "v6 zone", subnet: "v6", change: func(l *lease.Lease) { l.Attrs.PublicIPv6 = addr("2001:db8::1%eth0") }, want: BadPeer},
		{name: "v6 multicast", subnet: "v6", change: func(l *lease.Lease) { l.Attrs.PublicIPv6 = addr("ff02::1") }, want: BadPeer},
		{name: "v6 ours", subnet: "v6", change: func(l *lease.Lease) { l.Attrs.PublicIPv6 = addr("2001:db8::c8") }, want: OwnPeer},
		{name: "v6 of v4 address", subnet: "v6", change: func(l *lease.Lease) { l.Attrs.PublicIPv6 = addr("192.0.2.1") }, want: BadPeer},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg := testConfig(newFakeNextHops(t))
			if tc.config != nil {
				tc.config(&cfg)
			}
			bad := testLease("10.5.1.0/24", "", 1)
			switch tc.subnet {
			case "":
			case "v6":
				bad = testLease("", "fd00:5:0:1::/64", 1)
			default:
				bad.Subnets.V4 = netip.MustParsePrefix(tc.subnet)
			}
			if tc.change != nil {
				tc.change(&bad)
			}
			table := New(cfg)
			apply(t, table, lease.Update{Snapshot: true, Leases: []lease.Lease{bad}})

			var want Stats
			if tc.want == Accepted {
				want.Hops, want.Peers = 1, 1
			} else {
				want.Refused[tc.want] = 1
			}
			if got := table.Stats(); got != want {
				t.Errorf("stats %+v, want %+v", got, want)
			}
			apply(t, table, lease.Update{Removed: []lease.Subnets{bad.Subnets}})
			if got := table.Stats(); got != (Stats{}) {
				t.Errorf("stats after removal %+v, want nothing", got)
			}
		})
	}
}

// A bad lease among good ones, and a bad half of a good one.
func TestRefusalCostsOnlyItself(t *testing.T) {
	table := New(testConfig(newFakeNextHops(t)))
	half := testLease("10.5.2.0/24", "fd00:5:0:2::/64", 2)
	half.Attrs.PublicIPv6 = netip.MustParseAddr("::1")
	bad := testLease("10.5.3.0/24", "fd00:5:0:3::/64", 3)
	bad.Attrs.BackendType = "nonsense"
	apply(t, table, lease.Update{Snapshot: true, Leases: []lease.Lease{
		testLease("10.5.1.0/24", "fd00:5:0:1::/64", 1), bad, half, testLease("10.5.4.0/24", "", 4),
	}})
	for inner, want := range map[string]string{
		"10.5.1.1": "192.0.2.1", "fd00:5:0:1::1": "2001:db8::1",
		"10.5.2.1": "192.0.2.2", "10.5.4.1": "192.0.2.4",
	} {
		if got := hopOf(table.Load(), inner); got.String() != want {
			t.Errorf("%s leads to %v, want %s", inner, got, want)
		}
	}
	for _, inner := range []string{"fd00:5:0:2::1", "10.5.3.1", "fd00:5:0:3::1"} {
		if got := hopOf(table.Load(), inner); got.IsValid() {
			t.Errorf("%s leads to %v, want nowhere", inner, got)
		}
	}
}

// One warning per revision and reason, however often the lease is listed.
func TestWarnsOncePerRevision(t *testing.T) {
	var log bytes.Buffer
	cfg := testConfig(newFakeNextHops(t))
	cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
	table := New(cfg)
	bad := testLease("10.5.1.0/24", "", 200) // our address
	other := testLease("10.5.2.0/24", "", 2)
	other.Attrs.BackendType = "host-gw" // no warning: clusters may mix
	lines := func() int { return strings.Count(log.String(), "lease not used") }

	apply(t, table, lease.Update{Leases: []lease.Lease{bad, other}})
	apply(t, table, lease.Update{Leases: []lease.Lease{bad}})
	apply(t, table, lease.Update{Snapshot: true, Leases: []lease.Lease{bad, other}})
	if lines() != 1 {
		t.Fatalf("%d warnings for one revision, want 1:\n%s", lines(), &log)
	}
	if !strings.Contains(log.String(), "192.0.2.200 is our own") {
		t.Errorf("the warning does not name the address:\n%s", &log)
	}
	bad.Revision++
	apply(t, table, lease.Update{Leases: []lease.Lease{bad}})
	if lines() != 2 {
		t.Errorf("%d warnings after a new revision, want 2", lines())
	}
	bad.Attrs.PublicIP = netip.MustParseAddr("127.0.0.1")
	apply(t, table, lease.Update{Leases: []lease.Lease{bad}})
	if lines() != 3 {
		t.Errorf("%d warnings after a new reason, want 3", lines())
	}
}

// A store full of bad leases must not fill the disk.
func TestWarningsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		cfg := testConfig(newFakeNextHops(t))
		cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
		table := New(cfg)
		for rev := range 100 {
			bad := testLease("10.5.1.0/24", "", 200)
			bad.Revision = int64(rev + 2)
			apply(t, table, lease.Update{Leases: []lease.Lease{bad}})
		}
		if n := strings.Count(log.String(), "\n"); n != warnPerSecond {
			t.Errorf("%d lines in one second, want %d", n, warnPerSecond)
		}
		time.Sleep(time.Second)
		bad := testLease("10.5.1.0/24", "", 200)
		bad.Revision = 1000
		apply(t, table, lease.Update{Leases: []lease.Lease{bad}})
		if !strings.Contains(log.String(), "suppressed=95") {
			t.Errorf("the next warning does not say how many were kept back:\n%s", &log)
		}
	})
}

func TestRefusalNames(t *testing.T) {
	for r := range NumRefusals {
		if r.String() == "" || r.String() == "unknown" {
			t.Errorf("refusal %d has no name", r)
		}
	}
	if NumRefusals.String() != "unknown" {
		t.Errorf("%v has a name", uint8(NumRefusals))
	}
}
