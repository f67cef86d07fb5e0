package lease

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

func TestFree(t *testing.T) {
	small := config(t, `,"SubnetMin":"10.5.1.0","SubnetMax":"10.5.5.0"`)
	for _, c := range []struct {
		name  string
		taken []string // keys, also malformed ones
		limit int
		want  string
	}{
		{"empty", nil, 100, "1 2 3 4 5"},
		{"limit", nil, 2, "1 2"},
		{"holes", []string{"10.5.2.0-24", "10.5.4.0-24"}, 100, "1 3 5"},
		{"smaller range inside", []string{"10.5.2.128-25", "10.5.3.7-32"}, 100, "1 4 5"},
		{"wider range around", []string{"10.5.2.0-23"}, 100, "1 4 5"},
		{"nested ranges", []string{"10.5.2.0-23", "10.5.2.0-24", "10.5.2.0-30", "10.5.3.0-24"}, 100, "1 4 5"},
		{"malformed keys", []string{"10.5.1.0-33", "10.5.5.9-24-old", "foo"}, 100, "2 3 4"},
		{"outside", []string{"10.4.0.0-16", "192.168.0.0-16"}, 100, "1 2 3 4 5"},
		{"everything", []string{"0.0.0.0-0"}, 100, ""},
		{"whole network", []string{"10.5.0.0-16"}, 100, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var taken []Subnets
			for _, key := range c.taken {
				taken = append(taken, Claim(key))
			}
			v4, v6 := small.Free(taken, c.limit)
			var got []string
			for _, p := range v4 {
				got = append(got, fmt.Sprint(p.Addr().As4()[2]))
			}
			if s := strings.Join(got, " "); s != c.want || v6 != nil {
				t.Errorf("free: %q and %v, want %q", s, v6, c.want)
			}
		})
	}
}

// The plain way to find free subnets: try every one against every range.
func freeSlowly(c NetworkConfig, taken []Subnets) (out []netip.Prefix) {
	for a := c.SubnetMin; !c.SubnetMax.Less(a); {
		p := netip.PrefixFrom(a, c.SubnetLen)
		if !slices.ContainsFunc(taken, func(s Subnets) bool { return s.V4.Overlaps(p) }) {
			out = append(out, p)
		}
		a = lastAddr(p).Next()
	}
	return out
}

func TestFreeAgainstModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		c := config(t, fmt.Sprintf(`,"SubnetLen":%d`, 20+rng.IntN(5)))
		var taken []Subnets
		for range rng.IntN(40) {
			a := netip.AddrFrom4([4]byte{10, byte(4 + rng.IntN(3)), byte(rng.IntN(256)), byte(rng.IntN(256))})
			taken = append(taken, Subnets{V4: netip.PrefixFrom(a, 17+rng.IntN(16))})
		}
		got, _ := c.Free(taken, 1<<20)
		if want := freeSlowly(c, taken); !slices.Equal(got, want) {
			t.Fatalf("taken %v\ngot  %v\nwant %v", taken, got, want)
		}
	}
}

func TestFreeOfHugeNetworkIsQuick(t *testing.T) {
	c, err := ParseConfig([]byte(`{"EnableIPv4":false,"EnableIPv6":true,"IPv6Network":"fd00::/8"}`))
	if err != nil {
		t.Fatal(err)
	}
	_, v6 := c.Free([]Subnets{{V6: netip.MustParsePrefix("fd00::/9")}}, 1)
	if len(v6) != 1 || v6[0].String() != "fd80::/64" {
		t.Errorf("got %v, want fd80::/64", v6)
	}
}

func TestFits(t *testing.T) {
	v4 := config(t, `,"SubnetMin":"10.5.2.0","SubnetMax":"10.5.9.0"`)
	dual := config(t, `,"EnableIPv6":true,"IPv6Network":"fd05::/48"`)
	for _, c := range []struct {
		name   string
		cfg    NetworkConfig
		v4, v6 string
		want   bool
	}{
		{"first", v4, "10.5.2.0/24", "", true},
		{"last", v4, "10.5.9.0/24", "", true},
		{"below", v4, "10.5.1.0/24", "", false},
		{"above", v4, "10.5.10.0/24", "", false},
		{"length", v4, "10.5.2.0/25", "", false},
		{"none", v4, "", "", false},
		{"family too many", v4, "10.5.2.0/24", "fd05:0:0:1::/64", false},
		{"both", dual, "10.5.2.0/24", "fd05:0:0:1::/64", true},
		{"family missing", dual, "10.5.2.0/24", "", false},
		{"v6 below", dual, "10.5.2.0/24", "fd05::/64", false},
	} {
		if err := c.cfg.Fits(subnets(t, c.v4, c.v6)); (err == nil) != c.want {
			t.Errorf("%s: Fits = %v, want %v", c.name, err, c.want)
		}
	}
}

func TestCheckPeer(t *testing.T) {
	v4 := config(t, "")
	dual := config(t, `,"EnableIPv6":true,"IPv6Network":"fd05::/48"`)
	for _, c := range []struct {
		name   string
		cfg    NetworkConfig
		v4, v6 string
		public string
		want   bool
	}{
		{"good", v4, "10.5.2.0/24", "", "10.99.0.1", true},
		{"other length", v4, "10.5.2.0/26", "", "10.99.0.1", true},
		{"v6 where none is enabled", v4, "10.5.2.0/24", "fd06::/64", "10.99.0.1", true},
		{"only v4 of two", dual, "10.5.2.0/24", "", "10.99.0.1", true},
		{"outside", v4, "10.6.2.0/24", "", "10.99.0.1", false},
		{"whole network", v4, "10.5.0.0/16", "", "10.99.0.1", false},
		{"default route", v4, "0.0.0.0/0", "", "10.99.0.1", false},
		{"half the internet", v4, "0.0.0.0/1", "", "10.99.0.1", false},
		{"tunnel in itself", v4, "10.5.2.0/24", "", "10.5.7.1", false},
		{"no subnet", v4, "", "", "10.99.0.1", false},
		{"v6 outside", dual, "10.5.2.0/24", "fd06::/64", "10.99.0.1", false},
	} {
		l := Lease{Subnets: subnets(t, c.v4, c.v6), Attrs: Attrs{PublicIP: netip.MustParseAddr(c.public)}}
		if err := c.cfg.CheckPeer(l); (err == nil) != c.want {
			t.Errorf("%s: CheckPeer = %v, want %v", c.name, err, c.want)
		}
	}
}

func BenchmarkFree(b *testing.B) {
	c := config(b, "")
	var taken []Subnets
	for i := range 200 {
		taken = append(taken, Subnets{V4: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 5, byte(i), 0}), 24)})
	}
	for b.Loop() {
		c.Free(taken, 100)
	}
}
