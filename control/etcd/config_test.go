package etcd

import (
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"flanx/control/lease"
)

func TestConfig(t *testing.T) {
	plain := []string{"http://127.0.0.1:2379"}
	for _, c := range []struct {
		name string
		cfg  Config
		says string
	}{
		{"flannel's defaults", Config{Endpoints: []string{"http://127.0.0.1:4001", "http://127.0.0.1:2379"}}, ""},
		{"bare", Config{Endpoints: []string{"127.0.0.1:2379", "[::1]:2379", "etcd.example:2379"}}, ""},
		{"bare with TLS", Config{Endpoints: []string{"127.0.0.1:2379"}, TLS: TLS{CAFile: "ca"}}, ""},
		{"https without files", Config{Endpoints: []string{"https://127.0.0.1:2379"}}, ""},
		{"socket beside https", Config{Endpoints: []string{"unix:///run/etcd", "https://127.0.0.1:2379"}}, ""},
		{"none", Config{}, "no etcd endpoint"},
		{"empty", Config{Endpoints: []string{""}}, "scheme://host:port"},
		{"no host", Config{Endpoints: []string{"http://"}}, "scheme://host:port"},
		{"no path", Config{Endpoints: []string{"unix://"}}, "path"},
		{"scheme", Config{Endpoints: []string{"ftp://127.0.0.1"}}, "ftp"},
		{"password in URL", Config{Endpoints: []string{"http://me:secret@127.0.0.1:2379"}}, "scheme://host:port"},
		{"mixed", Config{Endpoints: []string{"http://127.0.0.1:4001", "https://127.0.0.1:2379"}}, "differ"},
		{"TLS files but http", Config{Endpoints: plain, TLS: TLS{CAFile: "ca"}}, "not protected"},
		{"cert without key", Config{Endpoints: plain, TLS: TLS{CertFile: "cert"}}, "belong together"},
		{"user without password", Config{Endpoints: plain, Username: "me"}, "belong together"},
		{"margin over TTL", Config{Endpoints: plain, TTL: time.Hour, Margin: time.Hour}, "margin"},
		{"negative margin", Config{Endpoints: plain, Margin: -1}, "margin"},
		{"short TTL", Config{Endpoints: plain, TTL: time.Millisecond}, "TTL"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := c.cfg.check()
			switch {
			case c.says == "" && err != nil:
				t.Errorf("refused: %v", err)
			case c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)):
				t.Errorf("error is %v, want one that says %q", err, c.says)
			case c.says == "" && (got.TTL != 24*time.Hour || got.Margin != time.Hour || got.configKey() != "/coreos.com/network/config"):
				t.Errorf("defaults are %+v", got)
			}
		})
	}
}

func TestNewRefusesMissingFiles(t *testing.T) {
	for name, files := range map[string]TLS{
		"CA":          {CAFile: "/nonexistent/ca.pem"},
		"certificate": {CertFile: "/nonexistent/cert.pem", KeyFile: "/nonexistent/key.pem"},
		"not PEM":     {CAFile: "config_test.go"},
	} {
		_, err := New(Config{Endpoints: []string{"https://127.0.0.1:2379"}, TLS: files})
		if err == nil || !strings.Contains(err.Error(), files.CAFile+files.CertFile) {
			t.Errorf("%s: error is %v, want one that names the file", name, err)
		}
	}
}

func TestPrefixIsJoinedAsFlannelDoes(t *testing.T) {
	for prefix, want := range map[string]string{
		"":                  "/coreos.com/network/subnets/",
		"/a/b":              "/a/b/subnets/",
		"/a/b/":             "/a/b/subnets/",
		"no/leading/slash":  "no/leading/slash/subnets/",
		"/double//slash/..": "/double/subnets/",
	} {
		c, err := Config{Endpoints: []string{"127.0.0.1:1"}, Prefix: prefix}.check()
		if err != nil || c.subnetsPrefix() != want {
			t.Errorf("prefix %q gives %q, %v, want %q", prefix, c.subnetsPrefix(), err, want)
		}
	}
}

// Setting the wall clock cannot be tried here; that the times carry the
// monotonic clock can, and with it Go compares by that alone.
func TestRenewalIsOnTheMonotonicClock(t *testing.T) {
	s := &Store{cfg: Config{Margin: time.Hour}}
	if at := s.renewAt(time.Now().Add(24 * time.Hour)); !strings.Contains(at.String(), "m=") {
		t.Errorf("renewal at %s: without the monotonic clock", at)
	}
}

func TestRenewalTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Store{cfg: Config{Margin: time.Hour}}
		expires := time.Now().Add(24 * time.Hour)
		at := s.renewAt(expires)
		if got := time.Until(at); got != 23*time.Hour {
			t.Errorf("renewal in %s, want 23h", got)
		}
		if got := time.Until(s.renewAt(time.Time{})); got != 0 {
			t.Errorf("renewal of a lease with unknown end in %s, want now", got)
		}
		if got := time.Until(s.renewAt(time.Now().Add(30 * time.Minute))); got != 10*time.Minute {
			t.Errorf("renewal of a lease below the margin in %s, want a third of its time", got)
		}
	})
}

func TestOwnPrefersProofThenWish(t *testing.T) {
	cfg, err := lease.ParseConfig([]byte(`{"Network":"10.5.0.0/16"}`))
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := netip.MustParseAddr("10.99.0.1"), netip.MustParseAddr("10.99.0.2")
	at := func(third byte, public netip.Addr, id int64) entry {
		s := lease.Subnets{V4: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 5, third, 0}), 24)}
		return entry{lease: lease.Lease{Subnets: s, Attrs: lease.Attrs{PublicIP: public}}, etcd: id}
	}
	broken := at(8, ours, 80)
	broken.err = errRace
	outside := at(0, ours, 90) // below SubnetMin
	all := []entry{broken, outside, at(1, theirs, 10), at(2, ours, 20), at(3, ours, 30), at(4, theirs, 40)}
	for _, c := range []struct {
		name string
		last lease.Lease
		want byte // 0: none
		ip   netip.Addr
	}{
		{"first of ours", lease.Lease{}, 2, ours},
		{"the wished one of ours", lease.Lease{Subnets: all[4].lease.Subnets}, 3, ours},
		{"a wish for a foreign one", lease.Lease{Subnets: all[2].lease.Subnets}, 2, ours},
		{"proof", lease.Lease{Subnets: all[4].lease.Subnets, ID: 40}, 4, ours},
		{"outdated proof", lease.Lease{ID: 99}, 2, ours},
		{"unknown node", lease.Lease{Subnets: all[2].lease.Subnets}, 0, netip.MustParseAddr("10.99.0.3")},
	} {
		e, found := own(all, cfg, c.ip, c.last)
		if found != (c.want != 0) || found && e.lease.Subnets.V4.Addr().As4()[2] != c.want {
			t.Errorf("%s: %s, %v, want 10.5.%d.0/24", c.name, e.lease.Subnets, found, c.want)
		}
	}
}
