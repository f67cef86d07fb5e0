package hostnet

import (
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// cluster is a node with a pod on a bridge-like wire, a remote pod behind the
// overlay's wire, and a host outside. For each family the addresses are:
type cluster struct {
	node, pod, remote, outside *namespace
}

type plan struct {
	name                              string
	node, nodePod, nodeOverlay        string // of the node, by wire
	pod, remote, outside              string
	network, subnet, under, all, bits string
	forwarding                        string
	hostRoute                         string
	listen                            string
	multicast                         string
	family                            int
}

var plans = []plan{
	{
		name: "IPv4", node: "192.0.2.1", nodePod: "10.5.1.1", nodeOverlay: "10.5.1.0",
		pod: "10.5.1.9", remote: "10.5.2.9", outside: "192.0.2.9",
		network: "10.5.0.0/16", subnet: "10.5.1.0/24", under: "192.0.2.0/24", bits: "/24", all: "0.0.0.0/0",
		forwarding: "net/ipv4/ip_forward", hostRoute: "/32", listen: "udp4", multicast: "239.1.1.1", family: netlink.FAMILY_V4,
	},
	{
		name: "IPv6", node: "2001:db8::1", nodePod: "fd05:0:0:1::1", nodeOverlay: "fd05:0:0:1::",
		pod: "fd05:0:0:1::9", remote: "fd05:0:0:2::9", outside: "2001:db8::9",
		network: "fd05::/48", subnet: "fd05:0:0:1::/64", under: "2001:db8::/64", bits: "/64", all: "::/0",
		forwarding: "net/ipv6/conf/all/forwarding", hostRoute: "/128", listen: "udp6", multicast: "ff05::1:1", family: netlink.FAMILY_V6,
	},
}

func newCluster(t *testing.T, plans ...plan) *cluster {
	c := &cluster{newNamespace(t), newNamespace(t), newNamespace(t), newNamespace(t)}
	wire(c.node, "cni0", c.pod, "eth0")
	wire(c.node, "flannel0", c.remote, "flannel0")
	wire(c.node, "eth0", c.outside, "eth0")
	for _, p := range plans {
		c.node.sysctl(p.forwarding, "1")
		c.node.addr("cni0", p.nodePod+p.bits)
		c.node.addr("flannel0", p.nodeOverlay+p.hostRoute)
		c.node.addr("eth0", p.node+p.bits)
		c.node.route(p.network, "", "flannel0", 0)
		c.pod.addr("eth0", p.pod+p.bits)
		c.pod.route(p.all, p.nodePod, "eth0", 0)
		c.remote.addr("flannel0", p.remote+p.hostRoute)
		c.remote.route(p.nodeOverlay+p.hostRoute, "", "flannel0", 0)
		c.remote.route(p.all, p.nodeOverlay, "flannel0", 0)
		c.outside.addr("eth0", p.outside+p.bits)
		c.outside.route(p.network, p.node, "eth0", 0)
	}
	return c
}

// listen opens a UDP socket in the namespace.
func (n *namespace) listen(network, at string) *net.UDPConn {
	n.t.Helper()
	var conn *net.UDPConn
	n.do(func() (err error) {
		conn, err = net.ListenUDP(network, net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr(at), 0)))
		return err
	})
	n.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// source sends datagrams to the receiver until one comes, and returns where that
// came from: the address only.
func source(t *testing.T, from *net.UDPConn, to *net.UDPConn, at string) string {
	t.Helper()
	dst := netip.AddrPortFrom(addr(at), to.LocalAddr().(*net.UDPAddr).AddrPort().Port())
	for range 20 {
		if _, err := from.WriteToUDPAddrPort([]byte("hello"), dst); err != nil {
			t.Fatalf("send to %v: %v", dst, err)
		}
		_ = to.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		if _, src, err := to.ReadFromUDPAddrPort(make([]byte, 64)); err == nil {
			return src.Addr().Unmap().String()
		}
	}
	return "nothing came"
}

// control sets an option of a socket.
func control(t *testing.T, c *net.UDPConn, set func(fd int) error) {
	t.Helper()
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var errno error
	if err := raw.Control(func(fd uintptr) { errno = set(int(fd)) }); err != nil {
		t.Fatal(err)
	}
	if errno != nil {
		t.Fatalf("set socket option: %v", errno)
	}
}

// TestSourceAddressSeen says of every pair of places which source address the
// receiver sees, with and without -ip-masq.
func TestSourceAddressSeen(t *testing.T) {
	c := newCluster(t, plans...)
	for _, p := range plans {
		tests := []struct {
			name         string
			from         *namespace
			fromAddr     string
			mark         int
			to           *namespace
			toAddr       string
			plain, masqd string
		}{
			{"pod to outside", c.pod, p.pod, 0, c.outside, p.outside, p.pod, p.node},
			{"pod to remote pod", c.pod, p.pod, 0, c.remote, p.remote, p.pod, p.pod},
			{"remote pod to pod", c.remote, p.remote, 0, c.pod, p.pod, p.remote, p.remote},
			{"outside to pod", c.outside, p.outside, 0, c.pod, p.pod, p.outside, p.outside},
			{"remote pod to outside", c.remote, p.remote, 0, c.outside, p.outside, p.remote, p.node},
			{"outside to remote pod", c.outside, p.outside, 0, c.remote, p.remote, p.outside, p.nodeOverlay},
			{"host's own address to remote pod", c.node, p.node, 0, c.remote, p.remote, p.node, p.nodeOverlay},
			{"host's overlay address to remote pod", c.node, p.nodeOverlay, 0, c.remote, p.remote, p.nodeOverlay, p.nodeOverlay},
			{"host's own address to own pod", c.node, p.node, 0, c.pod, p.pod, p.node, p.node},
			{"kube-proxy's mark", c.node, p.node, 0x4000, c.remote, p.remote, p.node, p.node},
			{"kube-proxy's mark among others", c.node, p.node, 0x4f01, c.remote, p.remote, p.node, p.node},
			{"another mark", c.node, p.node, 0x8001, c.remote, p.remote, p.node, p.nodeOverlay},
			{"host's overlay address to outside", c.node, p.nodeOverlay, 0, c.outside, p.outside, p.nodeOverlay, p.node},
		}
		for _, masq := range []bool{false, true} {
			cfg := dualRules()
			cfg.Masq = masq
			c.node.in(func() {
				if _, err := mustRules(t, cfg).Ensure(); err != nil {
					t.Fatal(err)
				}
			})
			for _, test := range tests {
				t.Run(fmt.Sprintf("%s/masq=%t/%s", p.name, masq, test.name), func(t *testing.T) {
					from := test.from.listen(p.listen, test.fromAddr) // new port: a new connection for the NAT
					to := test.to.listen(p.listen, test.toAddr)
					control(t, from, func(fd int) error {
						return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_MARK, test.mark)
					})
					want := test.plain
					if masq {
						want = test.masqd
					}
					if got := source(t, from, to, test.toAddr); got != want {
						t.Errorf("receiver sees %s, want %s", got, want)
					}
				})
			}
		}
	}
}

// Multicast keeps its source, for the receivers to know whom to answer.
func TestMulticastIsNotMasqueraded(t *testing.T) {
	p := plans[0]
	c := newCluster(t, p)
	c.node.ensure(mustRules(t, dualRules()), true)
	to := c.outside.listen(p.listen, p.multicast)
	control(t, to, func(fd int) error {
		group := unix.IPMreq{Multiaddr: addr(p.multicast).As4(), Interface: addr(p.outside).As4()}
		return unix.SetsockoptIPMreq(fd, unix.IPPROTO_IP, unix.IP_ADD_MEMBERSHIP, &group)
	})
	from := c.node.listen(p.listen, p.nodeOverlay)
	control(t, from, func(fd int) error { // out of eth0, with the overlay's address
		return unix.SetsockoptInet4Addr(fd, unix.IPPROTO_IP, unix.IP_MULTICAST_IF, addr(p.node).As4())
	})
	if got := source(t, from, to, p.multicast); got != p.nodeOverlay {
		t.Errorf("receiver sees %s, want %s", got, p.nodeOverlay)
	}
	unicast := c.outside.listen(p.listen, p.outside)
	if got := source(t, from, unicast, p.outside); got != p.node {
		t.Errorf("unicast from the same socket comes from %s, want %s", got, p.node)
	}
}

// Answers find their way back, and a connection outlives the replacing of the
// rules, for the kernel remembers it.
func TestConnectionOutlivesReplacement(t *testing.T) {
	p := plans[0]
	c := newCluster(t, p)
	r := mustRules(t, dualRules())
	c.node.ensure(r, true)
	from, to := c.pod.listen(p.listen, p.pod), c.outside.listen(p.listen, p.outside)

	answered := func() {
		t.Helper()
		dst := to.LocalAddr().(*net.UDPAddr).AddrPort()
		if _, err := from.WriteToUDPAddrPort([]byte("ping"), dst); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 64)
		_ = to.SetReadDeadline(time.Now().Add(5 * time.Second))
		_, src, err := to.ReadFromUDPAddrPort(buf)
		if err != nil || src.Addr().String() != p.node {
			t.Fatalf("outside got from %v, %v", src, err)
		}
		if _, err := to.WriteToUDPAddrPort([]byte("pong"), src); err != nil {
			t.Fatal(err)
		}
		_ = from.SetReadDeadline(time.Now().Add(5 * time.Second))
		if _, _, err := from.ReadFromUDPAddrPort(buf); err != nil {
			t.Fatalf("pod got no answer: %v", err)
		}
	}
	answered()
	other := dualRules()
	other.SequentialPorts = true
	c.node.ensure(mustRules(t, other), true)
	answered()
	// Without any NAT chain the kernel does not translate at all; with the rules
	// back the connection is as it was.
	c.node.do(r.Teardown)
	c.node.ensure(r, true)
	answered()
}
