package tun_test

import (
	"bytes"
	"fmt"
	"testing"

	"golang.org/x/sys/unix"

	"flanx/dataplane/host"
	"flanx/dataplane/packet"
	"flanx/dataplane/porttest"
	"flanx/encap/header"
)

// kernelSide sends packets with a virtio-net header out of a device, as the
// stack does, by a packet socket (PACKET_VNET_HDR, packet(7)).
type kernelSide struct {
	fd   int
	addr unix.SockaddrLinklayer
}

func newKernelSide(t testing.TB, n *porttest.Namespace, index int, v6 bool) kernelSide {
	t.Helper()
	protocol := uint16(unix.ETH_P_IP)
	if v6 {
		protocol = unix.ETH_P_IPV6
	}
	k := kernelSide{addr: unix.SockaddrLinklayer{Protocol: protocol<<8 | protocol>>8, Ifindex: index}}
	n.Do(func() {
		var err error
		if k.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
			t.Fatal(err)
		}
	})
	t.Cleanup(func() { unix.Close(k.fd) })
	if err := unix.SetsockoptInt(k.fd, unix.SOL_PACKET, unix.PACKET_VNET_HDR, 1); err != nil {
		t.Fatal(err)
	}
	return k
}

func (k kernelSide) send(t testing.TB, vnet, pkt []byte) {
	t.Helper()
	msg := append(append([]byte(nil), vnet...), pkt...)
	if err := unix.Sendto(k.fd, msg, 0, &k.addr); err != nil {
		t.Fatalf("send %d bytes: %v", len(pkt), err)
	}
}

// superCases are super-packets, and the size of the pieces.
var superCases = map[string]struct {
	spec spec
	size int
}{
	"TCPv4":               {spec{payload: noise(10_000, 1), flags: header.TCPAck, seq: 1000, id: 77, fragment: 0x4000}, 1448},
	"TCPv4 exact pieces":  {spec{payload: noise(2896, 2), flags: header.TCPAck}, 1448},
	"TCPv4 one byte more": {spec{payload: noise(1449, 3), flags: header.TCPAck}, 1448},
	"TCPv4 one piece":     {spec{payload: noise(1448, 4), flags: header.TCPAck}, 1448},
	"TCPv4 largest":       {spec{payload: noise(65535-52, 5), options: 12, flags: header.TCPAck | header.TCPPsh}, 1448},
	"TCPv4 PSH FIN":       {spec{payload: noise(5000, 6), flags: header.TCPAck | header.TCPPsh | header.TCPFin}, 1400},
	"TCPv4 CWR":           {spec{payload: noise(5000, 7), flags: header.TCPAck | header.TCPCwr, tos: 2}, 1400},
	"TCPv4 ECE":           {spec{payload: noise(5000, 8), flags: header.TCPAck | header.TCPEce, tos: 1}, 1400},
	"TCPv4 options":       {spec{payload: noise(5000, 9), options: 40, flags: header.TCPAck}, 1400},
	"TCPv4 sequence wrap": {spec{payload: noise(9000, 10), seq: 0xffff_f000, flags: header.TCPAck}, 1000},
	"TCPv4 ID wrap":       {spec{payload: noise(9000, 11), id: 0xfffd, flags: header.TCPAck}, 1000},
	"TCPv4 odd pieces":    {spec{payload: noise(4001, 12), flags: header.TCPAck}, 999},
	"TCPv6":               {spec{v6: true, payload: noise(10_000, 13), flags: header.TCPAck | header.TCPPsh, seq: 5}, 1428},
	"TCPv6 largest":       {spec{v6: true, payload: noise(65535-32, 14), options: 12, flags: header.TCPAck}, 1416},
	"TCPv6 CWR":           {spec{v6: true, payload: noise(4000, 15), flags: header.TCPAck | header.TCPCwr, tos: 2}, 1000},
	"UDPv4":               {spec{udp: true, payload: noise(10_000, 16), id: 9}, 1472},
	"UDPv4 small":         {spec{udp: true, payload: noise(64*18, 17), fragment: 0x4000}, 18},
	"UDPv4 exact":         {spec{udp: true, payload: noise(3000, 18)}, 1000},
	"UDPv6":               {spec{udp: true, v6: true, payload: noise(10_001, 19)}, 1452},
}

// TestCutsAsTheKernelDoes sends each super-packet to a TUN without offloads,
// where the kernel cuts it, and to one with, where we do, and compares.
func TestCutsAsTheKernelDoes(t *testing.T) {
	n := porttest.NewNamespace(t)
	plain := openUp(t, n, host.TUNConfig{})
	offload := openDown(t, n, host.TUNConfig{Name: "fx1", Offload: true})
	n.IP("link set fx1 up")
	plainIndex, offloadIndex := linkIndex(t, n, device), linkIndex(t, n, "fx1")
	pool := newPool(t, 128, packet.FrameSize2K)
	for name, tt := range superCases {
		t.Run(name, func(t *testing.T) {
			tt.spec.partial = true
			pkt, vnet := tt.spec.build(), tt.spec.vnetHeader(tt.size)
			newKernelSide(t, n, plainIndex, tt.spec.v6).send(t, vnet, pkt)
			newKernelSide(t, n, offloadIndex, tt.spec.v6).send(t, vnet, pkt)
			want := recvAll(t, plain, packet.NewBatch(pool, 64))
			got := recvAll(t, offload, packet.NewBatch(pool, 64))
			if pieces := (len(tt.spec.payload) + tt.size - 1) / tt.size; len(want) != pieces {
				t.Fatalf("the kernel cut %d pieces, want %d", len(want), pieces)
			}
			comparePackets(t, got, want)
			checkFrames(t, pool)
		})
	}
}

func linkIndex(t testing.TB, n *porttest.Namespace, name string) (index int) {
	t.Helper()
	if _, err := fmt.Sscanf(n.IP("-o link show dev "+name), "%d:", &index); err != nil {
		t.Fatal(err)
	}
	return index
}

// comparePackets wants the same packets in the same order.
func comparePackets(t testing.TB, got, want [][]byte) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d packets, want %d", len(got), len(want))
	}
	for i := range want {
		if bytes.Equal(got[i], want[i]) {
			continue
		}
		head := min(len(got[i]), len(want[i]), 80)
		t.Fatalf("packet %d of %d and %d bytes differs:\ngot  % x\nwant % x", i, len(got[i]), len(want[i]),
			got[i][:head], want[i][:head])
	}
}

// TestSmallBatches cuts with room for less than one super-packet at a time.
func TestSmallBatches(t *testing.T) {
	for name, tt := range superCases {
		t.Run(name, func(t *testing.T) {
			port, kernel := newFake(t)
			pool := newPool(t, 128, packet.FrameSize2K)
			tt.spec.partial = true
			pkt, vnet := tt.spec.build(), tt.spec.vnetHeader(tt.size)
			kernel.give(t, vnet, pkt)
			want := recvAll(t, port, packet.NewBatch(pool, 128))
			for _, room := range []int{1, 2, 3, 7} {
				kernel.give(t, vnet, pkt)
				kernel.give(t, make([]byte, 10), spec{payload: []byte("behind"), flags: header.TCPAck}.build())
				got := recvAll(t, port, packet.NewBatch(pool, room))
				behind := got[len(got)-1]
				if !bytes.HasSuffix(behind, []byte("behind")) {
					t.Fatalf("room %d: the packet behind came as % x", room, behind)
				}
				comparePackets(t, got[:len(got)-1], want)
			}
			checkFrames(t, pool)
		})
	}
}

// TestPoolRunsOutAmidASuperPacket takes the frames away and gives them back.
func TestPoolRunsOutAmidASuperPacket(t *testing.T) {
	port, kernel := newFake(t)
	pool := newPool(t, 3, packet.FrameSize2K)
	s := spec{payload: noise(9_999, 1), flags: header.TCPAck, partial: true}
	kernel.give(t, s.vnetHeader(1000), s.build())
	b := packet.NewBatch(pool, 64)
	var got []byte
	for range 4 {
		if err := port.Recv(b); err != nil {
			t.Fatal(err)
		}
		if b.Len() > 3 {
			t.Fatalf("%d packets from 3 frames", b.Len())
		}
		for i := range b.Len() {
			got = append(got, b.Bytes(i)[s.headLen():]...)
		}
		b.Clear()
	}
	if !bytes.Equal(got, s.payload) {
		t.Errorf("%d bytes of payload arrived, not the %d that were sent", len(got), len(s.payload))
	}
	checkFrames(t, pool)
}

// TestUnsoundSuperPackets gives headers that no kernel should write (P31), and
// wants a drop: no panic, no read past the packet, and the next one intact.
func TestUnsoundSuperPackets(t *testing.T) {
	const needs = unix.VIRTIO_NET_HDR_F_NEEDS_CSUM
	const tcp4, tcp6 = unix.VIRTIO_NET_HDR_GSO_TCPV4, unix.VIRTIO_NET_HDR_GSO_TCPV6
	const udp = unix.VIRTIO_NET_HDR_GSO_UDP_L4
	v4 := spec{payload: noise(3000, 1), flags: header.TCPAck, partial: true}
	v6 := spec{v6: true, payload: noise(3000, 1), flags: header.TCPAck, partial: true}
	dgram := spec{udp: true, payload: noise(3000, 1), partial: true}
	change := func(s spec, at int, to ...byte) []byte {
		pkt := s.build()
		copy(pkt[at:], to)
		return pkt
	}
	for name, tt := range map[string]struct {
		vnet, pkt []byte
		want      packet.Reason
	}{
		"no checksum flag":          {rawVnet(0, tcp4, 40, 1000, 20, 16), v4.build(), packet.BadInner},
		"piece of nothing":          {rawVnet(needs, tcp4, 40, 0, 20, 16), v4.build(), packet.BadInner},
		"unknown kind":              {rawVnet(needs, 2, 40, 1000, 20, 16), v4.build(), packet.BadInner},
		"fragmentation offload":     {rawVnet(needs, unix.VIRTIO_NET_HDR_GSO_UDP, 28, 1000, 20, 6), dgram.build(), packet.BadInner},
		"start in the IP header":    {rawVnet(needs, tcp4, 40, 1000, 19, 16), v4.build(), packet.BadInner},
		"start at zero":             {rawVnet(needs, tcp4, 40, 1000, 0, 16), v4.build(), packet.BadInner},
		"start past the header":     {rawVnet(needs, tcp4, 40, 1000, 24, 16), v4.build(), packet.BadInner},
		"start past the packet":     {rawVnet(needs, tcp4, 40, 1000, 65535, 16), v4.build(), packet.BadInner},
		"start near the end":        {rawVnet(needs, tcp6, 40, 1000, 3050, 16), v6.build(), packet.BadInner},
		"checksum elsewhere":        {rawVnet(needs, tcp4, 40, 1000, 20, 6), v4.build(), packet.BadInner},
		"checksum far away":         {rawVnet(needs, tcp4, 40, 1000, 20, 65535), v4.build(), packet.BadInner},
		"IPv6 said to be IPv4":      {rawVnet(needs, tcp4, 60, 1000, 40, 16), v6.build(), packet.BadInner},
		"IPv4 said to be IPv6":      {rawVnet(needs, tcp6, 40, 1000, 20, 16), v4.build(), packet.BadInner},
		"UDP said to be TCP":        {rawVnet(needs, tcp4, 40, 1000, 20, 16), dgram.build(), packet.BadInner},
		"TCP said to be UDP":        {rawVnet(needs, udp, 28, 1000, 20, 6), v4.build(), packet.BadInner},
		"IP version 7":              {rawVnet(needs, udp, 28, 1000, 20, 6), change(dgram, 0, 0x75), packet.BadInner},
		"TCP header of nothing":     {rawVnet(needs, tcp4, 40, 1000, 20, 16), change(v4, 32, 0x00), packet.BadInner},
		"TCP header too short":      {rawVnet(needs, tcp4, 40, 1000, 20, 16), change(v4, 32, 0x40), packet.BadInner},
		"IPv4 header of nothing":    {rawVnet(needs, tcp4, 40, 1000, 0, 16), change(v4, 0, 0x40), packet.BadInner},
		"IPv4 length is not so":     {rawVnet(needs, tcp4, 40, 1000, 20, 16), change(v4, 2, 0x10, 0x00), packet.BadInner},
		"IPv6 length is not so":     {rawVnet(needs, tcp6, 60, 1000, 40, 16), change(v6, 4, 0, 0), packet.BadInner},
		"a fragment":                {rawVnet(needs, tcp4, 40, 1000, 20, 16), change(v4, 6, 0x20, 0), packet.BadInner},
		"piece beyond the frame":    {rawVnet(needs, tcp4, 40, 2000, 20, 16), v4.build(), packet.Truncated},
		"headers beyond reason":     {rawVnet(needs, tcp6, 60, 1000, 300, 16), change(v6, 312, 0x50), packet.BadInner},
		"empty packet":              {rawVnet(needs, tcp4, 40, 1000, 20, 16), nil, packet.BadInner},
		"one byte":                  {rawVnet(needs, tcp4, 40, 1000, 20, 16), []byte{0x45}, packet.BadInner},
		"IPv4 header only":          {rawVnet(needs, tcp4, 40, 1000, 20, 16), v4.build()[:20], packet.BadInner},
		"whole, checksum outside":   {rawVnet(needs, 0, 0, 0, 1400, 200), v4.build()[:1500], packet.BadInner},
		"whole, checksum at end":    {rawVnet(needs, 0, 0, 0, 1498, 1), v4.build()[:1500], packet.BadInner},
		"whole, empty":              {rawVnet(needs, 0, 0, 0, 0, 0), nil, packet.BadInner},
		"whole, beyond the frame":   {rawVnet(0, 0, 0, 0, 0, 0), noise(1793, 1), packet.Truncated},
		"whole, as long as can be":  {rawVnet(0, 0, 0, 0, 0, 0), noise(1<<16, 1), packet.Truncated},
		"whole, longer than can be": {rawVnet(0, 0, 0, 0, 0, 0), noise(70_000, 1), packet.Truncated},
	} {
		t.Run(name, func(t *testing.T) {
			port, kernel := newFake(t)
			pool := newPool(t, 16, packet.FrameSize2K)
			b := packet.NewBatch(pool, 16)
			good := spec{payload: []byte("good"), flags: header.TCPAck}.build()
			kernel.give(t, tt.vnet, tt.pkt)
			kernel.give(t, make([]byte, 10), good)
			got := recvAll(t, port, b)
			if len(got) != 1 || !bytes.Equal(got[0], good) {
				t.Errorf("%d packets passed, want the good one only", len(got))
			}
			if b.Drops()[tt.want] != 1 {
				t.Errorf("drops are %v, want one %v", *b.Drops(), tt.want)
			}
			checkFrames(t, pool)
		})
	}
}

// TestCompletesChecksums gives packets whose checksum the stack left to us.
func TestCompletesChecksums(t *testing.T) {
	port, kernel := newFake(t)
	b := packet.NewBatch(newPool(t, 4, packet.FrameSize2K), 4)
	for name, s := range map[string]spec{
		"TCPv4": {payload: noise(777, 1), flags: header.TCPAck}, "TCPv6": {v6: true, payload: noise(778, 1)},
		"UDPv4": {udp: true, payload: noise(779, 1)}, "UDPv6": {v6: true, udp: true, payload: noise(780, 1)},
		"empty": {flags: header.TCPAck}, "one byte": {udp: true, payload: []byte{1}},
	} {
		whole := s
		whole.partial = true
		vnet := whole.vnetHeader(0)
		vnet[1] = unix.VIRTIO_NET_HDR_GSO_NONE
		kernel.give(t, vnet, whole.build())
		got := recvAll(t, port, b)
		if len(got) != 1 || !bytes.Equal(got[0], s.build()) {
			t.Errorf("%s: the checksum is wrong", name)
		}
	}
}

// TestNotOpenedWithOffloads reads messages too short for a header.
func TestNotOpenedWithOffloads(t *testing.T) {
	port, kernel := newFake(t)
	pool := newPool(t, 4, packet.FrameSize2K)
	if err := unix.Send(kernel.fd, make([]byte, 9), 0); err != nil {
		t.Fatal(err)
	}
	b := packet.NewBatch(pool, 4)
	if err := port.Recv(b); err == nil || b.Len() != 0 {
		t.Errorf("Recv: %v, %d packets", err, b.Len())
	}
	checkFrames(t, pool)
}
