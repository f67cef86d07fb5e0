package fib

import (
	"math/rand/v2"
	"net/netip"
	"testing"

	"flanx/control/lease"
)

// TestIsPeerFollowsTheLeases plays random changes against a plain count of who
// has a lease, in tables small enough to rebuild and large enough to patch.
func TestIsPeerFollowsTheLeases(t *testing.T) {
	for name, nodes := range map[string]int{"rebuilt": 4, "patched": 600} {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 2))
			table := New(Config{
				Fallback: nil, Local4: netip.MustParseAddr("10.99.0.1"), Port: 8285,
				Network: netip.MustParsePrefix("10.0.0.0/8"), BackendType: "udp",
			})
			owner := map[lease.Subnets]netip.Addr{}
			for range 3 * nodes {
				s := lease.Subnets{V4: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 5, byte(rng.IntN(nodes)), 0}), 24)}
				a := netip.AddrFrom4([4]byte{172, 16, byte(rng.IntN(nodes) >> 8), byte(1 + rng.IntN(nodes)%250)})
				if rng.IntN(3) == 0 {
					delete(owner, s)
					_ = table.Apply(lease.Update{Removed: []lease.Subnets{s}})
				} else {
					owner[s] = a
					_ = table.Apply(lease.Update{Leases: []lease.Lease{{Subnets: s, Attrs: lease.Attrs{PublicIP: a}}}})
				}
				checkPeers(t, table, owner)
			}
		})
	}
}

func checkPeers(t *testing.T, table *Table, owner map[lease.Subnets]netip.Addr) {
	t.Helper()
	members := map[netip.Addr]bool{}
	for _, a := range owner {
		members[a] = true
	}
	s := table.Load()
	for i := range 256 {
		a := netip.AddrFrom4([4]byte{172, 16, 0, byte(i)})
		as16 := a.As16()
		if got := s.IsPeer(&as16); got != members[a] {
			t.Fatalf("IsPeer(%v) = %v with %d members", a, got, len(members))
		}
	}
}

func TestOldSnapshotsKeepTheirPeers(t *testing.T) {
	table := New(Config{Local4: netip.MustParseAddr("10.99.0.1"), Network: netip.MustParsePrefix("10.5.0.0/16")})
	s := lease.Subnets{V4: netip.MustParsePrefix("10.5.1.0/24")}
	a := netip.MustParseAddr("10.99.0.2")
	_ = table.Apply(lease.Update{Leases: []lease.Lease{{Subnets: s, Attrs: lease.Attrs{PublicIP: a}}}})
	before := table.Load()
	_ = table.Apply(lease.Update{Removed: []lease.Subnets{s}})
	as16 := a.As16()
	if !before.IsPeer(&as16) || table.Load().IsPeer(&as16) {
		t.Errorf("before %v, after %v; want true, false", before.IsPeer(&as16), table.Load().IsPeer(&as16))
	}
	if n := testing.AllocsPerRun(100, func() { before.IsPeer(&as16) }); n != 0 {
		t.Errorf("IsPeer allocates %v times", n)
	}
}
