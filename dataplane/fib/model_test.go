package fib

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"flanx/control/lease"
	"flanx/encap"
)

// model is what a Table should do, done slowly: a list of claims in order of
// arrival, searched from end to end.
type model struct {
	claims []modelClaim
}

type modelClaim struct {
	subnets lease.Subnets
	prefix  netip.Prefix
	to      endpoint
}

func (m *model) apply(u lease.Update) {
	for _, s := range u.Removed {
		m.claims = slices.DeleteFunc(m.claims, func(c modelClaim) bool { return c.subnets == s })
	}
	for _, l := range u.Leases {
		m.put(l, l.Subnets.V4, l.Attrs.PublicIP, l.Attrs.BackendData)
		m.put(l, l.Subnets.V6, l.Attrs.PublicIPv6, l.Attrs.BackendV6Data)
	}
	if u.Snapshot {
		m.claims = slices.DeleteFunc(m.claims, func(c modelClaim) bool {
			return !slices.ContainsFunc(u.Leases, func(l lease.Lease) bool { return l.Subnets == c.subnets })
		})
	}
}

func (m *model) put(l lease.Lease, p netip.Prefix, peer netip.Addr, data []byte) {
	if !p.IsValid() || l.Subnets == testOwn {
		return
	}
	i := slices.IndexFunc(m.claims, func(c modelClaim) bool { return c.subnets == l.Subnets && c.prefix == p })
	vtep, err := parseVTEP(data)
	if err != nil || vtep.IsZero() || !m.good(p, peer) {
		if i >= 0 {
			m.claims = slices.Delete(m.claims, i, i+1)
		}
		return
	}
	if c := (modelClaim{l.Subnets, p, endpoint{peer, vtep}}); i >= 0 {
		m.claims[i] = c
	} else {
		m.claims = append(m.claims, c)
	}
}

// good knows what the generator makes.
func (m *model) good(p netip.Prefix, peer netip.Addr) bool {
	net, own := testNet4, testOwn.V4
	if p.Addr().Is6() {
		net, own = testNet6, testOwn.V6
	}
	inside := net.Bits() <= p.Bits() && net.Contains(p.Addr())
	ours := own.Bits() <= p.Bits() && own.Contains(p.Addr())
	last := peer.AsSlice()[len(peer.AsSlice())-1]
	return inside && !ours && last != 200 && !peer.IsLoopback()
}

func (m *model) lookup(a netip.Addr) (best modelClaim, ok bool) {
	longest := -1
	for _, own := range []netip.Prefix{testOwn.V4, testOwn.V6} {
		if own.Contains(a) {
			longest = own.Bits()
		}
	}
	for _, c := range m.claims {
		if c.prefix.Contains(a) && c.prefix.Bits() > longest {
			longest, best, ok = c.prefix.Bits(), c, true
		}
	}
	return best, ok
}

func (m *model) peers() map[netip.Addr]bool {
	peers := map[netip.Addr]bool{}
	for _, c := range m.claims {
		peers[c.to.peer] = true
	}
	return peers
}

// world drives a Table and a model with the same choices.
type world struct {
	choose func(n int) int
	nh     *fakeNextHops
	table  *Table
	model  model
}

func newWorld(tb testing.TB, choose func(n int) int) *world {
	nh := newFakeNextHops(tb)
	return &world{choose: choose, nh: nh, table: New(testConfig(nh))}
}

// The prefixes overlap in many ways, and lie in, over and beside our own.
var (
	worldV4 = []string{
		"", "10.5.0.0/16", "10.5.0.0/20", "10.5.1.0/24", "10.5.1.128/25", "10.5.1.129/32", "10.5.2.0/24",
		"10.5.200.0/24", "10.5.200.64/26", "10.5.200.0/23", "10.5.192.0/20", "10.6.0.0/24", "10.5.3.0/24", "10.5.4.0/24",
	}
	worldV6 = []string{
		"", "", "", "fd00:5::/48", "fd00:5:0:1::/64", "fd00:5:0:1:8000::/65", "fd00:5:0:2::/64",
		"fd00:5:0:c8::/64", "fd00:5:0:c8:1::/80", "fd00:5:0:c0::/60", "fd00:6::/64",
	}
)

func (w *world) lease() lease.Lease {
	node := byte(1 + w.choose(5))
	if w.choose(12) == 0 {
		node = 200 // our own address
	}
	l := testLease(worldV4[w.choose(len(worldV4))], worldV6[w.choose(len(worldV6))], node)
	switch w.choose(16) {
	case 0:
		l.Attrs.BackendData = []byte("junk")
	case 1:
		l.Attrs.PublicIPv6 = netip.IPv6Loopback()
	}
	return l
}

func (w *world) step() {
	var u lease.Update
	switch w.choose(8) {
	case 0:
		u.Snapshot = true
		for _, c := range w.model.claims { // most stay
			if w.choose(4) > 0 {
				u.Leases = append(u.Leases, w.again(c))
			}
		}
		fallthrough
	case 1, 2, 3:
		for range 1 + w.choose(4) {
			u.Leases = append(u.Leases, w.lease())
		}
	case 4, 5:
		for _, c := range w.model.claims {
			if w.choose(5) == 0 {
				u.Removed = append(u.Removed, c.subnets)
			}
		}
	case 6:
		w.nextHop()
		return
	case 7:
		w.table.Refresh()
		return
	}
	if err := w.table.Apply(u); err != nil {
		w.nh.tb.Fatalf("Apply: %v", err)
	}
	w.model.apply(u)
}

// again makes a lease for the same subnets.
func (w *world) again(c modelClaim) lease.Lease {
	l := w.lease()
	l.Subnets = c.subnets
	if c.subnets.V4.IsValid() && !l.Attrs.PublicIP.IsValid() {
		l.Attrs.PublicIP = netip.MustParseAddr("192.0.2.9")
	}
	if c.subnets.V6.IsValid() && !l.Attrs.PublicIPv6.IsValid() {
		l.Attrs.PublicIPv6 = netip.MustParseAddr("2001:db8::9")
	}
	return l
}

func (w *world) nextHop() {
	peers := slices.SortedFunc(func(yield func(netip.Addr) bool) {
		for a := range w.model.peers() {
			if !yield(a) {
				return
			}
		}
	}, netip.Addr.Compare)
	if len(peers) == 0 {
		return
	}
	w.nh.set(peers[w.choose(len(peers))], NextHop{
		Known: w.choose(3) > 0, LocalMAC: testMAC, MAC: encap.MAC{2, byte(w.choose(256))}, MTU: 1400 + w.choose(2),
	})
}

// check compares the two at every edge of every prefix, and what is behind.
func (w *world) check() error {
	s := w.table.Load()
	for _, list := range [][]string{worldV4, worldV6} {
		for _, str := range list {
			if str == "" {
				continue
			}
			p := netip.MustParsePrefix(str)
			first, last := p.Addr(), lastOf(p)
			for _, a := range []netip.Addr{first.Prev(), first, last, last.Next()} {
				if err := w.checkAddr(s, a); err != nil {
					return err
				}
			}
		}
	}
	if peers := w.model.peers(); len(peers) != len(w.nh.tracked) {
		return fmt.Errorf("tracking %v, want %v", w.nh.tracked, peers)
	}
	return nil
}

func (w *world) checkAddr(s *Snapshot, a netip.Addr) error {
	i, ok := lookup(s, a)
	want, wantOK := w.model.lookup(a)
	if ok != wantOK {
		return fmt.Errorf("%v: found %v, want %v (%v)", a, ok, wantOK, want)
	}
	if !ok {
		return nil
	}
	nh := w.nh.known[want.to.peer]
	hop := s.Hops[i]
	if hop.Peer != want.to.peer.As16() || hop.Ready != nh.Known || hop.MTU != uint32(nh.MTU) {
		return fmt.Errorf("%v: hop %+v, want %+v by %+v", a, hop, want, nh)
	}
	if vtep, _, _ := pathMACs(&s.Fallback[i]); vtep != want.to.vtep {
		return fmt.Errorf("%v: fallback vtep %x, want %x", a, vtep, want.to.vtep)
	}
	if _, next, _ := pathMACs(&s.Fast[i]); nh.Known && next != nh.MAC || !nh.Known && !next.IsZero() {
		return fmt.Errorf("%v: next hop %x, want %+v", a, next, nh)
	}
	return nil
}

func lastOf(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for bit := p.Bits(); bit < len(b)*8; bit++ {
		b[bit/8] |= 0x80 >> (bit % 8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

func TestAgainstModel(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 1))
		w := newWorld(t, r.IntN)
		for n := range 150 {
			w.step()
			if err := w.check(); err != nil {
				t.Fatalf("seed %d, step %d: %v", seed, n, err)
			}
		}
	}
}

func FuzzApply(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12})
	f.Add([]byte("snapshots, rivals and removals"))
	f.Add(binary.BigEndian.AppendUint64(nil, 0xFFFFFFFFFFFFFFFF))
	f.Fuzz(func(t *testing.T, data []byte) {
		w := newWorld(t, func(n int) int {
			if len(data) == 0 {
				return 0
			}
			b := int(data[0])
			data = data[1:]
			return b % n
		})
		for n := 0; n < 200 && len(data) > 0; n++ {
			w.step()
			if err := w.check(); err != nil {
				t.Fatalf("step %d: %v", n, err)
			}
		}
	})
}
