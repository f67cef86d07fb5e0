package lease

import (
	"net/netip"
	"strings"
	"testing"
)

func subnets(t testing.TB, v4, v6 string) (s Subnets) {
	t.Helper()
	if v4 != "" {
		s.V4 = netip.MustParsePrefix(v4)
	}
	if v6 != "" {
		s.V6 = netip.MustParsePrefix(v6)
	}
	return s
}

func TestKeyGolden(t *testing.T) {
	for _, c := range []struct{ name, v4, v6, key string }{
		{"ipv4", "10.5.1.0/24", "", "10.5.1.0-24"},
		{"dual stack", "10.5.39.0/24", "fd05:0:0:23::/64", "10.5.39.0-24&fd05:0:0:23::-64"},
		{"longest", "255.255.255.252/30", "fd05:1111:2222:3333:4444:5555:6666:7774/126", "255.255.255.252-30&fd05:1111:2222:3333:4444:5555:6666:7774-126"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := subnets(t, c.v4, c.v6)
			if got, err := s.Key(); err != nil || got != c.key {
				t.Errorf("Key() = %q, %v, want %q", got, err, c.key)
			}
			if got, err := ParseKey(c.key); err != nil || got != s {
				t.Errorf("ParseKey(%q) = %v, %v, want %v", c.key, got, err, s)
			}
		})
	}
}

func TestKeyNeedsIPv4(t *testing.T) {
	if key, err := subnets(t, "", "fd05::/64").Key(); err == nil {
		t.Errorf("Key() without IPv4 = %q, want an error", key)
	}
}

func TestParseKeyRefusesWhatKeyDoesNotWrite(t *testing.T) {
	for _, key := range []string{
		"", "foo", "garbage-24", "10.5.1.0", "10.5.1.0-", "10.5.1.0-33", "10.5.1.0--1", "10.5.1.0-24-old",
		"10.5.1.7-24", "010.5.1.0-24", "10.5.1.0-024", "10.5.1.0/24", " 10.5.1.0-24", "10.5.1.0-24 ",
		"10.5.1.0-24&", "10.5.1.0-24&foo", "10.5.1.0-24&fd05::-129", "10.5.1.0-24&FD05::-64",
		"10.5.1.0-24&fd05:0:0:0::-64", "10.5.1.0-24&::ffff:10.5.1.0-120", "fd05::-64", "10.5.1.0-24&10.5.1.0-24",
		"10.5.1.0-24&fe80::%eth0-64", "10.5.1.0-24/sub", strings.Repeat("1", 1<<16), "10.5.1.0-99999999999999999999",
	} {
		if s, err := ParseKey(key); err == nil {
			t.Errorf("ParseKey(%.80q) = %v, want an error", key, s)
		} else if len(err.Error()) > 400 {
			t.Errorf("ParseKey(%.80q): message has %d bytes", key, len(err.Error()))
		}
	}
}

func TestClaim(t *testing.T) {
	for _, c := range []struct{ name, key, v4, v6 string }{
		{"well formed", "10.5.1.0-24", "10.5.1.0/24", ""},
		{"host bits", "10.5.1.7-24", "10.5.1.0/24", ""},
		{"impossible length", "10.5.1.0-33", "10.5.1.0/32", ""},
		{"no length", "10.5.1.9", "10.5.1.9/32", ""},
		{"endless length", "10.5.1.0-99999999999999999999", "10.5.1.0/32", ""},
		{"trailing text", "10.5.1.0-24-old", "10.5.1.0/24", ""},
		{"broken second half", "10.5.1.0-24&what", "10.5.1.0/24", ""},
		{"broken first half", "what&fd05::-64", "", "fd05::/64"},
		{"everything", "0.0.0.0-0", "0.0.0.0/0", ""},
		{"nobody can tell", "foo", "", ""},
		{"mapped address", "::ffff:10.5.1.0-120", "", ""},
		{"zone", "10.5.1.0-24&fe80::%eth0-64", "10.5.1.0/24", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got, want := Claim(c.key), subnets(t, c.v4, c.v6); got != want {
				t.Errorf("Claim(%q) = %v, want %v", c.key, got, want)
			}
		})
	}
}

func TestSubnetsString(t *testing.T) {
	for want, s := range map[string]Subnets{
		"none":                  {},
		"10.5.1.0/24":           subnets(t, "10.5.1.0/24", ""),
		"fd05::/64":             subnets(t, "", "fd05::/64"),
		"10.5.1.0/24,fd05::/64": subnets(t, "10.5.1.0/24", "fd05::/64"),
	} {
		if got := s.String(); got != want {
			t.Errorf("String() = %q, want %q", got, want)
		}
	}
}

func TestSubnetsOverlaps(t *testing.T) {
	dual := subnets(t, "10.5.1.0/24", "fd05:0:0:1::/64")
	for _, c := range []struct {
		name, v4, v6 string
		want         bool
	}{
		{"same", "10.5.1.0/24", "fd05:0:0:1::/64", true},
		{"only v6 in common", "10.5.2.0/24", "fd05:0:0:1::/64", true},
		{"inside", "10.5.1.128/25", "", true},
		{"around", "10.5.0.0/16", "", true},
		{"apart", "10.5.2.0/24", "fd05:0:0:2::/64", false},
		{"nothing", "", "", false},
	} {
		if got := dual.Overlaps(subnets(t, c.v4, c.v6)); got != c.want {
			t.Errorf("%s: Overlaps = %v, want %v", c.name, got, c.want)
		}
	}
}

func FuzzKey(f *testing.F) {
	f.Add("10.5.1.0-24")
	f.Add("10.5.39.0-24&fd05:0:0:23::-64")
	f.Add("10.5.1.0-33")
	f.Add("&-")
	f.Fuzz(func(t *testing.T, key string) {
		claim := Claim(key)
		s, err := ParseKey(key)
		if err != nil {
			return
		}
		if s != claim {
			t.Errorf("ParseKey says %v, Claim %v", s, claim)
		}
		if got, err := s.Key(); err != nil || got != key {
			t.Errorf("%q came back as %q, %v", key, got, err)
		}
		if s.V4 != s.V4.Masked() || s.V6.IsValid() && s.V6 != s.V6.Masked() {
			t.Errorf("%v has host bits", s)
		}
	})
}
