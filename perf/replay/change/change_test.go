package change

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"flanx/encap/header"
)

// udp4 and tcp6 have right checksums.
func udp4(t testing.TB) []byte {
	t.Helper()
	b := make([]byte, 33)
	header.IPv4(b).Encode(header.IPv4Fields{TotalLength: 33, TTL: 64, Protocol: header.ProtocolUDP, Src: [4]byte{10, 0, 0, 1}, Dst: [4]byte{10, 1, 2, 3}})
	copy(b[20:], []byte{0x03, 0xe8, 0x00, 0x35, 0, 13, 0, 0, 'h', 'e', 'l', 'l', 'o'})
	(&Rules{Repair: true}).Edit(b, 0)
	mustHold(t, b)
	return b
}

func tcp6(t testing.TB) []byte {
	t.Helper()
	b := make([]byte, 60)
	header.IPv6(b).Encode(header.IPv6Fields{
		PayloadLength: 20, NextHeader: header.ProtocolTCP, HopLimit: 3,
		Src: netip.MustParseAddr("fd00::1").As16(), Dst: netip.MustParseAddr("fd00::2").As16(),
	})
	copy(b[40:], []byte{0, 80, 1, 187, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x18})
	(&Rules{Repair: true}).Edit(b, 0)
	mustHold(t, b)
	return b
}

// mustHold verifies both checksums.
func mustHold(t testing.TB, b []byte) {
	t.Helper()
	v, ok := parse(b)
	if !ok {
		t.Fatal("no packet")
	}
	if !v.v6 && !header.Valid(b[:20], 0) {
		t.Error("IPv4 checksum does not hold")
	}
	if end, _ := v.end(); !header.Valid(b[v.l4:end], v.pseudo(end-v.l4)) {
		t.Error("transport checksum does not hold")
	}
}

func TestEdit(t *testing.T) {
	netMap, err := ParseNetMap("10.1.0.0/16=192.168.0.0/16")
	if err != nil {
		t.Fatal(err)
	}
	portMap, err := ParsePortMap("53=5353")
	if err != nil {
		t.Fatal(err)
	}
	b := udp4(t)
	(&Rules{Nets: []NetMap{netMap}, Ports: []PortMap{portMap}, TTL: 7, Unique: true}).Edit(b, 2)
	mustHold(t, b)
	h := header.IPv4(b)
	if h.Src() != [4]byte{10, 0, 0, 3} || h.Dst() != [4]byte{192, 168, 2, 5} || h.TTL() != 7 || binary.BigEndian.Uint16(b[22:]) != 5353 {
		t.Errorf("%v → %v, TTL %d, %x", h.Src(), h.Dst(), h.TTL(), b[20:24])
	}
}

func TestEdit6(t *testing.T) {
	m, err := ParseNetMap("fd00::/64=fd00:0:0:9::/64")
	if err != nil {
		t.Fatal(err)
	}
	b := tcp6(t)
	(&Rules{Nets: []NetMap{m}, Ports: []PortMap{{443, 8443}}, TTL: 99}).Edit(b, 0)
	mustHold(t, b)
	h := header.IPv6(b)
	if got := netip.AddrFrom16(h.Dst()); got != netip.MustParseAddr("fd00:0:0:9::2") || h.HopLimit() != 99 {
		t.Errorf("to %s, hop limit %d", got, h.HopLimit())
	}
}

// A wrong checksum stays wrong: only Repair makes it right.
func TestWrongStaysWrong(t *testing.T) {
	b := udp4(t)
	b[26]++
	(&Rules{Nets: []NetMap{{netip.MustParsePrefix("10.1.2.3/32"), netip.MustParsePrefix("10.9.9.9/32")}}}).Edit(b, 0)
	if header.Valid(b[20:], header.IPv4(b).PseudoSum(header.ProtocolUDP, 13)) {
		t.Error("a change blessed a wrong checksum")
	}
	(&Rules{Repair: true}).Edit(b, 0)
	mustHold(t, b)
}

// UDP without a checksum stays without, and a fragment's bytes are no ports.
func TestLeftAlone(t *testing.T) {
	b := udp4(t)
	b[26], b[27] = 0, 0
	rules := &Rules{Nets: []NetMap{{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("11.0.0.0/8")}}, Ports: []PortMap{{53, 54}}}
	rules.Edit(b, 0)
	if b[26] != 0 || b[27] != 0 || b[0+12] != 11 {
		t.Errorf("%x", b)
	}
	b = udp4(t)
	binary.BigEndian.PutUint16(b[6:], 5) // a later fragment
	before := bytes.Clone(b[20:])
	rules.Edit(b, 0)
	if !bytes.Equal(b[20:], before) {
		t.Errorf("the payload of a fragment was changed: %x", b[20:])
	}
}

func TestRepairsLength(t *testing.T) {
	b := udp4(t)
	header.IPv4(b).SetTotalLength(0)
	(&Rules{Repair: true}).Edit(b, 0)
	mustHold(t, b)
	if header.IPv4(b).TotalLength() != 33 {
		t.Errorf("length %d", header.IPv4(b).TotalLength())
	}
}

func TestRulesRefused(t *testing.T) {
	for _, s := range []string{"", "10.0.0.0/8", "10.0.0.0/8=10.0.0.0/9", "10.0.0.0/8=fd00::/8", "x=y"} {
		if _, err := ParseNetMap(s); !errors.Is(err, ErrRule) {
			t.Errorf("%q: %v", s, err)
		}
	}
	for _, s := range []string{"", "1", "1=", "1=65536", "a=b"} {
		if _, err := ParsePortMap(s); !errors.Is(err, ErrRule) {
			t.Errorf("%q: %v", s, err)
		}
	}
}

func TestExpr(t *testing.T) {
	tests := []struct {
		expr           string
		udp, tcp, none bool // what passes
	}{
		{"ip", true, false, false},
		{"ip6", false, true, false},
		{"udp or tcp", true, true, false},
		{"not udp", false, true, true},
		{"! udp && ip6", false, true, false},
		{"udp port 53", true, false, false},
		{"tcp port 53", false, false, false},
		{"src port 53", false, false, false},
		{"dst port 53", true, false, false},
		{"portrange 50-90", true, true, false},
		{"host 10.0.0.1", true, false, false},
		{"dst host 10.0.0.1", false, false, false},
		{"src 10.0.0.1", true, false, false},
		{"net 10.1.0.0/16", true, false, false},
		{"src net fd00::/8", false, true, false},
		{"proto 17", true, false, false},
		{"greater 50", false, true, false},
		{"less 50", true, false, false},
		{"tcp and port 1 or udp", true, false, false},
		{"tcp and (port 1 or ip6)", false, true, false},
	}
	for _, tt := range tests {
		t.Run(tt.expr, func(t *testing.T) {
			e, err := Parse(tt.expr)
			if err != nil {
				t.Fatal(err)
			}
			if a, b, c := e.Match(udp4(t)), e.Match(tcp6(t)), e.Match(nil); a != tt.udp || b != tt.tcp || c != tt.none {
				t.Errorf("udp %v, tcp %v, none %v", a, b, c)
			}
		})
	}
}

func TestExprRefused(t *testing.T) {
	for _, s := range []string{
		"", "and", "udp and", "(udp", "udp)", "udp tcp", "host", "host x", "port 99999", "portrange 9-1",
		"proto 256", "ether host 1", "not", strings.Repeat("(", 5000),
	} {
		if _, err := Parse(s); !errors.Is(err, ErrRule) {
			t.Errorf("%q: %v", s, err)
		}
	}
}

func TestAnd(t *testing.T) {
	a, _ := Parse("ip")
	b, _ := Parse("port 53")
	if And() != nil || And(nil, a) != a || !And(a, b).Match(udp4(t)) || And(a, b.Not()).Match(udp4(t)) {
		t.Error("And is not and")
	}
}

func FuzzEdit(f *testing.F) {
	f.Add(udp4(f), 1)
	f.Add(tcp6(f), 0)
	f.Add(append([]byte{0x60, 0, 0, 0, 0, 0, 0, 0}, make([]byte, 60)...), 3)
	e, err := Parse("port 5 or not net 10.0.0.0/8 or tcp")
	if err != nil {
		f.Fatal(err)
	}
	rules := &Rules{
		Nets:  []NetMap{{netip.MustParsePrefix("0.0.0.0/1"), netip.MustParsePrefix("128.0.0.0/1")}, {netip.MustParsePrefix("::/3"), netip.MustParsePrefix("2000::/3")}},
		Ports: []PortMap{{0, 1}}, TTL: 1, Repair: true, Unique: true,
	}
	f.Fuzz(func(t *testing.T, ip []byte, loop int) {
		n := len(ip)
		e.Match(ip)
		rules.Edit(ip, loop)
		if len(ip) != n {
			t.Error("the length changed")
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add("tcp and (port 1 or ip6)")
	f.Fuzz(func(_ *testing.T, s string) {
		if e, err := Parse(s); err == nil {
			e.Match(nil)
		}
	})
}

func TestAllocs(t *testing.T) {
	b := udp4(t)
	e, _ := Parse("udp port 53 and net 10.0.0.0/8")
	rules := &Rules{Nets: []NetMap{{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("10.0.0.0/8")}}, TTL: 9, Unique: true}
	if n := testing.AllocsPerRun(100, func() { e.Match(b); rules.Edit(b, 1) }); n != 0 {
		t.Errorf("%v allocations per packet", n)
	}
}

func BenchmarkEdit(b *testing.B) {
	p := udp4(b)
	rules := &Rules{TTL: 9, Unique: true}
	b.ReportAllocs()
	for b.Loop() {
		rules.Edit(p, 1)
	}
}
