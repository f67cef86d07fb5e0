package fib

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"flanx/control/lease"
)

func TestOwn(t *testing.T) {
	for _, tc := range []struct {
		name     string
		own      string
		in, out  []string
		otherOut string // of the other family
	}{
		{name: "v4 /24", own: "10.5.200.0/24", in: []string{"10.5.200.0", "10.5.200.255"}, out: []string{"10.5.199.255", "10.5.201.0", "0.0.0.0"}, otherOut: "fd00::"},
		{name: "v4 /32", own: "10.5.200.7/32", in: []string{"10.5.200.7"}, out: []string{"10.5.200.6", "10.5.200.8"}, otherOut: "::"},
		{name: "v4 /0", own: "0.0.0.0/0", in: []string{"0.0.0.0", "255.255.255.255"}, otherOut: "::"},
		{name: "v6 /64", own: "fd00:5:0:c8::/64", in: []string{"fd00:5:0:c8::", "fd00:5:0:c8:ffff:ffff:ffff:ffff"}, out: []string{"fd00:5:0:c7:ffff::", "fd00:5:0:c9::", "::"}, otherOut: "0.0.0.0"},
		{name: "v6 /48", own: "fd00:5::/48", in: []string{"fd00:5:0:1::", "fd00:5:0:ffff::1"}, out: []string{"fd00:6::"}, otherOut: "0.0.0.0"},
		{name: "v6 /80", own: "fd00:5:0:c8:1::/80", in: []string{"fd00:5:0:c8:1::", "fd00:5:0:c8:1:ffff::"}, out: []string{"fd00:5:0:c8:2::", "fd00:5:0:c9:1::"}, otherOut: "0.0.0.0"},
		{name: "v6 /128", own: "fd00::1/128", in: []string{"fd00::1"}, out: []string{"fd00::2", "fd00::"}, otherOut: "0.0.0.0"},
		{name: "v6 /0", own: "::/0", in: []string{"::", "ffff::"}, otherOut: "0.0.0.0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var own lease.Subnets
			if p := netip.MustParsePrefix(tc.own); p.Addr().Is4() {
				own.V4 = p
			} else {
				own.V6 = p
			}
			s := New(Config{Own: own}).Load()
			for _, a := range tc.in {
				if !owns(s, a) {
					t.Errorf("%s is not inside %s", a, tc.own)
				}
				if _, ok := lookup(s, netip.MustParseAddr(a)); ok {
					t.Errorf("%s, our own, leads to a hop", a)
				}
			}
			for _, a := range append(tc.out, tc.otherOut) {
				if owns(s, a) {
					t.Errorf("%s is inside %s", a, tc.own)
				}
			}
		})
	}
}

func owns(s *Snapshot, addr string) bool {
	a := netip.MustParseAddr(addr)
	if a.Is4() {
		b := a.As4()
		return s.Own4(binary.BigEndian.Uint32(b[:]))
	}
	return s.Own6(a.As16())
}

func TestEmptySnapshot(t *testing.T) {
	s := New(Config{}).Load()
	if s == nil || s.Version != 1 {
		t.Fatalf("Load of a new table: %+v, want version 1", s)
	}
	for _, a := range []string{"0.0.0.0", "10.0.0.1", "::", "fd00::1"} {
		if _, ok := lookup(s, netip.MustParseAddr(a)); ok || owns(s, a) {
			t.Errorf("an empty table knows %s", a)
		}
	}
	if s.Fast != nil || s.Fallback != nil || len(s.Hops) != 0 {
		t.Errorf("a table without codecs has paths: %d, %d", len(s.Fast), len(s.Fallback))
	}
}

// A worker looks up every packet.
func TestLookupDoesNotAllocate(t *testing.T) {
	table := New(testConfig(newFakeNextHops(t)))
	apply(t, table, lease.Update{Leases: []lease.Lease{testLease("10.5.1.0/24", "fd00:5:0:1::/64", 1)}})
	s := table.Load()
	dst6 := netip.MustParseAddr("fd00:5:0:1::9").As16()
	var hits int
	allocs := testing.AllocsPerRun(1000, func() {
		s := table.Load()
		if _, ok := s.Lookup4(0x0A050109); ok {
			hits++
		}
		if _, ok := s.Lookup6(dst6); ok {
			hits++
		}
		if s.Own4(0x0A05C801) && !s.Own6(dst6) {
			hits++
		}
	})
	if allocs != 0 {
		t.Errorf("a lookup allocates %v times", allocs)
	}
	if hits != 3*1001 {
		t.Errorf("%d of %d lookups right", hits, 3*1001)
	}
	if n := len(s.Hops); n != 2 {
		t.Errorf("%d hops, want 2", n)
	}
}
