package udpsock_test

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"flanx/dataplane/packet"
	"flanx/dataplane/porttest"
	"flanx/dataplane/udpsock"
)

const tunnelPort = 8285

// The ends of a porttest.Wire.
var (
	near4 = netip.AddrPortFrom(porttest.Near4, tunnelPort)
	far4  = netip.AddrPortFrom(porttest.Far4, tunnelPort)
	near6 = netip.AddrPortFrom(porttest.Near6, tunnelPort)
	far6  = netip.AddrPortFrom(porttest.Far6, tunnelPort)
)

func TestConformance(t *testing.T) {
	for name, tt := range map[string]struct {
		cfg  udpsock.Config
		peer netip.AddrPort
	}{
		"IPv4":      {udpsock.Config{Local: near4}, far4},
		"IPv4 DF":   {udpsock.Config{Local: near4, DF: true}, far4},
		"IPv6":      {udpsock.Config{Local: near6}, far6},
		"batch 256": {udpsock.Config{Local: near4, Batch: 256, Shared: true}, far4},
	} {
		t.Run(name, func(t *testing.T) {
			porttest.Run(t, func(t *testing.T) *porttest.Pair { return newPair(t, tt.cfg, tt.peer) })
		})
	}
}

// newPair joins a port and a far end by a veth pair. The small send buffer is
// full before the neighbour's queue is, so that EAGAIN can be had.
func newPair(t *testing.T, cfg udpsock.Config, peer netip.AddrPort) *porttest.Pair {
	t.Helper()
	w := porttest.NewWire(t, "1500")
	cfg.SendBuffer = 64 << 10
	port := open(t, w.Near, cfg)
	return &porttest.Pair{
		Port: port, Far: newFar(t, w.Far, peer, cfg.Local), Pool: newPool(t, 1024, packet.FrameSize2K),
		Min: 8, Max: 1452, Peer: peer, Held: port.Held, // 1452 bytes fill an MTU of 1500 over IPv6
		Block:   func() { w.Part(peer.Addr()) },
		Unblock: func() { w.Meet(peer.Addr()) },
	}
}

func TestLoopback(t *testing.T) {
	for name, addr := range map[string]string{"IPv4": "127.0.0.1:0", "IPv6": "[::1]:0"} {
		t.Run(name, func(t *testing.T) {
			port, err := udpsock.Open(udpsock.Config{Local: netip.MustParseAddrPort(addr)})
			if err != nil {
				t.Fatal(err)
			}
			defer port.Close()
			self := localAddr(t, port.FD())
			pool := newPool(t, 128, packet.FrameSize2K)
			b := packet.NewBatch(pool, 128)
			for number := range 100 {
				add(t, b, byte(number), 10, self)
			}
			if err := port.Send(b); err != nil {
				t.Fatal(err)
			}
			if err := port.Recv(b); err != nil || b.Len() != 100 {
				t.Fatalf("Recv: %v, %d packets", err, b.Len())
			}
			for i := range b.Len() {
				if buf := b.At(i); b.Bytes(i)[0] != byte(i) || buf.Peer != self.Addr().As16() || buf.PeerPort != self.Port() {
					t.Errorf("packet %d carries %d, is from %v port %d", i, b.Bytes(i)[0], buf.Peer, buf.PeerPort)
				}
			}
			b.Clear()
			checkFrames(t, pool, port)
		})
	}
}

func localAddr(t *testing.T, fd int) netip.AddrPort {
	t.Helper()
	sa, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port))
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(sa.Addr), uint16(sa.Port))
	}
	t.Fatalf("socket name is %T", sa)
	return netip.AddrPort{}
}

// TestLinkLocal talks between the link-local addresses of a wire, which no
// 16 bytes name without the zone.
func TestLinkLocal(t *testing.T) {
	w := porttest.NewWire(t, "1500")
	near := netip.AddrPortFrom(linkLocal(t, w.Near).WithZone(porttest.Name), tunnelPort)
	peer := netip.AddrPortFrom(linkLocal(t, w.Far), tunnelPort)
	port := open(t, w.Near, udpsock.Config{Local: near})
	back := open(t, w.Far, udpsock.Config{
		Local: netip.AddrPortFrom(peer.Addr().WithZone(porttest.Name), tunnelPort),
	})
	pool := newPool(t, 8, packet.FrameSize2K)
	b := packet.NewBatch(pool, 8)
	add(t, b, 7, 100, peer)
	if err := port.Send(b); err != nil {
		t.Fatal(err)
	}
	awaitPackets(t, back, b, 1)
	if b.At(0).Peer != near.Addr().As16() {
		t.Errorf("from %v, want %v", b.At(0).Peer, near)
	}
	if err := back.Send(b); err != nil { // answers to where it came from
		t.Fatal(err)
	}
	awaitPackets(t, port, b, 1)
	b.Clear()
}

func linkLocal(t *testing.T, n *porttest.Namespace) netip.Addr {
	t.Helper()
	for word := range strings.FieldsSeq(n.IP("-o -6 addr show dev " + porttest.Name + " scope link")) {
		if prefix, err := netip.ParsePrefix(word); err == nil {
			return prefix.Addr()
		}
	}
	t.Fatal("no link-local address")
	return netip.Addr{}
}

// awaitPackets receives until b holds n packets.
func awaitPackets(t *testing.T, port *udpsock.Port, b *packet.Batch, n int) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); b.Len() < n; time.Sleep(time.Millisecond) {
		if err := port.Recv(b); err != nil {
			t.Fatalf("Recv: %v", err)
		}
		if time.Now().After(deadline) {
			t.Fatalf("received %d packets, want %d", b.Len(), n)
		}
	}
}

func TestOptions(t *testing.T) {
	n := porttest.NewNamespace(t)
	const buffer = 300_000
	local4, local6 := netip.MustParseAddrPort("127.0.0.1:0"), netip.MustParseAddrPort("[::1]:0")
	sizes := udpsock.Config{RecvBuffer: buffer, SendBuffer: buffer, Shared: true}
	for name, tt := range map[string]struct {
		local                   netip.AddrPort
		df                      bool
		level, discover, ttl    int
		wantDiscover, wantShare int
	}{
		"IPv4":    {local4, false, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_TTL, unix.IP_PMTUDISC_DONT, 1},
		"IPv4 DF": {local4, true, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_TTL, unix.IP_PMTUDISC_DO, 1},
		"IPv6":    {local6, false, unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_UNICAST_HOPS, unix.IPV6_PMTUDISC_DONT, 1},
		"IPv6 DF": {local6, true, unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_UNICAST_HOPS, unix.IPV6_PMTUDISC_DO, 1},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := sizes
			cfg.Local, cfg.DF = tt.local, tt.df
			fd := open(t, n, cfg).FD()
			for what, o := range map[string]struct{ level, opt, want int }{
				"path MTU discovery": {tt.level, tt.discover, tt.wantDiscover},
				"TTL":                {tt.level, tt.ttl, 64},
				"SO_REUSEPORT":       {unix.SOL_SOCKET, unix.SO_REUSEPORT, tt.wantShare},
				"SO_NO_CHECK":        {unix.SOL_SOCKET, unix.SO_NO_CHECK, 0},
				"receive buffer":     {unix.SOL_SOCKET, unix.SO_RCVBUF, 2 * buffer}, // doubled: socket(7)
				"send buffer":        {unix.SOL_SOCKET, unix.SO_SNDBUF, 2 * buffer},
			} {
				if got, err := unix.GetsockoptInt(fd, o.level, o.opt); err != nil || got != o.want {
					t.Errorf("%s is %d, %v; want %d", what, got, err, o.want)
				}
			}
		})
	}
}

func TestConfigErrors(t *testing.T) {
	local := netip.MustParseAddrPort("127.0.0.1:0")
	for name, cfg := range map[string]udpsock.Config{
		"no address":      {},
		"mapped address":  {Local: netip.MustParseAddrPort("[::ffff:127.0.0.1]:1")},
		"multicast":       {Local: netip.MustParseAddrPort("224.0.0.1:1")},
		"negative batch":  {Local: local, Batch: -1},
		"large batch":     {Local: local, Batch: 4097},
		"negative buffer": {Local: local, RecvBuffer: -1},
	} {
		if _, err := udpsock.Open(cfg); !errors.Is(err, udpsock.ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
	cfg := udpsock.Config{Local: netip.MustParseAddrPort("[fe80::1%nosuch]:1")}
	if _, err := udpsock.Open(cfg); err == nil || !strings.Contains(err.Error(), "nosuch") {
		t.Errorf("unknown zone: %v", err)
	}
}

// wantErr checks that opening fails for the cause and names each of the words.
func wantErr(t *testing.T, n *porttest.Namespace, cfg udpsock.Config, cause error, words ...string) {
	t.Helper()
	port, err := tryOpen(n, cfg)
	if err == nil {
		port.Close()
	}
	if !errors.Is(err, cause) {
		t.Fatalf("error is %v, want %v", err, cause)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("error %q does not say %q", err, word)
		}
	}
}

func TestPortTaken(t *testing.T) {
	n := porttest.NewNamespace(t)
	local := netip.MustParseAddrPort("127.0.0.1:8472")
	t.Run("by a process", func(t *testing.T) {
		open(t, n, udpsock.Config{Local: local})
		wantErr(t, n, udpsock.Config{Local: local}, unix.EADDRINUSE,
			"8472", fmt.Sprintf("process %d (", os.Getpid()))
		wantErr(t, n, udpsock.Config{Local: local, Shared: true}, unix.EADDRINUSE, "8472")
	})
	t.Run("by a kernel device", func(t *testing.T) {
		n.IP("link add flannel.1 type vxlan id 1 dev lo dstport 8472")
		n.IP("link set flannel.1 up")
		wantErr(t, n, udpsock.Config{Local: local}, unix.EADDRINUSE, "8472", "ip link del flannel.1")
		n.IP("link del flannel.1")
		open(t, n, udpsock.Config{Local: local}) // the cure works
	})
}

func TestAddressNotHere(t *testing.T) {
	n := porttest.NewNamespace(t)
	wantErr(t, n, udpsock.Config{Local: netip.MustParseAddrPort("192.0.2.7:8472")},
		unix.EADDRNOTAVAIL, "192.0.2.7:8472", "no interface")
}

// TestOpenUndoes fails after the socket was made, many times over.
func TestOpenUndoes(t *testing.T) {
	n := porttest.NewNamespace(t)
	before := openFDs(t)
	for range 10 {
		wantErr(t, n, udpsock.Config{Local: netip.MustParseAddrPort("192.0.2.7:8472")}, unix.EADDRNOTAVAIL)
	}
	if after := openFDs(t); after != before {
		t.Errorf("%d descriptors, %d before", after, before)
	}
}

func openFDs(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// TestSharedPort opens two sockets on one port and sees that they split the flows.
func TestSharedPort(t *testing.T) {
	n := porttest.NewNamespace(t)
	local := netip.MustParseAddrPort("127.0.0.1:8472")
	cfg := udpsock.Config{Local: local, Shared: true}
	a, b := open(t, n, cfg), open(t, n, cfg)
	pool := newPool(t, 128, packet.FrameSize2K)
	const flows = 64
	for range flows {
		f := newFar(t, n, netip.MustParseAddrPort("127.0.0.1:0"), local)
		if err := f.Send([]byte("flow")); err != nil {
			t.Fatal(err)
		}
	}
	inA, inB := packet.NewBatch(pool, flows), packet.NewBatch(pool, flows)
	if err := errors.Join(a.Recv(inA), b.Recv(inB)); err != nil {
		t.Fatal(err)
	}
	if inA.Len()+inB.Len() != flows || inA.Len() == 0 || inB.Len() == 0 {
		t.Errorf("%d and %d packets of %d", inA.Len(), inB.Len(), flows)
	}
	inA.Clear()
	inB.Clear()
}
