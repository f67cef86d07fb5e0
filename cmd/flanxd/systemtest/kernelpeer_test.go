package systemtest

import (
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

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

	vni, port int
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
	k := &kernelPeer{world: w, host: h, subnet: subnet, mac: mac, vni: vxlanVNI, port: vxlanPort}
	k.setUp(h)
	w.putLease(subnet, vxlanLease(h.Addr(), mac))
	return k
}

// move gives the peer another VNI and port.
func (k *kernelPeer) move(vni, port int) {
	k.Helper()
	ip(k.T, k.host, "link del flannel."+strconv.Itoa(k.vni))
	k.vni, k.port = vni, port
	k.setUp(k.host)
	value := strings.Replace(vxlanLease(k.host.Addr(), k.mac), `"VNI":1,`, fmt.Sprintf(`"VNI":%d,`, vni), 1)
	k.putLease(k.subnet, value)
}

// setUp makes flannel.1 as flanneld does.
func (k *kernelPeer) setUp(h *lab.Host) {
	k.Helper()
	mtu := device(k.T, h, "eth0").MTU - vxlanOver
	ip(k.T, h,
		fmt.Sprintf("link add flannel.%d address %s mtu %d type vxlan id %d local %s dev eth0 dstport %d nolearning",
			k.vni, k.mac, mtu, k.vni, h.Addr(), k.port),
		fmt.Sprintf("addr add %s/32 dev flannel.%d", node(k.subnet), k.vni),
		fmt.Sprintf("link set flannel.%d up", k.vni),
	)
}

// learn makes the entries for another node's lease, in flanneld's order.
func (k *kernelPeer) learn(subnet netip.Prefix, public netip.Addr, vtep net.HardwareAddr) {
	k.Helper()
	ip(k.T, k.host, fmt.Sprintf("neigh replace %s lladdr %s dev flannel.%d nud permanent", node(subnet), vtep, k.vni))
	bridge(k.T, k.host, fmt.Sprintf("fdb replace %s dev flannel.%d dst %s self permanent", vtep, k.vni, public))
	ip(k.T, k.host, fmt.Sprintf("route replace %s via %s dev flannel.%d onlink", subnet, node(subnet), k.vni))
}

// meet learns a daemon's lease out of the store.
func (k *kernelPeer) meet(d *daemon) {
	k.Helper()
	value, _ := k.lease(d.subnet)
	k.learn(d.subnet, d.host.Addr(), vtepOf(k.world, value))
}

func (k *kernelPeer) addr() netip.Addr { return node(k.subnet) }
