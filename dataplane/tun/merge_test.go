package tun_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"flanx/dataplane/host"
	"flanx/dataplane/packet"
	"flanx/dataplane/porttest"
	"flanx/dataplane/tun"
	"flanx/encap/header"
)

const (
	ack     = header.TCPAck
	ackPush = header.TCPAck | header.TCPPsh
)

// stream returns the n-th packet of a flow whose packets carry size bytes each.
func stream(base spec, n, size int) spec {
	base.payload = noise(size, uint64(n)+1)
	base.seq += uint32(n * size)
	base.id += uint16(n)
	if base.flags == 0 && !base.udp {
		base.flags = ack
	}
	return base
}

// with changes one packet.
func with(s spec, change func(*spec)) spec {
	change(&s)
	return s
}

// TestMergesRuns sends packets and looks at how many of them each write carries.
func TestMergesRuns(t *testing.T) {
	tcp, tcp6 := spec{port: 1}, spec{v6: true, port: 1}
	udp, udp6 := spec{udp: true, port: 1}, spec{udp: true, v6: true, port: 1}
	other := spec{port: 2}
	last := func(s spec, n int) spec { return with(s, func(s *spec) { s.payload = s.payload[:n] }) }
	flags := func(s spec, f uint8) spec { return with(s, func(s *spec) { s.flags = f }) }
	run := func(base spec, from, to, size int) (run []spec) {
		for n := from; n < to; n++ {
			run = append(run, stream(base, n, size))
		}
		return run
	}
	join := slices.Concat[[]spec]
	for name, tt := range map[string]struct {
		in   []spec
		want []int // packets in each write, in order
	}{
		"TCPv4":                  {run(tcp, 0, 10, 1000), []int{10}},
		"TCPv6":                  {run(tcp6, 0, 10, 1000), []int{10}},
		"UDPv4":                  {run(udp, 0, 10, 1000), []int{10}},
		"UDPv6":                  {run(udp6, 0, 10, 1000), []int{10}},
		"one":                    {run(tcp, 0, 1, 1000), []int{1}},
		"no more than 64 pieces": {run(udp, 0, 70, 18), []int{64, 6}},
		"no more than 64 KiB":    {run(tcp, 0, 50, 1448), []int{45, 5}},
		"a short one ends it":    {join(run(tcp, 0, 3, 1000), []spec{last(stream(tcp, 3, 1000), 10)}, run(tcp, 4, 6, 1000)), []int{4, 2}},
		"a short datagram ends":  {join(run(udp, 0, 3, 1000), []spec{last(stream(udp, 3, 1000), 10)}, run(udp, 4, 6, 1000)), []int{4, 2}},
		"a longer one starts anew": {
			join([]spec{last(stream(udp, 0, 1000), 10)}, run(udp, 1, 3, 1000)), []int{1, 2},
		},
		"PSH ends it":             {join(run(tcp, 0, 3, 1000), []spec{flags(stream(tcp, 3, 1000), ackPush)}, run(tcp, 4, 6, 1000)), []int{4, 2}},
		"PSH on the first":        {join([]spec{flags(stream(tcp, 0, 1000), ackPush)}, run(tcp, 1, 3, 1000)), []int{1, 2}},
		"a gap":                   {join(run(tcp, 0, 3, 1000), run(tcp, 4, 6, 1000)), []int{3, 2}},
		"backwards":               {join(run(tcp, 3, 5, 1000), run(tcp, 0, 2, 1000)), []int{2, 2}},
		"twice the same":          {join(run(tcp, 0, 2, 1000), run(tcp, 1, 2, 1000)), []int{2, 1}},
		"FIN stands alone":        {join(run(tcp, 0, 3, 1000), []spec{flags(stream(tcp, 3, 1000), ack|header.TCPFin)}), []int{3, 1}},
		"SYN stands alone":        {[]spec{flags(stream(tcp, 0, 0), header.TCPSyn), flags(stream(tcp, 0, 0), header.TCPSyn)}, []int{1, 1}},
		"URG stands alone":        {join(run(tcp, 0, 2, 1000), []spec{flags(stream(tcp, 2, 1000), ack|header.TCPUrg)}, run(tcp, 3, 5, 1000)), []int{2, 1, 2}},
		"CWR stands alone":        {join(run(tcp, 0, 2, 1000), []spec{flags(stream(tcp, 2, 1000), ack|header.TCPCwr)}, run(tcp, 3, 5, 1000)), []int{2, 1, 2}},
		"pure ACKs stand alone":   {run(tcp, 0, 3, 0), []int{1, 1, 1}},
		"empty datagrams too":     {run(udp, 0, 3, 0), []int{1, 1, 1}},
		"other options":           {join(run(tcp, 0, 2, 1000), []spec{with(stream(tcp, 2, 1000), func(s *spec) { s.options = 12 })}), []int{2, 1}},
		"same options":            {run(spec{port: 1, options: 12}, 0, 9, 1000), []int{9}},
		"other TOS":               {join(run(tcp, 0, 2, 1000), []spec{with(stream(tcp, 2, 1000), func(s *spec) { s.tos = 3 })}), []int{2, 1}},
		"other traffic class":     {join(run(tcp6, 0, 2, 1000), []spec{with(stream(tcp6, 2, 1000), func(s *spec) { s.tos = 3 })}), []int{2, 1}},
		"ID with a gap":           {join(run(tcp, 0, 2, 1000), []spec{with(stream(tcp, 2, 1000), func(s *spec) { s.id = 99 })}), []int{2, 1}},
		"ID with a gap but DF":    {join(run(spec{port: 1, fragment: 0x4000}, 0, 2, 1000), []spec{with(stream(spec{port: 1, fragment: 0x4000}, 2, 1000), func(s *spec) { s.id = 99 })}), []int{3}},
		"DF and not":              {join(run(tcp, 0, 2, 1000), []spec{with(stream(tcp, 2, 1000), func(s *spec) { s.fragment = 0x4000 })}), []int{2, 1}},
		"fragments":               {run(spec{udp: true, fragment: 0x2000}, 0, 3, 1000), []int{1, 1, 1}},
		"two flows":               {[]spec{stream(tcp, 0, 9), stream(other, 0, 9), stream(tcp, 1, 9), stream(other, 1, 9)}, []int{2, 2}},
		"TCP and UDP of one port": {[]spec{stream(tcp, 0, 9), stream(udp, 0, 9), stream(tcp, 1, 9), stream(udp, 1, 9)}, []int{2, 2}},
		"sequence wrap":           {run(spec{port: 1, seq: 0xffff_ff00}, 0, 5, 1000), []int{5}},
	} {
		t.Run(name, func(t *testing.T) {
			port, kernel := newFake(t)
			pool := newPool(t, 128, packet.FrameSize2K)
			b := packet.NewBatch(pool, 128)
			in := make([][]byte, 0, len(tt.in))
			for _, s := range tt.in {
				in = append(in, s.build())
				load(t, b, in[len(in)-1])
			}
			if err := port.Send(b); err != nil {
				t.Fatal(err)
			}
			writes := kernel.taken(t)
			var got []int
			for _, w := range writes {
				got = append(got, pieces(w))
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("writes carry %v packets, want %v", got, tt.want)
			}
			sameFlows(t, cutAgain(t, writes), in)
			checkFrames(t, pool)
		})
	}
}

// pieces returns how many packets a write carries.
func pieces(w written) int {
	size := int(binary.NativeEndian.Uint16(w.vnet[4:]))
	if w.vnet[1] == unix.VIRTIO_NET_HDR_GSO_NONE {
		return 1
	}
	head := int(binary.NativeEndian.Uint16(w.vnet[2:]))
	return (len(w.pkt) - head + size - 1) / size
}

// cutter is another port, which cuts again what was merged.
type cutter struct {
	port   *tun.Offload
	kernel fake
	b      *packet.Batch
}

func newCutter(t testing.TB) cutter {
	t.Helper()
	port, kernel := newFake(t)
	return cutter{port, kernel, packet.NewBatch(newPool(t, 64, packet.FrameSize2K), 64)}
}

// cut returns the packets that were written.
func (c cutter) cut(t testing.TB, writes []written) (all [][]byte) {
	t.Helper()
	for _, w := range writes {
		c.kernel.give(t, w.vnet, w.pkt)
		all = append(all, recvAll(t, c.port, c.b)...)
	}
	for reason, n := range c.b.Drops() {
		if n != 0 {
			t.Fatalf("%d packets written are dropped when read: %v", n, packet.Reason(reason))
		}
	}
	return all
}

// cutAgain is cut with a port of its own.
func cutAgain(t testing.TB, writes []written) [][]byte {
	t.Helper()
	return newCutter(t).cut(t, writes)
}

// sameFlows wants the same packets, in the same order within each flow. With DF
// the ID of an IPv4 packet may have changed.
func sameFlows(t testing.TB, got, want [][]byte) {
	t.Helper()
	byFlow := func(pkts [][]byte) map[string][][]byte {
		flows := make(map[string][][]byte)
		for _, pkt := range pkts {
			key, plain := flowOf(pkt)
			flows[key] = append(flows[key], plain)
		}
		return flows
	}
	gotFlows, wantFlows := byFlow(got), byFlow(want)
	if len(got) != len(want) || len(gotFlows) != len(wantFlows) {
		t.Fatalf("%d packets of %d flows, want %d of %d", len(got), len(gotFlows), len(want), len(wantFlows))
	}
	for key, pkts := range wantFlows {
		comparePackets(t, gotFlows[key], pkts)
	}
}

// flowOf names a packet's flow, and returns the packet without what may change.
func flowOf(pkt []byte) (key string, plain []byte) {
	plain = append([]byte(nil), pkt...)
	switch {
	case len(pkt) >= 24 && pkt[0] == 0x45:
		if pkt[6]&0x40 != 0 {
			copy(plain[4:6], []byte{0, 0})
			copy(plain[10:12], []byte{0, 0})
		}
		return fmt.Sprintf("%x %x", pkt[9:10], pkt[12:24]), plain
	case len(pkt) >= 44 && pkt[0]>>4 == 6:
		return fmt.Sprintf("%x %x", pkt[6:7], pkt[8:44]), plain
	}
	return "", plain
}

// TestDamagedPacketsStayDamaged puts a packet with a wrong checksum into a run:
// it must arrive as it was, for the receiver to see, and the rest intact (T6).
func TestDamagedPacketsStayDamaged(t *testing.T) {
	for name, base := range map[string]spec{
		"TCPv4": {port: 1}, "TCPv6": {port: 1, v6: true}, "UDPv4": {port: 1, udp: true}, "UDPv6": {port: 1, v6: true, udp: true},
	} {
		for _, bad := range []int{0, 1, 4, 9} {
			t.Run(fmt.Sprintf("%s packet %d", name, bad), func(t *testing.T) {
				port, kernel := newFake(t)
				pool := newPool(t, 16, packet.FrameSize2K)
				b := packet.NewBatch(pool, 16)
				var in [][]byte
				for n := range 10 {
					pkt := stream(base, n, 500).build()
					if n == bad {
						pkt[len(pkt)-1] ^= 0x10
					}
					in = append(in, pkt)
					load(t, b, pkt)
				}
				if err := port.Send(b); err != nil {
					t.Fatal(err)
				}
				writes := kernel.taken(t)
				for _, w := range writes {
					if pieces(w) == 1 && w.vnet[0] != 0 {
						t.Error("a lone packet is written as if its checksum were ours to make")
					}
				}
				sameFlows(t, cutAgain(t, writes), in)
			})
		}
	}
}

// TestUDPWithoutChecksum is not merged: each piece would get one.
func TestUDPWithoutChecksum(t *testing.T) {
	port, kernel := newFake(t)
	b := packet.NewBatch(newPool(t, 8, packet.FrameSize2K), 8)
	var in [][]byte
	for n := range 4 {
		pkt := stream(spec{udp: true}, n, 100).build()
		pkt[26], pkt[27] = 0, 0
		in = append(in, pkt)
		load(t, b, pkt)
	}
	if err := port.Send(b); err != nil {
		t.Fatal(err)
	}
	writes := kernel.taken(t)
	if len(writes) != 4 {
		t.Errorf("%d writes, want 4", len(writes))
	}
	sameFlows(t, cutAgain(t, writes), in)
}

// TestAnyPacketsInAnyOrder sends batches of packets from many flows, good, bad
// and strange, and finds each flow as it was.
func TestAnyPacketsInAnyOrder(t *testing.T) {
	rounds := 300
	if testing.Short() {
		rounds = 30
	}
	r := rand.New(rand.NewPCG(1, 2))
	for round := range rounds {
		port, kernel := newFake(t)
		pool := newPool(t, 512, packet.FrameSize2K)
		b := packet.NewBatch(pool, 512)
		flows := make([]spec, 1+r.IntN(100))
		for i := range flows {
			flows[i] = spec{port: uint16(i), udp: r.IntN(3) == 0, v6: r.IntN(2) == 0, fragment: uint16(r.IntN(2)) * 0x4000}
		}
		var in [][]byte
		for range r.IntN(500) {
			f := &flows[r.IntN(len(flows))]
			pkt := odd(r, f).build()
			if r.IntN(20) == 0 {
				pkt[r.IntN(len(pkt))] ^= byte(1 + r.IntN(255)) // damage, anywhere
			}
			in = append(in, pkt)
			load(t, b, pkt)
		}
		if err := port.Send(b); err != nil {
			t.Fatal(err)
		}
		sameFlows(t, cutAgain(t, kernel.taken(t)), in)
		checkFrames(t, pool)
		if t.Failed() {
			t.Fatalf("round %d", round)
		}
		port.Close()
	}
}

// odd returns a flow's next packet, mostly an ordinary one.
func odd(r *rand.Rand, f *spec) spec {
	s := *f
	s.flags = ack
	s.payload = noise([]int{0, 1, 99, 100, 100, 100, 100, 1000}[r.IntN(8)], r.Uint64())
	switch r.IntN(15) {
	case 0:
		s.flags = uint8(r.Uint32())
	case 1:
		s.seq += 7
	case 2:
		s.tos = uint8(r.Uint32())
	case 3:
		s.options = 4 * r.IntN(11)
	case 4:
		s.flags = ackPush
	}
	if s.udp {
		s.options = 0
	}
	f.seq += uint32(len(s.payload))
	f.id++
	return s
}

// TestMoreFlowsThanRuns sends one packet each of many flows, twice.
func TestMoreFlowsThanRuns(t *testing.T) {
	port, kernel := newFake(t)
	pool := newPool(t, 2048, packet.FrameSize2K)
	b := packet.NewBatch(pool, 2048)
	var in [][]byte
	for n := range 2000 { // more than 1,024 packets, more than 64 flows
		flow := spec{port: uint16(n % 150), udp: true}
		in = append(in, stream(flow, n/150, 40).build())
		load(t, b, in[n])
	}
	if err := port.Send(b); err != nil {
		t.Fatal(err)
	}
	sameFlows(t, cutAgain(t, kernel.taken(t)), in)
	checkFrames(t, pool)
}

// TestKernelTakesMergedPackets sends runs into a TUN and lets the kernel forward
// them to another without offloads, where it must cut them again.
func TestKernelTakesMergedPackets(t *testing.T) {
	for name, base := range map[string]spec{
		"TCPv4": {port: 1}, "TCPv6": {port: 1, v6: true}, "UDPv4": {port: 1, udp: true}, "UDPv6": {port: 1, v6: true, udp: true},
		"TCPv4 options": {port: 1, options: 12, fragment: 0x4000},
	} {
		t.Run(name, func(t *testing.T) {
			n := porttest.NewNamespace(t)
			in, out := forwarder(t, n)
			pool := newPool(t, 256, packet.FrameSize2K)
			b := packet.NewBatch(pool, 64)
			for _, size := range []int{1, 18, 1000, 1400} {
				var sent [][]byte
				for k := range 40 {
					pkt := stream(base, k, size).build()
					load(t, b, pkt)
					sent = append(sent, hop(pkt))
				}
				if err := in.Send(b); err != nil || b.Drops()[packet.TunWriteFailed] != 0 {
					t.Fatalf("Send: %v, %d refused", err, b.Drops()[packet.TunWriteFailed])
				}
				got := slices.DeleteFunc(recvAll(t, out, packet.NewBatch(pool, 64)), isChatter)
				sameFlows(t, got, sent)
			}
			checkFrames(t, pool)
		})
	}
}

// forwarder returns the port of a TUN with offloads and that of one without,
// between which the kernel forwards.
func forwarder(t testing.TB, n *porttest.Namespace) (in, out porttest.Port) {
	t.Helper()
	out = openUp(t, n, host.TUNConfig{})
	in = openDown(t, n, host.TUNConfig{Name: "fx1", Offload: true})
	for _, name := range []string{"all", "default", device, "fx1"} {
		n.Sysctl("net/ipv6/conf/"+name+"/disable_ipv6", "0")
	}
	n.IP("link set fx1 up")
	n.IP("addr add 10.42.1.1/24 dev fx1")
	n.IP("route add 10.42.2.0/24 dev " + device)
	n.IP("-6 addr flush dev " + device)
	n.IP("-6 addr add fd42:1::1/64 dev fx1 nodad")
	n.IP("-6 route add fd42:2::/64 dev " + device)
	n.Sysctl("net/ipv4/ip_forward", "1")
	n.Sysctl("net/ipv6/conf/all/forwarding", "1")
	pool := newPool(t, 64, packet.FrameSize2K)
	recvAll(t, out, packet.NewBatch(pool, 64)) // what the devices said when they came up
	return in, out
}

// isChatter says whether the kernel sent a packet of its own accord.
func isChatter(pkt []byte) bool {
	return !bytes.Contains(pkt, src4.AsSlice()) && !bytes.Contains(pkt, src6.AsSlice())
}

// hop does to a packet what a router does.
func hop(pkt []byte) []byte {
	pkt = append([]byte(nil), pkt...)
	if pkt[0]>>4 == 6 {
		pkt[7]--
		return pkt
	}
	pkt[8]--
	pkt[10], pkt[11] = 0, 0
	binary.BigEndian.PutUint16(pkt[10:], slowChecksum(pkt[:20]))
	return pkt
}

// TestMergeDoesNotAllocate holds for a batch of several flows.
func TestMergeDoesNotAllocate(t *testing.T) {
	port, kernel := newFake(t)
	b := packet.NewBatch(newPool(t, 64, packet.FrameSize2K), 64)
	var in [][]byte
	for n := range 60 {
		in = append(in, stream(spec{port: uint16(n % 5), udp: n%2 == 0}, n/5, 100).build())
	}
	buf := make([]byte, 1<<16)
	allocs := testing.AllocsPerRun(100, func() {
		for _, pkt := range in {
			i, space, _ := b.Extend()
			b.Resize(i, copy(space, pkt))
		}
		if err := port.Send(b); err != nil {
			panic(err)
		}
		for n := 1; n > 0; {
			n, _ = unix.Read(kernel.fd, buf)
		}
	})
	if allocs > 0 {
		t.Errorf("Send allocates %v times", allocs)
	}
}

// FuzzMerge sends any packets twice over, and a good run around them.
func FuzzMerge(f *testing.F) {
	for _, s := range []spec{{}, {v6: true}, {udp: true}, {v6: true, udp: true}, {options: 40}, {fragment: 0x2001}} {
		f.Add(stream(s, 0, 100).build(), stream(s, 1, 100).build())
	}
	f.Add([]byte{}, []byte{0x45})
	port, kernel := newFake(f)
	cutter := newCutter(f)
	pool := newPool(f, 16, packet.FrameSize2K)
	b := packet.NewBatch(pool, 16)
	f.Fuzz(func(t *testing.T, x, y []byte) {
		const space = packet.FrameSize2K - packet.Headroom
		if len(x) > space || len(y) > space {
			return
		}
		good := spec{port: 4242}
		in := [][]byte{stream(good, 0, 50).build(), x, y, stream(good, 1, 50).build(), y, x}
		for _, pkt := range in {
			load(t, b, pkt)
		}
		if err := port.Send(b); err != nil {
			t.Fatal(err)
		}
		checkFrames(t, pool)
		got, want := cutter.cut(t, kernel.taken(t)), slices.Clone(in)
		for i := range want {
			_, want[i] = flowOf(want[i])
		}
		for i := range got {
			_, got[i] = flowOf(got[i])
		}
		sortPackets(got)
		sortPackets(want)
		comparePackets(t, got, want)
	})
}

func sortPackets(pkts [][]byte) { slices.SortFunc(pkts, bytes.Compare) }
