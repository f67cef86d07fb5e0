package systemtest

import (
	"encoding/json"
	"fmt"
	"net"
	"net/netip"

	"flanx/perf/lab"
)

// Numbers of flannel's vxlan backend.
const (
	vxlanVNI  = 1
	vxlanPort = 8472
	vxlanOver = 50 // bytes that it adds to a packet
)

// kernelPeer is a node as flanneld's vxlan backend leaves it: a VXLAN device of
// the kernel, and a lease in flannel's bytes.
type kernelPeer struct {
	*world
	host   *lab.Host
	subnet netip.Prefix
	mac    net.HardwareAddr
}

// vxlanLease is a vxlan node's lease value as flanneld writes it.
func vxlanLease(public netip.Addr, vtep net.HardwareAddr) string {
	return fmt.Sprintf(`{"PublicIP":"%s","PublicIPv6":null,"BackendType":"vxlan","BackendData":{"VNI":%d,"VtepMAC":"%s"}}`,
		public, vxlanVNI, vtep)
}

// vtepOf reads the VTEP's MAC out of a lease value.
func vtepOf(w *world, value string) net.HardwareAddr {
	w.Helper()
	var l struct{ BackendData struct{ VtepMAC string } }
	if err := json.Unmarshal([]byte(value), &l); err != nil {
		w.Fatalf("read lease %s: %v", value, err)
	}
	mac, err := net.ParseMAC(l.BackendData.VtepMAC)
	if err != nil {
		w.Fatalf("read lease %s: %v", value, err)
	}
	return mac
}

// newKernelPeer sets the device up and writes the lease.
func newKernelPeer(w *world, h *lab.Host, subnet netip.Prefix, vtep string) *kernelPeer {
	w.Helper()
	mac, err := net.ParseMAC(vtep)
	if err != nil {
		w.Fatal(err)
	}
	k := &kernelPeer{world: w, host: h, subnet: subnet, mac: mac}
	k.setUp(h)
	w.putLease(subnet, vxlanLease(h.Addr(), mac))
	return k
}

// setUp makes flannel.1 as flanneld does.
func (k *kernelPeer) setUp(h *lab.Host) {
	k.Helper()
	mtu := device(k.T, h, "eth0").MTU - vxlanOver
	ip(k.T, h,
		fmt.Sprintf("link add flannel.%d address %s mtu %d type vxlan id %d local %s dev eth0 dstport %d nolearning",
			vxlanVNI, k.mac, mtu, vxlanVNI, h.Addr(), vxlanPort),
		fmt.Sprintf("addr add %s/32 dev flannel.1", node(k.subnet)),
		"link set flannel.1 up",
	)
}

// learn makes the entries for another node's lease, in flanneld's order.
func (k *kernelPeer) learn(subnet netip.Prefix, public netip.Addr, vtep net.HardwareAddr) {
	k.Helper()
	ip(k.T, k.host, fmt.Sprintf("neigh replace %s lladdr %s dev flannel.1 nud permanent", node(subnet), vtep))
	bridge(k.T, k.host, fmt.Sprintf("fdb replace %s dev flannel.1 dst %s self permanent", vtep, public))
	ip(k.T, k.host, fmt.Sprintf("route replace %s via %s dev flannel.1 onlink", subnet, node(subnet)))
}

// meet learns a daemon's lease out of the store.
func (k *kernelPeer) meet(d *daemon) {
	k.Helper()
	value, _ := k.lease(d.subnet)
	k.learn(d.subnet, d.host.Addr(), vtepOf(k.world, value))
}

func (k *kernelPeer) addr() netip.Addr { return node(k.subnet) }
