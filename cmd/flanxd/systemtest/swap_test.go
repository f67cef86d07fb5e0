package systemtest

import (
	"fmt"
	"net/netip"
	"os"
	"testing"

	"flanx/perf/lab"
)

// ttl is how long flannel's leases live, in seconds.
const ttl = 24 * 60 * 60

// A node on which flanneld ran is taken over in place: same subnet, same MAC, and
// the other nodes need not notice. What we write is what flanneld would have.
func TestSwapInPlace(t *testing.T) {
	parallel(t)
	w := newWorld(t, lab.Wire{}, vxlan, "ours", "kernel")
	subnet := netip.MustParsePrefix("10.244.72.0/24")
	before := newKernelPeer(w, w.hosts[0], subnet, "fa:b7:dd:78:7f:f6")
	peer := newKernelPeer(w, w.hosts[1], netip.MustParsePrefix("10.244.9.0/24"), "5a:00:00:00:00:09")
	peer.learn(subnet, w.hosts[0].Addr(), before.mac)
	before.learn(peer.subnet, w.hosts[1].Addr(), peer.mac)
	ping(t, peer.host, peer.addr(), node(subnet), 56)

	d := w.start(w.hosts[0], "-ip-masq")
	if d.subnet != subnet {
		t.Fatalf("took subnet %s, want to keep %s", d.subnet, subnet)
	}
	if hasDevice(d.host, "flannel.1") {
		t.Error("flannel.1 is still there")
	}
	reach(t, peer.host, peer.addr(), node(subnet))
	ping(t, peer.host, peer.addr(), node(subnet), 1422)
	ping(t, d.host, node(subnet), peer.addr(), 56)
	value, life := w.lease(subnet)
	if want := vxlanLease(d.host.Addr(), before.mac); value != want {
		t.Errorf("lease is\n%s, want\n%s", value, want)
	}
	if life != ttl {
		t.Errorf("lease lives %d s, want %d", life, ttl)
	}
	if all := w.leases(); len(all) != 2 {
		t.Errorf("leases: %v", all)
	}
	wantFile(t, d.env, "FLANNEL_NETWORK=10.244.0.0/16\nFLANNEL_SUBNET=10.244.72.1/24\nFLANNEL_MTU=1450\nFLANNEL_IPMASQ=true\n")
	d.stop()
	if value, _ := w.lease(subnet); value != vxlanLease(d.host.Addr(), before.mac) {
		t.Errorf("after the end the lease is %s", value)
	}
}

// A node that is new to the cluster writes flanneld's bytes too.
func TestNewLease(t *testing.T) {
	tests := []struct {
		config string
		want   func(w *world, value string) string
		mtu    int
	}{
		{udp, func(w *world, _ string) string {
			return fmt.Sprintf(`{"PublicIP":"%s","PublicIPv6":null}`, w.hosts[0].Addr())
		}, 1472},
		{vxlan, func(w *world, value string) string {
			return vxlanLease(w.hosts[0].Addr(), vtepOf(w, value))
		}, 1450},
		{`{"Network":"10.244.0.0/16","Backend":{"Type":"VXLAN","MTU":1420}}`, func(w *world, value string) string {
			return vxlanLease(w.hosts[0].Addr(), vtepOf(w, value))
		}, 1370},
		{`{"Network":"10.244.0.0/16","Backend":{"Type":"alloc"}}`, func(w *world, _ string) string {
			return fmt.Sprintf(`{"PublicIP":"%s","PublicIPv6":null}`, w.hosts[0].Addr())
		}, 1500},
		{`{"Network":"10.244.0.0/16"}`, func(w *world, _ string) string { // no backend means udp
			return fmt.Sprintf(`{"PublicIP":"%s","PublicIPv6":null}`, w.hosts[0].Addr())
		}, 1472},
	}
	parallel(t)
	for _, tt := range tests {
		t.Run(tt.config, func(t *testing.T) {
			w := newWorld(t, lab.Wire{}, tt.config, "ours", "other")
			d := w.start(w.hosts[0])
			if hasDevice(d.host, "flannel0") && device(t, d.host, "flannel0").MTU != tt.mtu {
				t.Errorf("flannel0 has MTU %d, want %d as in the subnet file", device(t, d.host, "flannel0").MTU, tt.mtu)
			}
			value, life := w.lease(d.subnet)
			if want := tt.want(w, value); value != want || life != ttl {
				t.Errorf("lease is\n%s for %d s, want\n%s for %d s", value, life, want, ttl)
			}
			if m := vtep(value); m != "" && (m[1] != '2' && m[1] != '6' && m[1] != 'a' && m[1] != 'e') {
				t.Errorf("MAC %s is not a locally administered unicast address", m)
			}
			gateway, _ := podAddrs(d.subnet)
			wantFile(t, d.env, fmt.Sprintf("FLANNEL_NETWORK=%s\nFLANNEL_SUBNET=%s/24\nFLANNEL_MTU=%d\nFLANNEL_IPMASQ=false\n", network, gateway, tt.mtu))
			d.stop()
			wantFile(t, d.env, fmt.Sprintf("FLANNEL_NETWORK=%s\nFLANNEL_SUBNET=%s/24\nFLANNEL_MTU=%d\nFLANNEL_IPMASQ=false\n", network, gateway, tt.mtu))
		})
	}
}

// The alloc backend allocates, and touches nothing else.
func TestAlloc(t *testing.T) {
	parallel(t)
	w := newWorld(t, lab.Wire{}, `{"Network":"10.244.0.0/16","Backend":{"Type":"alloc"}}`, "ours", "other")
	before := inspect(t, w.hosts[0])
	d := w.start(w.hosts[0], "-iptables-forward-rules=false")
	if during := inspect(t, d.host); during != before {
		t.Errorf("the host became\n%s, it was\n%s", during, before)
	}
	if hasDevice(d.host, "flannel0") {
		t.Error("there is a flannel0")
	}
	first := d.subnet
	d.stop()
	if d = w.start(w.hosts[0]); d.subnet != first {
		t.Errorf("subnet %s after a restart, %s before", d.subnet, first)
	}
	d.stop()
}

// vtep cuts the MAC out of a lease value; empty if it has none.
func vtep(value string) string {
	const mark = `"VtepMAC":"`
	for i := range value {
		if len(value) >= i+len(mark)+17 && value[i:i+len(mark)] == mark {
			return value[i+len(mark):][:17]
		}
	}
	return ""
}

func wantFile(t *testing.T, path, want string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil || string(b) != want {
		t.Errorf("%s is\n%s, want\n%s (%v)", path, b, want, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("%s: mode %v, want 0644 (%v)", path, info.Mode(), err)
	}
}
