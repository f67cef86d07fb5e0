package host

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"flanx/dataplane/packet"
	"flanx/dataplane/xsk"
	"flanx/perf/lab"
	"flanx/perf/lab/labtest"
)

const (
	xskPort     = 8472
	xskPatience = 5 * time.Second
)

// xskLab is two hosts on a wire; AF_XDP is opened on the first.
type xskLab struct {
	tb       testing.TB
	us, peer *lab.Host
}

func newXSKLab(tb testing.TB, w lab.Wire) *xskLab {
	tb.Helper()
	_, hosts := labtest.Hosts(tb, w, "us", "peer")
	return &xskLab{tb: tb, us: hosts[0], peer: hosts[1]}
}

// config is for eth0 with small pools.
func (l *xskLab) config() XSKConfig {
	return XSKConfig{IfIndex: l.index("eth0"), IPv4: l.us.Addr(), IPv6: l.us.Addr6(), Port: xskPort, Frames: 512}
}

func (l *xskLab) index(dev string) int {
	l.tb.Helper()
	var ifi *net.Interface
	l.do(func() (err error) {
		ifi, err = net.InterfaceByName(dev)
		return err
	})
	return ifi.Index
}

func (l *xskLab) do(fn func() error) {
	l.tb.Helper()
	if err := l.us.Do(fn); err != nil {
		l.tb.Fatal(err)
	}
}

func (l *xskLab) probe(dev string) (d Device) {
	l.tb.Helper()
	index := l.index(dev)
	l.do(func() (err error) {
		d, err = Probe(index)
		return err
	})
	return d
}

// try opens a rung; what opens is closed with the test.
func (l *xskLab) try(cfg XSKConfig, rung Rung) (x *XSK, err error) {
	err = l.us.Do(func() error {
		x, err = OpenXSK(cfg, rung)
		return err
	})
	if err == nil {
		l.tb.Cleanup(func() { _ = x.Close() })
	}
	return x, err
}

func (l *xskLab) open(cfg XSKConfig, rung Rung) *XSK {
	l.tb.Helper()
	x, err := l.try(cfg, rung)
	if err != nil {
		l.tb.Fatalf("%s: %v", rung, err)
	}
	return x
}

func (l *xskLab) climb(cfg XSKConfig, want Rung) (g *Grant, err error) {
	err = l.us.Do(func() error {
		g, err = Climb(cfg, want)
		return err
	})
	if err == nil && g.XSK != nil {
		l.tb.Cleanup(func() { _ = g.XSK.Close() })
	}
	return g, err
}

func (l *xskLab) ip(h *lab.Host, args string) string {
	l.tb.Helper()
	out, err := h.Output(context.Background(), "ip", strings.Fields(args)...)
	if err != nil {
		l.tb.Fatalf("ip %s: %v", args, err)
	}
	return string(out)
}

// attached returns what ip says of our XDP program: empty, "xdp" or "xdpgeneric".
func (l *xskLab) attached() string {
	l.tb.Helper()
	for _, word := range strings.Fields(l.ip(l.us, "-o link show eth0")) {
		if strings.HasPrefix(word, "xdp") {
			return strings.SplitN(word, "/", 2)[0]
		}
	}
	return ""
}

// listen opens a UDP socket on the tunnel port of a host.
func (l *xskLab) listen(h *lab.Host, addr netip.Addr) *net.UDPConn {
	l.tb.Helper()
	var conn *net.UDPConn
	err := h.Do(func() (err error) {
		conn, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr, xskPort)))
		return err
	})
	if err != nil {
		l.tb.Fatal(err)
	}
	l.tb.Cleanup(func() { conn.Close() })
	return conn
}

// write sends one datagram to the tunnel port of addr.
func write(tb testing.TB, from *net.UDPConn, addr netip.Addr, payload []byte) {
	tb.Helper()
	if _, err := from.WriteToUDPAddrPort(payload, netip.AddrPortFrom(addr, xskPort)); err != nil {
		tb.Fatal(err)
	}
}

// collect receives on a port until it has n packets or time is up, and returns
// their bytes.
func collect(tb testing.TB, p *xsk.Port, n int, limit time.Duration) (got [][]byte) {
	tb.Helper()
	b := packet.NewBatch(p.Pool(), 64)
	for deadline := time.Now().Add(limit); len(got) < n && time.Now().Before(deadline); {
		if err := p.Recv(b); err != nil {
			tb.Fatal(err)
		}
		for i := range b.Len() {
			got = append(got, append([]byte(nil), b.Bytes(i)...))
		}
		if b.Clear(); len(got) < n {
			fds := []unix.PollFd{{Fd: int32(p.FD()), Events: unix.POLLIN}}
			_, _ = unix.Poll(fds, 1)
		}
	}
	return got
}

// received checks that a datagram from the peer arrives on the port.
func (l *xskLab) received(p *xsk.Port, dst netip.Addr) {
	l.tb.Helper()
	src := l.peer.Addr()
	if dst.Is6() {
		src = l.peer.Addr6()
	}
	conn := l.listen(l.peer, src)
	defer conn.Close()
	write(l.tb, conn, dst, []byte("to the port"))
	got := collect(l.tb, p, 1, xskPatience)
	if len(got) != 1 || !strings.HasSuffix(string(got[0]), "to the port") {
		l.tb.Fatalf("%d packets on the AF_XDP port from a datagram to %s", len(got), dst)
	}
}

// passed checks that a datagram from the peer arrives in the kernel.
func (l *xskLab) passed() {
	l.tb.Helper()
	us, peer := l.listen(l.us, l.us.Addr()), l.listen(l.peer, l.peer.Addr())
	defer us.Close()
	defer peer.Close()
	write(l.tb, peer, l.us.Addr(), []byte("to the kernel"))
	buf := make([]byte, 64)
	_ = us.SetReadDeadline(time.Now().Add(xskPatience))
	if n, err := us.Read(buf); err != nil || string(buf[:n]) != "to the kernel" {
		l.tb.Fatalf("datagram to the kernel: %q, %v", buf[:n], err)
	}
}

// udpChecksumOK verifies an IPv4 UDP packet in an Ethernet frame.
func udpChecksumOK(frame []byte) bool {
	ip := frame[14:]
	udp := ip[20:binary.BigEndian.Uint16(ip[2:])]
	sum := uint32(unix.IPPROTO_UDP) + uint32(len(udp))
	for _, part := range [][]byte{ip[12:20], udp} {
		for i := 0; i < len(part); i += 2 {
			word := uint32(part[i]) << 8
			if i+1 < len(part) {
				word |= uint32(part[i+1])
			}
			sum += word
		}
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	return sum == 0xffff
}

// openFiles lists the descriptors of this process that are the kernel's objects
// for AF_XDP, eBPF and ethtool, and the mappings of pools and rings.
func openFiles(tb testing.TB) map[string]bool {
	tb.Helper()
	runtime.GC() // closes descriptors that only a finalizer holds
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		tb.Fatal(err)
	}
	open := map[string]bool{}
	for _, e := range entries {
		if target, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && !strings.HasPrefix(target, "/proc/") {
			open[e.Name()+" "+target] = true
		}
	}
	return open
}

func mustAddr(tb testing.TB, s string) netip.Addr {
	tb.Helper()
	addr, err := netip.ParseAddr(s)
	if err != nil {
		tb.Fatal(err)
	}
	return addr
}

// startHolder starts a process that holds a rung on our host's eth0.
func (l *xskLab) startHolder(tb testing.TB, rung Rung) *lab.Process {
	tb.Helper()
	out, in, err := os.Pipe()
	if err != nil {
		tb.Fatal(err)
	}
	defer out.Close()
	p, err := l.us.Start(context.Background(), lab.Spec{
		Path: os.Args[0], Args: []string{"-test.run=^TestHoldXSK$"}, Stdout: in,
		Env: []string{
			holdXSK + "=" + rung.String(),
			fmt.Sprintf("%s_IF=%d", holdXSK, l.index("eth0")),
			fmt.Sprintf("%s_IP=%s", holdXSK, l.us.Addr()),
		},
	})
	in.Close()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = p.Stop(0) })
	if line, _ := bufio.NewReader(out).ReadString('\n'); line != "holding\n" {
		tb.Fatalf("holder says %q", line)
	}
	return p
}
