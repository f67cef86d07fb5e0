package fib

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"slices"
	"testing"
	"time"

	"flanx/control/lease"
	"flanx/encap"
)

// What the project promises: 65,536 routes, 100 changes a second.
const (
	scaleRoutes     = 65536
	scaleMemory     = 64 << 20 // for table and agent together
	scaleChanges    = 100
	scaleChangeTime = 50 * time.Millisecond // from commit to packet path, p99
)

// scaleConfig has room for 65,536 /24 subnets.
func scaleConfig(nh NextHops) Config {
	cfg := testConfig(nh)
	cfg.Network = netip.MustParsePrefix("10.0.0.0/8")
	cfg.Own = lease.Subnets{V4: netip.MustParsePrefix("10.255.255.0/24")}
	return cfg
}

func scaleLease(n int) lease.Lease {
	return lease.Lease{
		Subnets: lease.Subnets{V4: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(n >> 8), byte(n), 0}), 24)},
		Attrs: lease.Attrs{
			PublicIP:    netip.AddrFrom4([4]byte{172, 16, byte(n >> 8), byte(n)}),
			BackendType: "vxlan",
			BackendData: json.RawMessage(fmt.Sprint(n + 1)),
		},
	}
}

func scaleUpdate(routes int) lease.Update {
	u := lease.Update{Snapshot: true}
	for n := range routes {
		u.Leases = append(u.Leases, scaleLease(n))
	}
	return u
}

// oneGateway answers for all remotes alike, as if they were behind one router.
type oneGateway struct{ nh NextHop }

func (g *oneGateway) Track(netip.Addr)           {}
func (g *oneGateway) Untrack(netip.Addr)         {}
func (g *oneGateway) NextHop(netip.Addr) NextHop { return g.nh }
func (g *oneGateway) Watch(func([]netip.Addr))   {}

func readyGateway() *oneGateway {
	return &oneGateway{NextHop{Known: true, LocalMAC: testMAC, MAC: encap.MAC{2, 1}, MTU: 1500}}
}

func heapInUse() int64 {
	runtime.GC()
	runtime.GC() // the first finishes what was begun, the second counts
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// The largest table, and after many changes, leaves half of the memory promised
// to the agent and the next hops.
func TestScaleMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("fills a table with 65,536 routes")
	}
	before := heapInUse()
	table := New(scaleConfig(readyGateway()))
	apply(t, table, scaleUpdate(scaleRoutes))
	full := heapInUse() - before
	for n := range 20000 { // addresses change, memory must not grow
		l := scaleLease(n % 5000)
		l.Attrs.PublicIP = netip.AddrFrom4([4]byte{172, 17, byte(n >> 8), byte(n)})
		apply(t, table, lease.Update{Leases: []lease.Lease{l}})
	}
	changed := heapInUse() - before
	t.Logf("%d routes: %.1f MiB, after 20,000 changes %.1f MiB", scaleRoutes, float64(full)/(1<<20), float64(changed)/(1<<20))
	if limit := int64(scaleMemory / 2); full > limit || changed > limit {
		t.Errorf("the table takes %d and %d bytes, more than half of %d", full, changed, scaleMemory)
	}
	apply(t, table, lease.Update{Snapshot: true})
	if empty := heapInUse() - before; empty > 4<<20 {
		t.Errorf("an emptied table holds %d bytes", empty)
	}
	runtime.KeepAlive(table)
}

// One change in the largest table is in the snapshot in well under the promised
// time, those that move all entries to new memory included.
func TestScaleChangeTime(t *testing.T) {
	if testing.Short() {
		t.Skip("fills a table with 65,536 routes")
	}
	table := New(scaleConfig(readyGateway()))
	apply(t, table, scaleUpdate(scaleRoutes))
	r := rand.New(rand.NewPCG(1, 1))
	times := make([]time.Duration, 0, 12000) // more than fit without a move
	for range cap(times) {
		l := scaleLease(r.IntN(scaleRoutes - 1))
		l.Attrs.PublicIP = netip.AddrFrom4([4]byte{172, 17, byte(r.IntN(256)), byte(r.IntN(256))})
		start := time.Now()
		apply(t, table, lease.Update{Leases: []lease.Lease{l}})
		times = append(times, time.Since(start))
	}
	slices.Sort(times)
	p99 := times[len(times)*99/100]
	t.Logf("a change among %d routes: median %v, p99 %v, worst %v", scaleRoutes, times[len(times)/2], p99, times[len(times)-1])
	if p99 > scaleChangeTime {
		t.Errorf("p99 %v, want at most %v", p99, scaleChangeTime)
	}
}

func BenchmarkLookup4(b *testing.B) {
	for _, routes := range []int{1, 1000, scaleRoutes} {
		b.Run(fmt.Sprintf("routes=%d", routes), func(b *testing.B) {
			table := New(scaleConfig(readyGateway()))
			apply(b, table, scaleUpdate(routes))
			s := table.Load()
			r := rand.New(rand.NewPCG(1, 1))
			dst := make([]uint32, 1<<16)
			for i := range dst {
				dst[i] = 10<<24 | uint32(r.IntN(routes))<<8 | uint32(r.IntN(256))
			}
			b.ReportAllocs()
			var sum uint32
			for i := 0; b.Loop(); i++ {
				hop, _ := s.Lookup4(dst[i&(len(dst)-1)])
				sum += hop
			}
			runtime.KeepAlive(sum)
		})
	}
}

func BenchmarkLookup6(b *testing.B) {
	for _, routes := range []int{1, 1000, scaleRoutes} {
		b.Run(fmt.Sprintf("routes=%d", routes), func(b *testing.B) {
			cfg := scaleConfig(readyGateway())
			table := New(cfg)
			u := lease.Update{Snapshot: true}
			at := func(n int) (a [16]byte) { return [16]byte{0xfd, 0, 0, 5, 6: byte(n >> 8), 7: byte(n)} }
			for n := range routes {
				l := testLease("", "fd00:5::/64", 1)
				l.Subnets.V6 = netip.PrefixFrom(netip.AddrFrom16(at(n)), 64)
				u.Leases = append(u.Leases, l)
			}
			apply(b, table, u)
			s := table.Load()
			r := rand.New(rand.NewPCG(1, 1))
			dst := make([][16]byte, 1<<12)
			for i := range dst {
				dst[i] = at(r.IntN(routes))
				dst[i][15] = byte(i)
			}
			b.ReportAllocs()
			var sum uint32
			for i := 0; b.Loop(); i++ {
				hop, _ := s.Lookup6(dst[i&(len(dst)-1)])
				sum += hop
			}
			runtime.KeepAlive(sum)
		})
	}
}

func BenchmarkOwn4(b *testing.B) {
	s := New(testConfig(nil)).Load()
	var n int
	for i := uint32(0); b.Loop(); i++ {
		if s.Own4(i << 8) {
			n++
		}
	}
	runtime.KeepAlive(n)
}

// A single change, a full re-list that changes nothing, and a new gateway MAC.
func BenchmarkApply(b *testing.B) {
	for _, routes := range []int{1000, scaleRoutes} {
		gw := readyGateway()
		table := New(scaleConfig(gw))
		all := scaleUpdate(routes)
		apply(b, table, all)
		b.Run(fmt.Sprintf("change/routes=%d", routes), func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				l := scaleLease(i % (routes - 1))
				l.Attrs.PublicIP = netip.AddrFrom4([4]byte{172, 18, byte(i >> 8), byte(i)})
				apply(b, table, lease.Update{Leases: []lease.Lease{l}})
			}
		})
		apply(b, table, all)
		b.Run(fmt.Sprintf("relist/routes=%d", routes), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				apply(b, table, all)
			}
		})
		b.Run(fmt.Sprintf("gateway/routes=%d", routes), func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				gw.nh.MAC[5] = byte(i)
				table.Refresh()
			}
		})
	}
}
