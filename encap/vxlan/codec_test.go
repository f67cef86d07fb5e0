package vxlan

import (
	"errors"
	"flag"
	"net/netip"
	"testing"

	"github.com/gopacket/gopacket/layers"

	"flanx/encap"
	"flanx/encap/encaptest"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing with them")

func init() { layers.RegisterUDPPortLayerType(DefaultPort, layers.LayerTypeVXLAN) }

// Two nodes, each with a tunnel endpoint per family.
var (
	vtepA4 = encap.MAC{0xfa, 0, 0, 0, 0, 0xa4}
	vtepA6 = encap.MAC{0xfa, 0, 0, 0, 0, 0xa6}
	vtepB4 = encap.MAC{0xfa, 0, 0, 0, 0, 0xb4}
	vtepB6 = encap.MAC{0xfa, 0, 0, 0, 0, 0xb6}

	way4 = encap.Peer{
		Local:      netip.MustParseAddr("10.99.0.1"),
		Remote:     netip.MustParseAddr("10.99.0.2"),
		LocalMAC:   encap.MAC{2, 0, 0, 0, 0, 1},
		NextHopMAC: encap.MAC{2, 0, 0, 0, 0, 2},
		VTEP:       vtepB4,
	}
	way6 = encap.Peer{
		Local:      netip.MustParseAddr("fd00:99::1"),
		Remote:     netip.MustParseAddr("fd00:99::2"),
		LocalMAC:   encap.MAC{2, 0, 0, 0, 0, 1},
		NextHopMAC: encap.MAC{2, 0, 0, 0, 0, 2},
		VTEP:       vtepB6,
	}
)

func newCodec(tb testing.TB, cfg Config) *Codec {
	tb.Helper()
	c, err := New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

// nodes returns A's and B's codecs with cfg but for their addresses.
func nodes(tb testing.TB, cfg Config) (a, b *Codec) {
	cfg.VNI = DefaultVNI
	cfg.VTEP4, cfg.VTEP6 = vtepA4, vtepA6
	a = newCodec(tb, cfg)
	cfg.VTEP4, cfg.VTEP6 = vtepB4, vtepB6
	return a, newCodec(tb, cfg)
}

func suite(tb testing.TB, cfg Config, way encap.Peer, overhead int, golden string) encaptest.Suite {
	a, b := nodes(tb, cfg)
	return encaptest.Suite{
		Send: a, Recv: b, Layer: cfg.Layer, Way: way, Versions: []int{4, 6},
		Overhead: overhead, MTU: 1450, Golden: golden, Update: *update,
	}
}

func suites(tb testing.TB) map[string]encaptest.Suite {
	ethernet, datagram := Config{}, Config{Layer: encap.Datagram}
	return map[string]encaptest.Suite{
		"ethernet4":            suite(tb, ethernet, way4, 64, "../../testdata/encap/vxlan4.golden"),
		"ethernet6":            suite(tb, ethernet, way6, 84, "../../testdata/encap/vxlan6.golden"),
		"ethernet4-nochecksum": suite(tb, Config{NoChecksum: true}, way4, 64, "../../testdata/encap/vxlan4_nochecksum.golden"),
		"datagram4":            suite(tb, datagram, way4, 22, "../../testdata/encap/vxlan_datagram4.golden"),
		"datagram6":            suite(tb, datagram, way6, 22, "../../testdata/encap/vxlan_datagram6.golden"),
	}
}

func TestSuite(t *testing.T) {
	for name, s := range suites(t) {
		if name == "ethernet4-nochecksum" {
			continue
		}
		t.Run(name, s.Run)
	}
}

// TestSuiteWithoutChecksum leaves out what only a checksum can promise.
func TestSuiteWithoutChecksum(t *testing.T) {
	s := suites(t)["ethernet4-nochecksum"]
	s.NoChecksum = true
	s.Run(t)
}

func BenchmarkCodec(b *testing.B) {
	for name, s := range suites(b) {
		b.Run(name, s.Bench)
	}
	s := suite(b, Config{NoVerify: true}, way4, 64, "")
	b.Run("ethernet4-noverify", s.Bench)
}

func FuzzPopEthernet(f *testing.F) {
	seeds := readCapture(f)
	seeds = append(seeds, encaptest.ReadGolden(f, "../../testdata/encap/vxlan6.golden")...)
	seeds = append(seeds, encaptest.ReadGolden(f, "../../testdata/encap/vxlan4_nochecksum.golden")...)
	suites(f)["ethernet4"].Fuzz(f, seeds...)
}

func FuzzPopDatagram(f *testing.F) { suites(f)["datagram4"].Fuzz(f) }

func TestOverhead(t *testing.T) {
	v4 := Config{VTEP4: vtepA4}
	v6 := Config{VTEP6: vtepA6}
	both := Config{VTEP4: vtepA4, VTEP6: vtepA6}
	cases := map[string]struct {
		cfg       Config
		layer     encap.Layer
		frame, ip int
	}{
		"IPv4":              {v4, encap.Ethernet, 64, 50},
		"IPv6":              {v6, encap.Ethernet, 84, 70},
		"both":              {both, encap.Ethernet, 84, 70},
		"IPv4 on a socket":  {v4, encap.Datagram, 22, 50},
		"both on a socket":  {both, encap.Datagram, 22, 70},
		"IPv6 on a socket":  {v6, encap.Datagram, 22, 70},
		"with another port": {Config{VTEP4: vtepA4, Port: 4789}, encap.Ethernet, 64, 50},
	}
	for name, c := range cases {
		c.cfg.Layer = c.layer
		codec := newCodec(t, c.cfg)
		if codec.Overhead() != c.frame || codec.IPOverhead() != c.ip {
			t.Errorf("%s: Overhead = %d, IPOverhead = %d, want %d and %d", name, codec.Overhead(), codec.IPOverhead(), c.frame, c.ip)
		}
		if codec.Overhead() > encap.MaxOverhead {
			t.Errorf("%s: Overhead %d exceeds the contract's", name, codec.Overhead())
		}
	}
}

func TestNewRefuses(t *testing.T) {
	group := encap.MAC{1}
	for name, cfg := range map[string]Config{
		"a layer that is none":       {VTEP4: vtepA4, Layer: 2},
		"a VNI of 25 bits":           {VTEP4: vtepA4, VNI: 1 << 24},
		"no VTEP":                    {},
		"a group's VTEP":             {VTEP4: group},
		"a group's VTEP over IPv6":   {VTEP4: vtepA4, VTEP6: group},
		"source ports backwards":     {VTEP4: vtepA4, SrcPortMin: 2, SrcPortMax: 1},
		"source port zero":           {VTEP4: vtepA4, SrcPortMax: 1},
		"an MTU below the headers":   {VTEP4: vtepA4, MTU: 69},
		"an MTU below IPv6's":        {VTEP6: vtepA6, MTU: 109},
		"an MTU below zero":          {VTEP4: vtepA4, MTU: -1},
		"an MTU good for IPv4 alone": {VTEP4: vtepA4, VTEP6: vtepA6, MTU: 100},
	} {
		if c, err := New(cfg); !errors.Is(err, ErrConfig) || c != nil {
			t.Errorf("%s: %v, %v", name, c, err)
		}
	}
}

func TestCompileRefuses(t *testing.T) {
	only4 := Config{VTEP4: vtepA4}
	both := Config{VTEP4: vtepA4, VTEP6: vtepA6}
	bend := func(p encap.Peer, f func(*encap.Peer)) encap.Peer { f(&p); return p }
	cases := map[string]struct {
		cfg  Config
		peer encap.Peer
		want error
	}{
		"IPv6 where only IPv4 is spoken": {only4, way6, encap.ErrFamily},
		"no address":                     {both, bend(way4, func(p *encap.Peer) { p.Remote = netip.Addr{} }), encap.ErrFamily},
		"no source":                      {both, bend(way4, func(p *encap.Peer) { p.Local = netip.Addr{} }), encap.ErrFamily},
		"mixed families":                 {both, bend(way4, func(p *encap.Peer) { p.Local = way6.Local }), encap.ErrFamily},
		"no VTEP":                        {both, bend(way4, func(p *encap.Peer) { p.VTEP = encap.MAC{} }), ErrVTEP},
		"a group's VTEP":                 {both, bend(way4, func(p *encap.Peer) { p.VTEP = encap.MAC{1} }), ErrVTEP},
		"our own VTEP":                   {both, bend(way6, func(p *encap.Peer) { p.VTEP = vtepA6 }), ErrVTEP},
	}
	for name, c := range cases {
		path, err := newCodec(t, c.cfg).Compile(c.peer)
		if !errors.Is(err, c.want) || path.Ready {
			t.Errorf("%s: %v, ready %v; want %v", name, err, path.Ready, c.want)
		}
	}
}

func TestCompileOnASocketNeedsNoSource(t *testing.T) {
	peer := way4
	peer.Local = netip.Addr{}
	path, err := newCodec(t, Config{VTEP4: vtepA4, Layer: encap.Datagram}).Compile(peer)
	if err != nil || !path.Ready || path.PeerPort != DefaultPort || path.Peer != way4.Remote.As16() {
		t.Errorf("Compile = %+v, %v", path, err)
	}
}
