package hostnet

import (
	"errors"
	"net"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// addrs parses addresses divided by spaces.
func addrs(s string) []netip.Addr {
	var all []netip.Addr
	for f := range strings.FieldsSeq(s) {
		all = append(all, addr(f))
	}
	return all
}

// testHost has two cards, each with both families, and a third without address.
func testHost() host {
	dev := func(index int, name, v4, v6 string) nic {
		n := nic{index: index, name: name, mtu: 1500, v4: addrs(v4), v6: addrs(v6)}
		n.all = slices.Concat(n.v4, n.v6)
		return n
	}
	lo := dev(1, "lo", "", "")
	lo.all = addrs("127.0.0.1 ::1 10.7.7.7")
	eth0 := dev(2, "eth0", "10.0.0.1 10.0.0.2", "fd00::1 fd00::2 fe80::1")
	eth0.all = append(eth0.all, addr("10.0.0.9")) // deprecated
	eth2 := dev(4, "eth2", "", "")
	return host{
		nics:    []nic{lo, eth0, dev(3, "eth1", "192.168.1.1 10.7.7.7", "fd01::1"), eth2},
		routes4: []defaultRoute{{2, 0}, {3, 100}},
		routes6: []defaultRoute{{2, 1024}},
	}
}

func TestPick(t *testing.T) {
	v4 := Options{V4: true}
	v6 := Options{V6: true}
	dual := Options{V4: true, V6: true}
	with := func(o Options, set func(*Options)) Options { set(&o); return o }

	tests := []struct {
		name    string
		options Options
		host    func(*host)
		want    string // name addr4 addr6 public4 public6
		how     string
		others  []string
		err     error
		says    []string
	}{
		{
			name: "default route, lowest metric", options: v4,
			want: "eth0 10.0.0.1 - 10.0.0.1 -", how: "default route", others: []string{"eth1"},
		},
		{name: "default route, IPv6", options: v6, want: "eth0 - fd00::1 - fd00::1", how: "default route"},
		{name: "default route, both families", options: dual, want: "eth0 10.0.0.1 fd00::1 10.0.0.1 fd00::1", others: []string{"eth1"}},
		{
			name: "default routes of both families on different interfaces", options: dual,
			host: func(h *host) { h.routes6 = []defaultRoute{{3, 1024}} },
			err:  ErrAmbiguous, says: []string{"IPv4 (eth0) and IPv6 (eth1)", "-iface", "10.0.0.1"},
		},
		{
			name: "two equal default routes", options: v4,
			host: func(h *host) { h.routes4 = []defaultRoute{{2, 50}, {3, 50}} },
			err:  ErrAmbiguous, says: []string{"eth0 and eth1", "-iface"},
		},
		{
			name: "two equal default routes on one interface", options: v4,
			host: func(h *host) { h.routes4 = []defaultRoute{{3, 50}, {3, 50}} },
			want: "eth1 192.168.1.1 - 192.168.1.1 -",
		},
		{
			name: "no default route", options: v4, host: func(h *host) { h.routes4 = nil },
			err: ErrNoInterface, says: []string{"no IPv4 default route", "-iface", "eth1 [192.168.1.1"},
		},
		{
			name: "no default route, dual stack lacks IPv6", options: dual, host: func(h *host) { h.routes6 = nil },
			err: ErrNoInterface, says: []string{"no IPv6 default route"},
		},
		{
			name: "default route's interface is gone", options: v4, host: func(h *host) { h.routes4 = []defaultRoute{{77, 0}} },
			err: ErrNoInterface, says: []string{"gone"},
		},
		{
			name: "public IP on an interface", options: with(v4, func(o *Options) { o.PublicIP = addr("192.168.1.1") }),
			want: "eth1 192.168.1.1 - 192.168.1.1 -", how: "-public-ip 192.168.1.1",
		},
		{
			name: "public IP on no interface", options: with(v4, func(o *Options) { o.PublicIP = addr("203.0.113.9") }),
			err: ErrNoInterface, says: []string{"-public-ip 203.0.113.9", "NAT", "-iface", "eth0"},
		},
		{
			name: "public IPv6 on an interface", options: with(v6, func(o *Options) { o.PublicIPv6 = addr("fd01::1") }),
			want: "eth1 - fd01::1 - fd01::1",
		},
		{
			name: "public IP does not choose once an interface is named", // issue 1978
			options: with(v4, func(o *Options) {
				o.Ifaces, o.PublicIP = []string{"eth1"}, addr("203.0.113.9")
			}),
			want: "eth1 192.168.1.1 - 203.0.113.9 -", how: "-iface eth1",
		},
		{
			name: "public IP on two interfaces", options: with(v4, func(o *Options) { o.PublicIP = addr("10.7.7.7") }),
			err: ErrAmbiguous, says: []string{"lo and eth1"},
		},
		{name: "by address", options: with(v4, func(o *Options) { o.Ifaces = []string{"10.0.0.2"} }), want: "eth0 10.0.0.2 - 10.0.0.2 -"},
		{
			name: "by deprecated address", options: with(v4, func(o *Options) { o.Ifaces = []string{"10.0.0.9"} }),
			want: "eth0 10.0.0.9 - 10.0.0.9 -",
		},
		{
			name: "by IPv4 address in IPv6 form", options: with(v4, func(o *Options) { o.Ifaces = []string{"::ffff:10.0.0.2"} }),
			want: "eth0 10.0.0.2 - 10.0.0.2 -",
		},
		{
			name: "by IPv4 address, dual stack", options: with(dual, func(o *Options) { o.Ifaces = []string{"10.0.0.2"} }),
			want: "eth0 10.0.0.2 fd00::1 10.0.0.2 fd00::1",
		},
		{
			name: "by IPv4 address, dual stack, public IPv6 local",
			options: with(dual, func(o *Options) {
				o.Ifaces, o.PublicIPv6 = []string{"10.0.0.2"}, addr("fd00::2")
			}),
			want: "eth0 10.0.0.2 fd00::2 10.0.0.2 fd00::2",
		},
		{
			name: "by IPv4 address, dual stack, public IPv6 elsewhere",
			options: with(dual, func(o *Options) {
				o.Ifaces, o.PublicIPv6 = []string{"10.0.0.2"}, addr("2001:db8::1")
			}),
			want: "eth0 10.0.0.2 fd00::1 10.0.0.2 2001:db8::1",
		},
		{
			name: "by IPv6 address, dual stack", options: with(dual, func(o *Options) { o.Ifaces = []string{"fd00::2"} }),
			want: "eth0 10.0.0.1 fd00::2 10.0.0.1 fd00::2",
		},
		{
			name: "by address of the other family", options: with(v4, func(o *Options) { o.Ifaces = []string{"fd00::1"} }),
			err: ErrNoInterface, says: []string{"-iface fd00::1", "family"},
		},
		{
			name: "by address on two interfaces", options: with(v4, func(o *Options) { o.Ifaces = []string{"10.7.7.7"} }),
			err: ErrAmbiguous, says: []string{"-iface 10.7.7.7", "lo and eth1"},
		},
		{
			name:    "first -iface that is there",
			options: with(v4, func(o *Options) { o.Ifaces = []string{"wlan0", "eth2", "eth1", "eth0"} }),
			want:    "eth1 192.168.1.1 - 192.168.1.1 -", how: "-iface eth1",
		},
		{
			name: "-iface before -iface-regex",
			options: with(v4, func(o *Options) {
				o.Regexes, o.Ifaces = []string{"eth0"}, []string{"eth1"}
			}),
			want: "eth1 192.168.1.1 - 192.168.1.1 -",
		},
		{
			name: "none is there",
			options: with(v4, func(o *Options) {
				o.Ifaces, o.Regexes = []string{"wlan0", "eth2"}, []string{"^wl", "["}
			}),
			err: ErrNoInterface,
			says: []string{
				"-iface wlan0: no interface of that name", "-iface eth2: eth2 has no usable IPv4 address",
				"-iface-regex ^wl: matches no address", "-iface-regex [: not a regular expression", "eth0 [10.0.0.1",
			},
		},
		{
			name: "regex over addresses before names", options: with(v4, func(o *Options) { o.Regexes = []string{`^192\.168\.|eth0`} }),
			want: "eth1 192.168.1.1 - 192.168.1.1 -", how: `-iface-regex ^192\.168\.|eth0`,
		},
		{
			name: "regex takes the matching address", options: with(v4, func(o *Options) { o.Regexes = []string{`0\.2$`} }),
			want: "eth0 10.0.0.2 - 10.0.0.2 -",
		},
		{
			name: "regex over names, first by index", options: with(v4, func(o *Options) { o.Regexes = []string{`^eth\d$`} }),
			want: "eth0 10.0.0.1 - 10.0.0.1 -", others: []string{"eth1", "eth2"},
		},
		{
			name: "regex over addresses, dual stack wants both", options: with(dual, func(o *Options) { o.Regexes = []string{`^192\.168|^fd01`} }),
			want: "eth1 192.168.1.1 fd01::1 192.168.1.1 fd01::1",
		},
		{
			name: "regex over one family's addresses does not match a dual stack", options: with(dual, func(o *Options) { o.Regexes = []string{`^192\.168`} }),
			err: ErrNoInterface,
		},
		{
			name: "second regex", options: with(v4, func(o *Options) { o.Regexes = []string{"^wl", "eth1"} }),
			want: "eth1 192.168.1.1 - 192.168.1.1 -",
		},
		{
			name: "can reach", options: with(v4, func(o *Options) { o.CanReach = addr("192.168.1.77") }),
			host: func(h *host) { h.reach = reach{index: 3, src: addr("10.7.7.7")} },
			want: "eth1 10.7.7.7 - 10.7.7.7 -", how: "-iface-can-reach 192.168.1.77",
		},
		{
			name: "can reach, dual stack", options: with(dual, func(o *Options) { o.CanReach = addr("fd01::77") }),
			host: func(h *host) { h.reach = reach{index: 3, src: addr("fd01::1")} },
			want: "eth1 192.168.1.1 fd01::1 192.168.1.1 fd01::1",
		},
		{
			name: "can reach only itself", options: with(v4, func(o *Options) { o.CanReach = addr("10.0.0.1") }),
			host: func(h *host) { h.reach = reach{index: 1, src: addr("10.0.0.1"), local: true} },
			err:  ErrNoInterface, says: []string{"own address"},
		},
		{
			name: "cannot reach", options: with(v4, func(o *Options) { o.CanReach = addr("192.0.2.1") }),
			host: func(h *host) { h.reach = reach{err: unix.ENETUNREACH} },
			err:  ErrNoInterface, says: []string{"-iface-can-reach 192.0.2.1", "unreachable"},
		},
		{
			name: "can reach comes last",
			options: with(v4, func(o *Options) {
				o.CanReach, o.Regexes = addr("192.168.1.77"), []string{"eth0"}
			}),
			host: func(h *host) { h.reach = reach{index: 3, src: addr("192.168.1.1")} },
			want: "eth0 10.0.0.1 - 10.0.0.1 -",
		},
		{
			name: "no MTU", options: with(v4, func(o *Options) { o.Ifaces = []string{"eth0"} }),
			host: func(h *host) { h.nics[1].mtu = 0 },
			err:  ErrNoInterface, says: []string{"eth0 has no MTU"},
		},
		{
			name: "no interfaces at all", options: v4, host: func(h *host) { *h = host{} },
			err: ErrNoInterface, says: []string{"there are: none"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			h := testHost()
			if test.host != nil {
				test.host(&h)
			}
			got, err := h.pick(test.options)
			if !errors.Is(err, test.err) || (err == nil) != (test.err == nil) {
				t.Fatalf("error %v, want %v", err, test.err)
			}
			for _, s := range test.says {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("error %q does not say %q", err, s)
				}
			}
			if err != nil {
				return
			}
			if s := summary(got); s != test.want {
				t.Errorf("got %s, want %s", s, test.want)
			}
			if test.how != "" && got.How != test.how {
				t.Errorf("how %q, want %q", got.How, test.how)
			}
			if !slices.Equal(got.Others, test.others) {
				t.Errorf("others %v, want %v", got.Others, test.others)
			}
		})
	}
}

func summary(i Interface) string {
	parts := []string{i.Name}
	for _, a := range []netip.Addr{i.Addr4, i.Addr6, i.Public4, i.Public6} {
		if a.IsValid() {
			parts = append(parts, a.String())
		} else {
			parts = append(parts, "-")
		}
	}
	return strings.Join(parts, " ")
}

func TestPreferAddr(t *testing.T) {
	mk := func(s string, flags int) netlink.Addr {
		return netlink.Addr{IPNet: &net.IPNet{IP: addr(s).AsSlice()}, Flags: flags}
	}
	const permanent, temporary, deprecated = unix.IFA_F_PERMANENT, unix.IFA_F_TEMPORARY, unix.IFA_F_DEPRECATED
	in := []netlink.Addr{
		mk("fe80::1", permanent),
		mk("fe80::2", 0),
		mk("fd00::1", temporary),
		mk("fd00::2", 0),
		mk("fd00::3", permanent|deprecated),
		mk("fd00::4", permanent),
		mk("fd00::5", permanent),
		mk("ff02::1", permanent),
		mk("::1", permanent),
	}
	slices.SortStableFunc(in, preferAddr)
	var n nic
	for _, a := range in {
		n.add(a)
	}
	if want := addrs("fd00::4 fd00::5 fd00::2 fd00::1 fe80::1 fe80::2"); !reflect.DeepEqual(n.v6, want) {
		t.Errorf("usable addresses %v, want %v", n.v6, want)
	}
	if len(n.all) != len(in) {
		t.Errorf("%d addresses kept, want all %d", len(n.all), len(in))
	}
}

func TestListIsBounded(t *testing.T) {
	h := host{nics: make([]nic, 5000)}
	if s := h.list(); len(s) > 200 || !strings.HasSuffix(s, "and 4984 more") {
		t.Errorf("list of 5000 interfaces: %.300s", s)
	}
}

func TestPickNeedsAFamily(t *testing.T) {
	if _, err := PickInterface(Options{}); err == nil || !strings.Contains(err.Error(), "neither IPv4 nor IPv6") {
		t.Errorf("error %v", err)
	}
}
