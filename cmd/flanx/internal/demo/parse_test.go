package demo

import (
	"bytes"
	"errors"
	"log/slog"
	"maps"
	"net/netip"
	"testing"
)

func TestParseLogLine(t *testing.T) {
	tests := []struct {
		name, line string
		want       map[string]string
	}{
		{"empty", "", map[string]string{}},
		{"plain", "a=1 b=two", map[string]string{"a": "1", "b": "two"}},
		{"quoted", `a="x y" b="say \"hi\"" c=3`, map[string]string{"a": "x y", "b": `say "hi"`, "c": "3"}},
		{"an equals sign in quotes", `a="b=c d=e" f=g`, map[string]string{"a": "b=c d=e", "f": "g"}},
		{"empty value", "a= b=1", map[string]string{"a": "", "b": "1"}},
		{"no pairs", "panic: something broke", map[string]string{}},
		{"words before a pair", "panic: x a=1", map[string]string{"a": "1"}},
		{"a quote without end", `a="open b=1`, map[string]string{"a": `"open`, "b": "1"}},
	}
	for _, tt := range tests {
		if got := parseLogLine(tt.line); !maps.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// What slog writes we must read back.
func FuzzParseLogLine(f *testing.F) {
	f.Add("native copy", "driver says no: \"EOPNOTSUPP\" = 95")
	f.Add("", "\n\x00=")
	f.Fuzz(func(t *testing.T, granted, why string) {
		var out bytes.Buffer
		slog.New(slog.NewTextHandler(&out, nil)).Info(wayMessage, "granted", granted, "why", why)
		got := parseLogLine(string(bytes.TrimSuffix(out.Bytes(), []byte("\n"))))
		if got["msg"] != wayMessage || got["granted"] != string([]rune(granted)) && got["granted"] != granted {
			t.Errorf("%q read as %v", out.String(), got)
		}
	})
}

func TestGranted(t *testing.T) {
	line := func(granted, why string) string {
		return `time=x level=INFO msg="way on the wire" asked=native granted="` + granted + `" why="` + why + `"`
	}
	tests := []struct {
		name, way, why string
		logs           [][]string
	}{
		{"nobody told", "", "", [][]string{{"other"}, nil}},
		{"all the same", "native copy", "no zero-copy", [][]string{{line("native copy", "no zero-copy"), "later"}, {line("native copy", "no zero-copy")}}},
		{"the last one counts", "generic", "x", [][]string{{line("native", "y"), line("generic", "x")}}},
		{"they differ", "generic / native copy", "a", [][]string{{line("native copy", "")}, {line("generic", "a")}}},
	}
	for _, tt := range tests {
		if way, why := granted(tt.logs...); way != tt.way || why != tt.why {
			t.Errorf("%s: %q, %q", tt.name, way, why)
		}
	}
}

func TestParseSubnet(t *testing.T) {
	good := "FLANNEL_NETWORK=10.5.0.0/16\nFLANNEL_SUBNET=10.5.72.1/24\nFLANNEL_MTU=1450\nFLANNEL_IPMASQ=true\n"
	s, err := parseSubnet([]byte(good))
	if err != nil || s.node() != netip.MustParseAddr("10.5.72.0") || s.pod() != netip.MustParseAddr("10.5.72.2") || s.mtu != 1450 {
		t.Errorf("%+v, %v", s, err)
	}
	for name, text := range map[string]string{
		"empty":       "",
		"no mtu":      "FLANNEL_NETWORK=10.5.0.0/16\nFLANNEL_SUBNET=10.5.72.1/24\n",
		"bad network": "FLANNEL_NETWORK=10.5.0.0\nFLANNEL_SUBNET=10.5.72.1/24\nFLANNEL_MTU=1450\n",
		"bad mtu":     "FLANNEL_NETWORK=10.5.0.0/16\nFLANNEL_SUBNET=10.5.72.1/24\nFLANNEL_MTU=x\n",
		"mtu zero":    "FLANNEL_NETWORK=10.5.0.0/16\nFLANNEL_SUBNET=10.5.72.1/24\nFLANNEL_MTU=0\n",
	} {
		if s, err := parseSubnet([]byte(text)); !errors.Is(err, errSubnetFile) {
			t.Errorf("%s: %+v, %v", name, s, err)
		}
	}
}

func FuzzParseSubnet(f *testing.F) {
	f.Add([]byte("FLANNEL_NETWORK=10.5.0.0/16\nFLANNEL_SUBNET=10.5.72.1/24\nFLANNEL_MTU=1450\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, err := parseSubnet(b); err == nil && (!s.node().IsValid() || s.mtu <= 0) {
			t.Errorf("%q accepted as %+v", b, s)
		}
	})
}

func TestLast(t *testing.T) {
	for in, want := range map[string]string{
		"10.244.0.0/16": "10.244.255.255",
		"10.5.72.1/24":  "10.5.72.255",
		"10.0.0.0/9":    "10.127.255.255",
		"1.2.3.4/32":    "1.2.3.4",
		"fd00::/64":     "fd00::ffff:ffff:ffff:ffff",
	} {
		if got := last(netip.MustParsePrefix(in)); got != netip.MustParseAddr(want) {
			t.Errorf("last(%s) = %s, want %s", in, got, want)
		}
	}
}
