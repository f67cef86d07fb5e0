package fib

import (
	"net/netip"
	"testing"

	"flanx/control/lease"
)

// FuzzHostileLease: whatever a lease holds, it leads nowhere but to a plausible
// node, covers nothing of ours, and its good neighbours stay.
func FuzzHostileLease(f *testing.F) {
	f.Add([]byte{10, 5, 1, 0}, 24, []byte{192, 0, 2, 1}, "vxlan", []byte("1"))
	f.Add([]byte{10, 5, 200, 0}, 23, []byte{192, 0, 2, 200}, "vxlan", []byte("0"))
	f.Add([]byte{0xfd, 0, 0, 5, 4: 0, 15: 0}, 64, []byte{0x20, 1, 0xd, 0xb8, 15: 1}, "VXLAN", []byte("7"))
	f.Add([]byte{}, -1, []byte{}, "", []byte(nil))
	f.Add([]byte{0, 0, 0, 0}, 0, []byte{255, 255, 255, 255}, "udp", []byte("{"))
	f.Fuzz(func(t *testing.T, subnet []byte, bits int, peer []byte, backend string, data []byte) {
		table := New(testConfig(newFakeNextHops(t)))
		good := testLease("10.5.77.0/32", "fd00:5:0:77::/128", 9) // nothing is longer
		apply(t, table, lease.Update{Leases: []lease.Lease{good}})

		bad := lease.Lease{Attrs: lease.Attrs{BackendType: backend, BackendData: data, BackendV6Data: data}}
		a, _ := netip.AddrFromSlice(subnet)
		bad.Subnets.V4, bad.Subnets.V6 = netip.PrefixFrom(a, bits), netip.PrefixFrom(a, bits)
		p, _ := netip.AddrFromSlice(peer)
		bad.Attrs.PublicIP, bad.Attrs.PublicIPv6 = p, p
		apply(t, table, lease.Update{Leases: []lease.Lease{bad}})

		s := table.Load()
		for prefix, hop := range s.All() {
			checkHop(t, prefix, netip.AddrFrom16(s.Hops[hop].Peer).Unmap())
		}
		for inner, want := range map[string]string{
			"10.5.77.0": "192.0.2.9", "fd00:5:0:77::": "2001:db8::9", "10.5.200.1": "", "fd00:5:0:c8::1": "",
		} {
			if got := hopOf(s, inner); want == "" && got.IsValid() || want != "" && got.String() != want {
				t.Fatalf("%s leads to %v, want %q", inner, got, want)
			}
		}
		apply(t, table, lease.Update{Removed: []lease.Subnets{bad.Subnets}})
		if st := table.Stats(); st.Hops != 2 || st.Rivals != 0 || st.Refused != (Stats{}).Refused {
			t.Fatalf("after removal %+v, want the good lease alone", st)
		}
	})
}

func checkHop(t *testing.T, prefix netip.Prefix, peer netip.Addr) {
	t.Helper()
	net, local := testNet4, "192.0.2.200"
	if prefix.Addr().Is6() {
		net, local = testNet6, "2001:db8::c8"
	}
	if prefix.Bits() < net.Bits() || !net.Contains(prefix.Addr()) || prefix != prefix.Masked() {
		t.Fatalf("%v is in the table, outside %v", prefix, net)
	}
	if peer.Is4() != prefix.Addr().Is4() || peer.IsUnspecified() || peer.IsLoopback() || peer.IsMulticast() || peer.String() == local {
		t.Fatalf("%v leads to %v", prefix, peer)
	}
}
