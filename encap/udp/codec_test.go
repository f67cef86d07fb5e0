package udp

import (
	"errors"
	"flag"
	"net/netip"
	"testing"

	"flanx/encap"
	"flanx/encap/encaptest"
	"flanx/encap/header"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing with them")

var way = encap.Peer{
	Local:      netip.MustParseAddr("10.99.0.1"),
	Remote:     netip.MustParseAddr("10.99.0.2"),
	LocalMAC:   encap.MAC{2, 0, 0, 0, 0, 1},
	NextHopMAC: encap.MAC{2, 0, 0, 0, 0, 2},
}

func newCodec(tb testing.TB, cfg Config) *Codec {
	tb.Helper()
	c, err := New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

func suites(tb testing.TB) map[string]encaptest.Suite {
	suite := func(layer encap.Layer, overhead int, golden string) encaptest.Suite {
		c := newCodec(tb, Config{Layer: layer})
		return encaptest.Suite{
			Send: c, Recv: c, Layer: layer, Way: way, Versions: []int{4}, Hops: 2,
			Overhead: overhead, MTU: 1472, Golden: golden, Update: *update,
		}
	}
	return map[string]encaptest.Suite{
		"ethernet": suite(encap.Ethernet, 42, "../../testdata/encap/udp.golden"),
		"datagram": suite(encap.Datagram, 0, ""),
	}
}

func TestSuite(t *testing.T) {
	for name, s := range suites(t) {
		t.Run(name, s.Run)
	}
}

func BenchmarkCodec(b *testing.B) {
	for name, s := range suites(b) {
		b.Run(name, s.Bench)
	}
	s := suites(b)["ethernet"]
	s.Recv = newCodec(b, Config{NoVerify: true})
	b.Run("ethernet-noverify", s.Bench)
}

func FuzzPopEthernet(f *testing.F) { suites(f)["ethernet"].Fuzz(f) }
func FuzzPopDatagram(f *testing.F) { suites(f)["datagram"].Fuzz(f) }

func TestOverhead(t *testing.T) {
	for layer, want := range map[encap.Layer]int{encap.Ethernet: 42, encap.Datagram: 0} {
		c := newCodec(t, Config{Layer: layer})
		if c.Overhead() != want || c.IPOverhead() != 28 {
			t.Errorf("layer %d: Overhead = %d, IPOverhead = %d, want %d and 28", layer, c.Overhead(), c.IPOverhead(), want)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	for name, cfg := range map[string]Config{
		"a layer that is none": {Layer: 2},
		"an MTU below headers": {MTU: 47},
		"a negative MTU":       {MTU: -1},
	} {
		if c, err := New(cfg); !errors.Is(err, ErrConfig) || c != nil {
			t.Errorf("%s: %v, %v", name, c, err)
		}
	}
}

func TestCompileRefuses(t *testing.T) {
	v6 := netip.MustParseAddr("fd00::1")
	cases := map[string]struct {
		layer         encap.Layer
		local, remote netip.Addr
	}{
		"an IPv6 peer":               {encap.Ethernet, way.Local, v6},
		"an IPv6 peer on a socket":   {encap.Datagram, way.Local, v6},
		"an IPv6 source":             {encap.Ethernet, v6, way.Remote},
		"a peer without an address":  {encap.Ethernet, way.Local, netip.Addr{}},
		"no source for whole frames": {encap.Ethernet, netip.Addr{}, way.Remote},
	}
	for name, c := range cases {
		p, err := newCodec(t, Config{Layer: c.layer}).Compile(encap.Peer{Local: c.local, Remote: c.remote})
		if !errors.Is(err, encap.ErrFamily) || p.Ready {
			t.Errorf("%s: %v, ready %v", name, err, p.Ready)
		}
	}
}

func TestCompileTakesMappedAddresses(t *testing.T) {
	p := way
	p.Local = netip.AddrFrom16(way.Local.As16())
	p.Remote = netip.AddrFrom16(way.Remote.As16())
	c := newCodec(t, Config{})
	got, err := c.Compile(p)
	want, _ := c.Compile(way)
	if err != nil || got != want {
		t.Errorf("Compile = %v, %v, want %v", got, err, want)
	}
}

// TestWire holds what flannel's proxy puts on the wire: the ports, TTL, DF.
func TestWire(t *testing.T) {
	for name, c := range map[string]struct {
		config, peer, src, dst uint16
	}{
		"default":          {0, 0, 8285, 8285},
		"configured":       {4790, 0, 4790, 4790},
		"peer of its own":  {4790, 9999, 4790, 9999},
		"default and peer": {0, 9999, 8285, 9999},
	} {
		t.Run(name, func(t *testing.T) {
			p := way
			p.Port = c.peer
			path, err := newCodec(t, Config{Port: c.config}).Compile(p)
			if err != nil {
				t.Fatal(err)
			}
			ip := header.IPv4(path.Header[header.EthernetLen:])
			u := header.UDP(ip[header.IPv4Len:])
			if u.SrcPort() != c.src || u.DstPort() != c.dst || path.PeerPort != c.dst {
				t.Errorf("ports %d to %d, PeerPort %d", u.SrcPort(), u.DstPort(), path.PeerPort)
			}
			if ip.TTL() != 64 || ip.TOS() != 0 || ip.Fragment() != header.IPv4DontFragment || ip.ID() != 0 {
				t.Errorf("TTL %d TOS %d fragment %#x ID %d", ip.TTL(), ip.TOS(), ip.Fragment(), ip.ID())
			}
		})
	}
}
