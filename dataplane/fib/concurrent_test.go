package fib

import (
	"math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"flanx/control/lease"
	"flanx/encap"
)

// Readers use snapshots, old ones too, while leases and next hops change. The
// fakes tie a subnet to its peer and its VTEP by one number, so that a torn
// entry is seen; the race detector sees the rest.
func TestReadersWhileApplying(t *testing.T) {
	nh := newFakeNextHops(t)
	table := New(testConfig(nh))
	var stop atomic.Bool
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			old := table.Load()
			for n := 0; !stop.Load(); n++ {
				s := table.Load()
				if s.Version < old.Version {
					t.Errorf("version %d after %d", s.Version, old.Version)
				}
				checkAll(t, s)
				checkAll(t, old)
				if n%16 == 0 {
					old = s
				}
			}
		})
	}
	wg.Go(func() { // the resolver
		r := rand.New(rand.NewPCG(2, 2))
		for n := byte(0); !stop.Load(); n++ {
			a := netip.AddrFrom4([4]byte{192, 0, 2, byte(1 + r.IntN(150))})
			nh.set(a, NextHop{Known: n%3 > 0, LocalMAC: testMAC, MAC: encap.MAC{2, n}})
			table.Stats()
			time.Sleep(time.Microsecond)
		}
	})

	r := rand.New(rand.NewPCG(1, 1))
	for range 600 {
		var u lease.Update
		u.Snapshot = r.IntN(50) == 0
		for range 1 + r.IntN(8) {
			n := byte(1 + r.IntN(150))
			l := testLease(netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 5, n, 0}), 24).String(), "", n)
			if r.IntN(3) > 0 {
				u.Leases = append(u.Leases, l)
			} else {
				u.Removed = append(u.Removed, l.Subnets)
			}
		}
		apply(t, table, u)
	}
	stop.Store(true)
	wg.Wait()
}

func checkAll(t *testing.T, s *Snapshot) {
	for n := range byte(151) {
		i, ok := s.Lookup4(10<<24 | 5<<16 | uint32(n)<<8 | 1)
		if !ok {
			continue
		}
		hop, vtep := &s.Hops[i], macOf(uint64(n))
		if hop.Peer[15] != n || s.Fallback[i].Peer != hop.Peer {
			t.Errorf("subnet %d leads to hop %+v", n, hop)
		}
		if got, _, _ := pathMACs(&s.Fallback[i]); got != vtep {
			t.Errorf("subnet %d has vtep %x", n, got)
		}
		if got, _, _ := pathMACs(&s.Fast[i]); hop.Ready != s.Fast[i].Ready || hop.Ready && got != vtep {
			t.Errorf("subnet %d: hop ready %v, path ready %v to %x", n, hop.Ready, s.Fast[i].Ready, got)
		}
	}
}
