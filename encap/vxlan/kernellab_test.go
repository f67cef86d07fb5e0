package vxlan

import (
	"encoding/binary"
	"net"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"flanx/encap"
)

// kernelLab is two network namespaces with a veth between them. A is a node as
// flannel sets it up, on the kernel's own VXLAN devices. B has no addresses,
// only a packet socket on the wire: B is played by the test.
type kernelLab struct {
	t    *testing.T
	a, b netns.NsHandle
	wire int // B's packet socket
}

// needRoot skips without the privilege; in continuous integration that fails.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() == 0 {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("must run as root in continuous integration")
	}
	t.Skip("needs root to make network namespaces")
}

// newKernelLab builds the lab. The test's thread is locked and comes back to
// its own namespace at the end; the namespaces have no names and go with their
// descriptors.
func newKernelLab(t *testing.T) *kernelLab {
	t.Helper()
	needRoot(t)
	runtime.LockOSThread()
	home, err := netns.Get()
	must(t, err)
	l := &kernelLab{t: t}
	t.Cleanup(func() {
		must(t, netns.Set(home))
		runtime.UnlockOSThread()
		must(t, home.Close())
	})
	l.a, err = netns.New()
	must(t, err)
	t.Cleanup(func() { must(t, l.a.Close()) })
	l.b, err = netns.New()
	must(t, err)
	t.Cleanup(func() { must(t, l.b.Close()) })
	l.in(l.a)
	l.connect()
	l.listen()
	l.awaitCarrier()
	l.flannel("flannel.1", way4, vtepA4, "10.5.1.0/32", "10.5.2.0/24")
	l.flannel("flannel-v6.1", way6, vtepA6, "fd05:0:0:1::/128", "fd05:0:0:2::/64")
	l.awaitAnswer()
	return l
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// in moves the test's thread to a namespace.
func (l *kernelLab) in(ns netns.NsHandle) { must(l.t, netns.Set(ns)) }

// connect makes the veth: A's end with addresses and B as a fixed neighbour.
func (l *kernelLab) connect() {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.HardwareAddr = "under0", way4.LocalMAC[:]
	must(l.t, netlink.LinkAdd(&netlink.Veth{
		LinkAttrs: attrs, PeerName: "under1", PeerHardwareAddr: way4.NextHopMAC[:], PeerNamespace: netlink.NsFd(l.b),
	}))
	link, err := netlink.LinkByName("under0")
	must(l.t, err)
	for _, cidr := range []string{way4.Local.String() + "/24", way6.Local.String() + "/64"} {
		l.address(link, cidr)
	}
	must(l.t, netlink.LinkSetUp(link))
	for _, way := range []encap.Peer{way4, way6} {
		must(l.t, netlink.NeighSet(&netlink.Neigh{
			LinkIndex: link.Attrs().Index, State: netlink.NUD_PERMANENT,
			IP: way.Remote.AsSlice(), HardwareAddr: way.NextHopMAC[:],
		}))
	}
}

// awaitCarrier waits until the kernel has seen that both ends are up: before
// that it drops what is sent.
func (l *kernelLab) awaitCarrier() {
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		link, err := netlink.LinkByName("under0")
		must(l.t, err)
		if link.Attrs().OperState == netlink.OperUp {
			return
		}
	}
	l.t.Fatal("the veth did not come up in 10 s")
}

// awaitAnswer pings A until it answers in both families: IPv6 addresses come
// alive in a work queue of the kernel.
func (l *kernelLab) awaitAnswer() {
	for _, ipv6 := range []bool{false, true} {
		end := time.Now().Add(10 * time.Second)
		for l.send((variation{ipv6: ipv6}).frame(0)); l.receive(50*time.Millisecond) == nil; l.send((variation{ipv6: ipv6}).frame(0)) {
			if time.Now().After(end) {
				l.t.Fatalf("the kernel answers nothing in 10 s; IPv6 %v", ipv6)
			}
		}
	}
	for l.receive(100*time.Millisecond) != nil { // late answers
	}
}

func (l *kernelLab) address(link netlink.Link, cidr string) {
	addr, err := netlink.ParseAddr(cidr)
	must(l.t, err)
	addr.Flags = unix.IFA_F_NODAD
	must(l.t, netlink.AddrAdd(link, addr))
}

// flannel makes one of flannel's VXLAN devices and the three entries for the
// one peer, in flannel's order: neighbour, forwarding entry, route.
func (l *kernelLab) flannel(name string, way encap.Peer, own encap.MAC, addr, peerSubnet string) {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.HardwareAddr = name, own[:]
	under, err := netlink.LinkByName("under0")
	must(l.t, err)
	must(l.t, netlink.LinkAdd(&netlink.Vxlan{
		LinkAttrs: attrs, VxlanId: DefaultVNI, VtepDevIndex: under.Attrs().Index,
		SrcAddr: way.Local.AsSlice(), Port: DefaultPort, Learning: false,
	}))
	link, err := netlink.LinkByName(name)
	must(l.t, err)
	l.address(link, addr)
	must(l.t, netlink.LinkSetUp(link))

	_, subnet, err := net.ParseCIDR(peerSubnet)
	must(l.t, err)
	index := link.Attrs().Index
	must(l.t, netlink.NeighSet(&netlink.Neigh{
		LinkIndex: index, State: netlink.NUD_PERMANENT, IP: subnet.IP, HardwareAddr: way.VTEP[:],
	}))
	must(l.t, netlink.NeighSet(&netlink.Neigh{
		LinkIndex: index, State: netlink.NUD_PERMANENT, Family: unix.AF_BRIDGE, Flags: netlink.NTF_SELF,
		IP: way.Remote.AsSlice(), HardwareAddr: way.VTEP[:],
	}))
	must(l.t, netlink.RouteReplace(&netlink.Route{
		LinkIndex: index, Dst: subnet, Gw: subnet.IP, Flags: int(netlink.FLAG_ONLINK),
	}))
}

// listen opens B's packet socket on its end of the wire.
func (l *kernelLab) listen() {
	l.in(l.b)
	defer l.in(l.a)
	link, err := netlink.LinkByName("under1")
	must(l.t, err)
	must(l.t, netlink.LinkSetUp(link))
	all := int(binary.NativeEndian.Uint16([]byte{0, unix.ETH_P_ALL}))
	l.wire, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, all)
	must(l.t, err)
	l.t.Cleanup(func() { must(l.t, unix.Close(l.wire)) })
	must(l.t, unix.Bind(l.wire, &unix.SockaddrLinklayer{Protocol: uint16(all), Ifindex: link.Attrs().Index}))
}

// send puts a frame on the wire from B.
func (l *kernelLab) send(frame []byte) {
	_, err := unix.Write(l.wire, frame)
	must(l.t, err)
}

// receive returns the next tunnel frame that reaches B within the time, or nil.
func (l *kernelLab) receive(within time.Duration) []byte {
	buf := make([]byte, 1<<16)
	for end := time.Now().Add(within); ; {
		left := time.Until(end)
		if left <= 0 {
			return nil
		}
		tv := unix.NsecToTimeval(left.Nanoseconds() + 1000)
		must(l.t, unix.SetsockoptTimeval(l.wire, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv))
		n, from, err := unix.Recvfrom(l.wire, buf, 0)
		if err == unix.EAGAIN || err == unix.EINTR {
			continue
		}
		must(l.t, err)
		if ll, ok := from.(*unix.SockaddrLinklayer); ok && ll.Pkttype == unix.PACKET_OUTGOING {
			continue
		}
		if isTunnel(buf[:n]) {
			return append([]byte(nil), buf[:n]...)
		}
	}
}

// isTunnel tells VXLAN from the noise of IPv6 autoconfiguration.
func isTunnel(f []byte) bool {
	at := map[string]int{"\x08\x00": 34, "\x86\xdd": 54}
	if len(f) < 14 {
		return false
	}
	u, ok := at[string(f[12:14])]
	return ok && len(f) >= u+8 && binary.BigEndian.Uint16(f[u+2:]) == DefaultPort
}

// emit makes A's kernel send a ping, a UDP datagram and a TCP SYN to a host in
// B's subnet.
func (l *kernelLab) emit(host string) {
	l.in(l.a)
	ip := net.ParseIP(host)
	family, icmp, echo := unix.AF_INET, unix.IPPROTO_ICMP, byte(8)
	to := func(port int) unix.Sockaddr { return &unix.SockaddrInet4{Addr: [4]byte(ip.To4()), Port: port} }
	if ip.To4() == nil {
		family, icmp, echo = unix.AF_INET6, unix.IPPROTO_ICMPV6, 128
		to = func(port int) unix.Sockaddr { return &unix.SockaddrInet6{Addr: [16]byte(ip), Port: port} }
	}
	l.sendFrom(family, unix.SOCK_RAW, icmp, to(0), append([]byte{echo, 0, 0, 0, 0, 1, 0, 1}, "ping"...))
	l.sendFrom(family, unix.SOCK_DGRAM, 0, to(9), []byte("a datagram"))
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	must(l.t, err)
	if err := unix.Connect(fd, to(80)); err != unix.EINPROGRESS {
		l.t.Fatalf("connect to %s: %v", host, err)
	}
	must(l.t, unix.Close(fd))
}

func (l *kernelLab) sendFrom(family, kind, protocol int, to unix.Sockaddr, data []byte) {
	fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC, protocol)
	must(l.t, err)
	if kind == unix.SOCK_RAW && family == unix.AF_INET {
		binary.BigEndian.PutUint16(data[2:], ^sumOf(data))
	}
	must(l.t, unix.Sendto(fd, data, 0, to))
	must(l.t, unix.Close(fd))
}

// sumOf is the checksum's sum of data of even length, word by word.
func sumOf(b []byte) uint16 {
	sum := uint32(0)
	for i := 0; i < len(b); i += 2 {
		sum += uint32(b[i])<<8 | uint32(b[i+1])
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return uint16(sum)
}
