package fib

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"testing"

	"flanx/control/lease"
	"flanx/dataplane/packet"
	"flanx/encap"
)

// fakeCodec writes what it was asked for into the header, so that tests can
// read it back: VTEP, next hop's MAC, own MAC, remote.
type fakeCodec struct {
	v4only bool
	layer  encap.Layer
}

var errNoPath = errors.New("no path")

func (fakeCodec) Overhead() int                    { return 0 }
func (fakeCodec) Push(*packet.Batch, []encap.Path) {}
func (fakeCodec) Pop(*packet.Batch)                {}

func (c fakeCodec) Compile(p encap.Peer) (encap.Path, error) {
	if c.v4only && !p.Remote.Is4() {
		return encap.Path{}, encap.ErrFamily
	}
	if !p.Local.IsValid() || p.Port == 0 {
		return encap.Path{}, errNoPath
	}
	path := encap.Path{Len: 34, PeerPort: p.Port, Peer: p.Remote.As16()}
	copy(path.Header[0:], p.VTEP[:])
	copy(path.Header[6:], p.NextHopMAC[:])
	copy(path.Header[12:], p.LocalMAC[:])
	copy(path.Header[18:], path.Peer[:])
	path.Ready = c.layer == encap.Datagram || !p.NextHopMAC.IsZero()
	return path, nil
}

// pathMACs reads back what fakeCodec wrote.
func pathMACs(p *encap.Path) (vtep, nextHop, local encap.MAC) {
	copy(vtep[:], p.Header[0:])
	copy(nextHop[:], p.Header[6:])
	copy(local[:], p.Header[12:])
	return vtep, nextHop, local
}

// fakeNextHops is told by the test what is known, and checks that what is
// tracked and untracked makes sense.
type fakeNextHops struct {
	tb      testing.TB
	mu      sync.Mutex
	known   map[netip.Addr]NextHop
	tracked map[netip.Addr]bool
	changed func([]netip.Addr)
}

func newFakeNextHops(tb testing.TB) *fakeNextHops {
	return &fakeNextHops{tb: tb, known: map[netip.Addr]NextHop{}, tracked: map[netip.Addr]bool{}}
}

func (f *fakeNextHops) Track(a netip.Addr) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.tracked[a] {
		f.tb.Errorf("%v tracked twice", a)
	}
	f.tracked[a] = true
}

func (f *fakeNextHops) Untrack(a netip.Addr) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.tracked[a] {
		f.tb.Errorf("%v untracked, but was not tracked", a)
	}
	delete(f.tracked, a)
}

func (f *fakeNextHops) NextHop(a netip.Addr) NextHop {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.tracked[a] {
		f.tb.Errorf("asked for %v, which is not tracked", a)
	}
	return f.known[a]
}

func (f *fakeNextHops) Watch(changed func([]netip.Addr)) { f.changed = changed }

// set changes what is known of a, and tells.
func (f *fakeNextHops) set(a netip.Addr, nh NextHop) {
	f.mu.Lock()
	f.known[a] = nh
	f.mu.Unlock()
	f.changed([]netip.Addr{a})
}

// The test's overlay: 10.5.0.0/16 and fd00:5::/48, our share of it is number
// 200, our addresses on the underlay end in 200.
var (
	testNet4 = netip.MustParsePrefix("10.5.0.0/16")
	testNet6 = netip.MustParsePrefix("fd00:5::/48")
	testOwn  = lease.Subnets{V4: netip.MustParsePrefix("10.5.200.0/24"), V6: netip.MustParsePrefix("fd00:5:0:c8::/64")}
	testMAC  = encap.MAC{2, 0, 0, 0, 0, 200}
)

func testConfig(nh NextHops) Config {
	return Config{
		Fast:        fakeCodec{layer: encap.Ethernet},
		Fallback:    fakeCodec{layer: encap.Datagram},
		Local4:      netip.MustParseAddr("192.0.2.200"),
		Local6:      netip.MustParseAddr("2001:db8::c8"),
		Public4:     netip.MustParseAddr("198.51.100.200"),
		Port:        8472,
		Own:         testOwn,
		Network:     testNet4,
		IPv6Network: testNet6,
		BackendType: "vxlan",
		VTEP:        parseVTEP,
		NextHops:    nh,
	}
}

// parseVTEP reads a MAC given as a number.
func parseVTEP(data json.RawMessage) (encap.MAC, error) {
	var n uint64
	if err := json.Unmarshal(data, &n); err != nil {
		return encap.MAC{}, fmt.Errorf("parse vtep: %w", err)
	}
	return macOf(n), nil
}

func macOf(n uint64) (m encap.MAC) {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], n)
	copy(m[:], b[2:])
	return m
}

// testLease is a lease as node n would write it: subnets "10.5.n.0/24" and so
// on are given by the caller, empty for none.
func testLease(v4, v6 string, n byte) lease.Lease {
	l := lease.Lease{Revision: 1}
	l.Attrs.BackendType = "vxlan"
	if v4 != "" {
		l.Subnets.V4 = netip.MustParsePrefix(v4)
		l.Attrs.PublicIP = netip.AddrFrom4([4]byte{192, 0, 2, n})
		l.Attrs.BackendData = json.RawMessage(fmt.Sprint(int(n)))
	}
	if v6 != "" {
		l.Subnets.V6 = netip.MustParsePrefix(v6)
		l.Attrs.PublicIPv6 = netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 15: n})
		l.Attrs.BackendV6Data = json.RawMessage(fmt.Sprint(0x600 + int(n)))
	}
	return l
}

// apply fails the test when Apply does.
func apply(tb testing.TB, t *Table, u lease.Update) {
	tb.Helper()
	if err := t.Apply(u); err != nil {
		tb.Fatalf("Apply: %v", err)
	}
}

// hopOf returns the underlay address that an inner address leads to, or the
// zero Addr.
func hopOf(s *Snapshot, inner string) netip.Addr {
	hop, ok := lookup(s, netip.MustParseAddr(inner))
	if !ok {
		return netip.Addr{}
	}
	return netip.AddrFrom16(s.Hops[hop].Peer).Unmap()
}

func lookup(s *Snapshot, a netip.Addr) (uint32, bool) {
	if a.Is4() {
		b := a.As4()
		return s.Lookup4(binary.BigEndian.Uint32(b[:]))
	}
	return s.Lookup6(a.As16())
}
