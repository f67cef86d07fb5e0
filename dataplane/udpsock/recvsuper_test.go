package udpsock_test

import (
	"bytes"
	"net/netip"
	"testing"
	"time"

	"flanx/dataplane/packet"
	"flanx/dataplane/porttest"
	"flanx/dataplane/udpsock"
	"flanx/encap/encaptest"
	"flanx/encap/header"
)

// tcp builds a sound inner TCP packet of that length behind 22 bytes of tunnel.
func tcp(n int) []byte {
	inner := encaptest.Inner{Version: 4, Protocol: header.ProtocolTCP, Len: n}.Build()
	header.TCP(inner[header.IPv4Len:]).SetFlags(header.TCPAck)
	segment := header.TCP(inner[header.IPv4Len:])
	segment.SetChecksum(0)
	segment.SetChecksum(^header.Sum(segment, header.IPv4(inner).PseudoSum(header.ProtocolTCP, len(segment))))
	return append(make([]byte, 22), inner...)
}

// Super-packets among others come out in order, and cut, also when a batch is too
// small for all the pieces. What is no TCP stays a drop.
func TestRecvCuts(t *testing.T) {
	n := porttest.NewNamespace(t)
	n.IP("link set lo up")
	lo := netip.MustParseAddr("127.0.0.1")
	local, peer := netip.AddrPortFrom(lo, tunnelPort), netip.AddrPortFrom(lo, 4001)
	port := open(t, n, udpsock.Config{Local: local, TunnelHeader: 22, MaxInner: 1450})
	f := newFar(t, n, peer, local)
	pool := newPool(t, 64, packet.FrameSize2K)
	b := packet.NewBatch(pool, 16)

	send := func(pkts ...[]byte) {
		for _, p := range pkts {
			if err := f.Send(p); err != nil {
				t.Fatal(err)
			}
		}
	}
	collect := func(want int) (payload []byte, packets int) {
		for deadline := time.Now().Add(5 * time.Second); len(payload) < want && time.Now().Before(deadline); {
			if err := port.Recv(b); err != nil {
				t.Fatal(err)
			}
			for i := range b.Len() {
				if !b.Live(i) {
					continue
				}
				p := b.Bytes(i)
				if len(p) > 22+1450 || b.At(i).PeerPort != peer.Port() || b.At(i).Peer != peer.Addr().As16() {
					t.Errorf("%d bytes from port %d", len(p), b.At(i).PeerPort)
				}
				payload = append(payload, p[22+40:]...)
				packets++
			}
			b.Clear()
		}
		return payload, packets
	}

	send(tcp(20000)) // the first makes the port look out for more
	awaitPackets(t, port, b, 1)
	b.Clear()
	if got := b.Drops()[packet.Truncated]; got != 1 {
		t.Fatalf("%d dropped as truncated, want the first", got)
	}
	var want []byte
	var sent [][]byte
	for _, size := range []int{100, 40000, 1450, 1451, 60000, 41} {
		sent = append(sent, tcp(size))
		want = append(want, sent[len(sent)-1][22+40:]...)
	}
	send(sent...)
	got, packets := collect(len(want))
	if !bytes.Equal(got, want) || packets != 1+29+1+2+43+1 {
		t.Errorf("%d bytes in %d packets, want %d in %d, as sent", len(got), packets, len(want), 77)
	}
	send(append(make([]byte, 22), encaptest.Inner{Version: 4, Protocol: header.ProtocolUDP, Len: 5000}.Build()...), tcp(50))
	if got, _ := collect(10); len(got) != 10 || b.Drops()[packet.Truncated] != 2 {
		t.Errorf("%d bytes arrived, %d dropped", len(got), b.Drops()[packet.Truncated])
	}
	checkFrames(t, pool, port)
}

// After a while without any the port takes many datagrams at once again, and what
// does not fit is a drop again.
func TestRecvStopsCutting(t *testing.T) {
	n := porttest.NewNamespace(t)
	n.IP("link set lo up")
	lo := netip.MustParseAddr("127.0.0.1")
	local, peer := netip.AddrPortFrom(lo, tunnelPort), netip.AddrPortFrom(lo, 4001)
	port := open(t, n, udpsock.Config{Local: local, TunnelHeader: 22, MaxInner: 1450})
	f := newFar(t, n, peer, local)
	b := packet.NewBatch(newPool(t, 64, packet.FrameSize2K), 64)
	step := func(pkt []byte) {
		if err := f.Send(pkt); err != nil {
			t.Fatal(err)
		}
		awaitPackets(t, port, b, 1)
		b.Clear()
	}
	step(tcp(5000))
	for range 1100 {
		step(tcp(60))
	}
	step(tcp(5000))
	if got := b.Drops()[packet.Truncated]; got != 2 {
		t.Errorf("%d dropped as truncated, want 2", got)
	}
}
