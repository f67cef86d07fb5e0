package systemtest

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"flanx/encap/header"
	"flanx/perf/gen"
	"flanx/perf/lab"
)

// A node of flannel's udp backend and ours: the bytes on the wire, the TTL, and
// what happens at the MTU's edge, on every way to the wire.
func TestUDPBackend(t *testing.T) {
	parallel(t)
	w := newWorld(t, lab.Wire{}, udp, "ours", "plain")
	p := newUDPPeer(w, w.hosts[1], netip.MustParsePrefix("10.244.9.0/24"))
	for _, io := range []string{"native", "generic", "udp"} {
		d := w.start(w.hosts[0], "-io", io)
		if way, why := d.granted(); !strings.HasPrefix(strings.ToLower(way), io) {
			t.Errorf("-io %s: granted %s (%s)", io, way, why)
		}
		p.meet(d)
		reach(t, d.host, d.addr(), p.addr())
		wantWireForm(t, d, p)
		wantTTLs(t, d, p)
		for _, size := range []int{8, 56, d.mtu - 28, d.mtu - 27, 4000} { // the last two in fragments
			ping(t, d.host, d.addr(), p.addr(), size)
			ping(t, p.host, p.addr(), d.addr(), size)
		}
		transfer(t, d.host, p.host, d.addr(), p.addr(), 1<<20)
		transfer(t, p.host, d.host, p.addr(), d.addr(), 1<<20)
		wantNoTruncation(t, d, p)
		d.stop()
	}
}

// wantWireForm looks at one datagram as it comes off the wire.
func wantWireForm(t *testing.T, d *daemon, p *udpPeer) {
	t.Helper()
	wire := newTap(t, p.host, "eth0")
	sink := listen(t, p.host, p.addr())
	from := listen(t, d.host, d.addr())
	if _, err := from.WriteToUDPAddrPort([]byte("hello"), port(sink)); err != nil {
		t.Fatal(err)
	}
	outer, u := wire.next(udpPort)
	inner := header.IPv4(u[header.UDPLen:])
	if u.SrcPort() != udpPort || outer.TTL() != 64 || outer.Fragment() != header.IPv4DontFragment || outer.TOS() != 0 {
		t.Errorf("outer: source port %d, TTL %d, fragment field %#x, TOS %#x; want 8285, 64, DF, 0",
			u.SrcPort(), outer.TTL(), outer.Fragment(), outer.TOS())
	}
	if u.Checksum() == 0 || !header.Valid(u, outer.PseudoSum(header.ProtocolUDP, len(u))) || !outer.ValidChecksum(header.IPv4Len) {
		t.Errorf("outer checksums are wrong: IP %#x, UDP %#x", outer.Checksum(), u.Checksum())
	}
	if len(inner) != 20+8+5 || inner.TotalLength() != len(inner) || !inner.ValidChecksum(header.IPv4Len) ||
		inner.TTL() != 63 || !bytes.HasSuffix(inner, []byte("hello")) {
		t.Errorf("payload is not the bare inner packet with one hop less: %x", []byte(inner))
	}
	if _, ok := receive(t, sink, patience); !ok {
		t.Error("datagram did not arrive")
	}
}

// wantTTLs holds that one hop is taken at either end, so 64 arrives as 62.
func wantTTLs(t *testing.T, d *daemon, p *udpPeer) {
	t.Helper()
	p.arrived()
	ping(t, d.host, d.addr(), p.addr(), 56)
	for ttl, n := range p.arrived() {
		if ttl != 62 {
			t.Errorf("%d packets arrived at flannel's node with TTL %d, want 62", n, ttl)
		}
	}
	if ttl := replyTTL(t, d.host, d.addr(), p.addr()); ttl != 62 {
		t.Errorf("packets arrive at ours with TTL %d, want 62", ttl)
	}
}

// replyTTL listens for an echo reply as it comes, IP header included.
func replyTTL(t *testing.T, h *lab.Host, from, to netip.Addr) uint8 {
	t.Helper()
	var fd int
	err := h.Do(func() (err error) {
		fd, err = unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMP)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 5}); err != nil {
		t.Fatal(err)
	}
	if _, err := gen.Ping(within(t), h.Do, gen.PingConfig{From: from, To: to}); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 2048)
	for {
		n, _, err := unix.Recvfrom(fd, buf, 0)
		if err != nil {
			t.Fatalf("no echo reply: %v", err)
		}
		if n >= header.IPv4Len && header.IPv4(buf).Src() == to.As4() {
			return header.IPv4(buf).TTL()
		}
	}
}

// wantNoTruncation sends inner packets that exceed our MTU, in datagrams that
// travel in fragments: they may arrive or not, but never cut off, as flannel's
// proxy delivers them.
func wantNoTruncation(t *testing.T, d *daemon, p *udpPeer) {
	t.Helper()
	sink := listen(t, d.host, d.addr())
	for _, bytes := range []int{1473, 2100, 4000, 9000} {
		inner := innerUDP(netip.AddrPortFrom(p.addr(), 999), port(sink), bytes)
		if err := p.host.Do(func() error { return sendWithoutDF(p.socket, d.host.Addr(), inner) }); err != nil {
			t.Fatal(err)
		}
	}
	send := innerUDP(netip.AddrPortFrom(p.addr(), 999), port(sink), 100) // the last: all before it have been seen to
	if _, err := p.socket.WriteToUDPAddrPort(send, netip.AddrPortFrom(d.host.Addr(), udpPort)); err != nil {
		t.Fatal(err)
	}
	for {
		got, ok := receive(t, sink, 5*time.Second)
		switch {
		case !ok:
			t.Error("the overlay died of oversized packets")
			return
		case len(got) == 100-28:
			return
		}
		var whole bool
		for _, bytes := range []int{1473, 2100, 4000, 9000} {
			whole = whole || len(got) == bytes-28
		}
		if !whole {
			t.Errorf("a packet arrived cut to %d bytes", len(got))
		}
	}
}

// sendWithoutDF lets the kernel cut a datagram into fragments.
func sendWithoutDF(c *net.UDPConn, to netip.Addr, payload []byte) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var option error
	err = raw.Control(func(fd uintptr) {
		option = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DONT)
	})
	if err != nil || option != nil {
		return fmt.Errorf("clear DF: %w %w", err, option)
	}
	_, err = c.WriteToUDPAddrPort(payload, netip.AddrPortFrom(to, udpPort))
	return err
}
