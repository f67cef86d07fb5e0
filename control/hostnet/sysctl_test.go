package hostnet

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCheckHost(t *testing.T) {
	fine := map[string]string{
		"net/ipv4/ip_forward":                   "1",
		"net/ipv6/conf/all/forwarding":          "1",
		"net/ipv4/conf/all/rp_filter":           "0",
		"net/ipv4/conf/eth0.7/rp_filter":        "0",
		"net/bridge/bridge-nf-call-iptables":    "1",
		"net/ipv4/conf/flannel0/rp_filter":      "1",
		"net/ipv6/conf/flannel0/addr_gen_mode":  "1",
		"net/ipv6/conf/flannel0/disable_ipv6":   "0",
		"net/ipv4/conf/flannel0/forwarding":     "1",
		"net/ipv4/conf/flannel0/accept_local":   "0",
		"net/ipv4/conf/flannel0/route_localnet": "0",
	}
	dual := Host{V4: true, V6: true, Underlay: "eth0.7", DirectRouting: true}
	tests := []struct {
		name string
		set  map[string]string // "-" removes
		host Host
		want []string // parts of cures
	}{
		{name: "all well", host: dual},
		{name: "no forwarding", set: map[string]string{"net/ipv4/ip_forward": "0"}, host: dual, want: []string{"net.ipv4.ip_forward=1"}},
		{name: "no forwarding of IPv6", set: map[string]string{"net/ipv6/conf/all/forwarding": "0"}, host: dual, want: []string{"net.ipv6.conf.all.forwarding=1"}},
		{name: "no forwarding of a family that is off", set: map[string]string{"net/ipv6/conf/all/forwarding": "0"}, host: Host{V4: true}},
		{
			name: "strict on the interface", set: map[string]string{"net/ipv4/conf/eth0.7/rp_filter": "1"}, host: dual,
			want: []string{"net.ipv4.conf.eth0/7.rp_filter=2"},
		},
		{
			name: "strict for all", set: map[string]string{"net/ipv4/conf/all/rp_filter": "1"}, host: dual,
			want: []string{"rp_filter=2"},
		},
		{
			name: "loose wins over strict", set: map[string]string{"net/ipv4/conf/all/rp_filter": "1", "net/ipv4/conf/eth0.7/rp_filter": "2"},
			host: dual,
		},
		{name: "strict without direct routing", set: map[string]string{"net/ipv4/conf/all/rp_filter": "1"}, host: Host{V4: true, Underlay: "eth0.7"}},
		{name: "strict, interface not known", set: map[string]string{"net/ipv4/conf/all/rp_filter": "1"}, host: Host{V4: true, DirectRouting: true}},
		{name: "br_netfilter not there", set: map[string]string{"net/bridge/bridge-nf-call-iptables": "-"}, host: dual, want: []string{"modprobe br_netfilter"}},
		{name: "br_netfilter off", set: map[string]string{"net/bridge/bridge-nf-call-iptables": "0"}, host: dual, want: []string{"bridge-nf-call-iptables=1"}},
		{
			name: "nothing readable", set: map[string]string{
				"net/ipv4/ip_forward": "-", "net/ipv6/conf/all/forwarding": "-",
				"net/ipv4/conf/all/rp_filter": "-", "net/ipv4/conf/eth0.7/rp_filter": "-",
			},
			host: dual, want: []string{"ip_forward", "all.forwarding"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			root := t.TempDir()
			for name, value := range fine {
				if v, ok := test.set[name]; ok {
					value = v
				}
				if value == "-" {
					continue
				}
				path := filepath.Join(root, name)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(value+"\n"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			got := checkHost(root, test.host)
			if len(got) != len(test.want) {
				t.Fatalf("advice %v, want %d pieces", got, len(test.want))
			}
			for i, a := range got {
				if a.What == "" || !strings.Contains(a.Cure, test.want[i]) {
					t.Errorf("advice %+v, want a cure with %q", a, test.want[i])
				}
			}
		})
	}
}

func TestCheckHostReadsItsNamespace(t *testing.T) {
	n := newNamespace(t)
	has := func() (found bool) {
		n.in(func() {
			for _, a := range CheckHost(Host{V4: true}) {
				found = found || strings.Contains(a.Cure, "ip_forward")
			}
		})
		return found
	}
	n.sysctl("net/ipv4/ip_forward", "0")
	if !has() {
		t.Error("no advice with forwarding off")
	}
	n.sysctl("net/ipv4/ip_forward", "1")
	if has() {
		t.Error("advice with forwarding on")
	}
}

func TestCheckOverlap(t *testing.T) {
	i := Interface{Name: "eth0", Addr4: addr("10.5.0.1"), Addr6: addr("fd00::1")}
	if err := CheckOverlap(i, prefix("10.6.0.0/16"), netip.Prefix{}, prefix("fd05::/48")); err != nil {
		t.Error(err)
	}
	for _, p := range []string{"10.5.0.0/16", "fd00::/16"} {
		if err := CheckOverlap(i, prefix(p)); !errors.Is(err, ErrConflict) || !strings.Contains(err.Error(), "eth0") {
			t.Errorf("%s: error %v", p, err)
		}
	}
	if err := CheckOverlap(Interface{}, prefix("10.5.0.0/16")); err != nil {
		t.Error(err)
	}
}
