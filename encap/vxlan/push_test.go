package vxlan

import (
	"math/rand/v2"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"flanx/dataplane/packet"
	"flanx/encap"
	"flanx/encap/encaptest"
	"flanx/encap/header"
)

// batch returns a batch holding the packets.
func batch(t *testing.T, data ...[]byte) *packet.Batch {
	t.Helper()
	pool, err := packet.NewPool(len(data), packet.FrameSize2K)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pool.Close() })
	b := packet.NewBatch(pool, len(data))
	for _, d := range data {
		i, space, _ := b.Extend()
		b.Resize(i, copy(space, d))
	}
	return b
}

// expect holds that the first packet of b was dropped for the reason alone.
func expect(t *testing.T, b *packet.Batch, reason packet.Reason) {
	t.Helper()
	var want [packet.NumReasons]uint64
	want[reason] = 1
	if b.Live(0) || *b.Drops() != want {
		t.Errorf("live %v, drops %v; want %s", b.Live(0), *b.Drops(), reason)
	}
}

// push wraps one packet and returns the frame.
func push(t *testing.T, c *Codec, way encap.Peer, inner []byte) []byte {
	t.Helper()
	path, err := c.Compile(way)
	if err != nil {
		t.Fatal(err)
	}
	b := batch(t, inner)
	b.At(0).Hash = header.FlowHash(inner)
	c.Push(b, []encap.Path{path})
	if !b.Live(0) {
		t.Fatalf("dropped: %v", *b.Drops())
	}
	return b.Bytes(0)
}

// TestWire holds that what we send is what the kernel sends, as gopacket sees it.
func TestWire(t *testing.T) {
	a, _ := nodes(t, Config{})
	for _, version := range []int{4, 6} {
		inner := encaptest.Inner{Version: version, Protocol: header.ProtocolUDP, Len: 100}.Build()
		for name, way := range map[string]encap.Peer{"over IPv4": way4, "over IPv6": way6} {
			p := encaptest.CheckForeign(t, push(t, a, way, inner))
			switch ip := p.NetworkLayer().(type) {
			case *layers.IPv4:
				if ip.TTL != 64 || ip.TOS != 0 || ip.Flags != 0 || ip.FragOffset != 0 {
					t.Errorf("%s: TTL %d TOS %d flags %v", name, ip.TTL, ip.TOS, ip.Flags)
				}
			case *layers.IPv6:
				if ip.HopLimit != 64 || ip.TrafficClass != 0 {
					t.Errorf("%s: hop limit %d class %d", name, ip.HopLimit, ip.TrafficClass)
				}
			}
			checkInside(t, p, way, version)
		}
	}
}

func checkInside(t *testing.T, p gopacket.Packet, way encap.Peer, version int) {
	t.Helper()
	udp := p.TransportLayer().(*layers.UDP)
	if udp.DstPort != DefaultPort || udp.SrcPort < DefaultSrcPortMin || udp.SrcPort > DefaultSrcPortMax || udp.Checksum == 0 {
		t.Errorf("UDP %d to %d, checksum %#x", udp.SrcPort, udp.DstPort, udp.Checksum)
	}
	vx, ok := p.Layer(layers.LayerTypeVXLAN).(*layers.VXLAN)
	if !ok || !vx.ValidIDFlag || vx.VNI != DefaultVNI || vx.GBPExtension || vx.GBPGroupPolicyID != 0 {
		t.Fatalf("VXLAN %+v", vx)
	}
	own := vtepA4
	if way.Remote.Is6() {
		own = vtepA6
	}
	eth := p.Layers()[4].(*layers.Ethernet)
	if encap.MAC(eth.DstMAC) != way.VTEP || encap.MAC(eth.SrcMAC) != own {
		t.Errorf("inner Ethernet %s to %s", eth.SrcMAC, eth.DstMAC)
	}
	if want := map[int]layers.EthernetType{4: layers.EthernetTypeIPv4, 6: layers.EthernetTypeIPv6}[version]; eth.EthernetType != want {
		t.Errorf("inner EtherType %v, want %v", eth.EthernetType, want)
	}
}

func TestPushRefuses(t *testing.T) {
	inner := encaptest.Inner{Version: 4, Protocol: header.ProtocolUDP, Len: 100}.Build()
	cases := map[string]struct {
		mtu    int
		inner  []byte
		reason packet.Reason
	}{
		"nothing":                 {0, nil, packet.Short},
		"neither IPv4 nor IPv6":   {0, []byte{0x50, 0, 0}, packet.BadEtherType},
		"an ARP packet":           {0, []byte{0, 1, 8, 0}, packet.BadEtherType},
		"one byte over over IPv4": {149, inner, packet.TooBig},
	}
	for name, c := range cases {
		for _, layer := range []encap.Layer{encap.Ethernet, encap.Datagram} {
			t.Run(name, func(t *testing.T) {
				codec := newCodec(t, Config{Layer: layer, VNI: 1, VTEP4: vtepA4, MTU: c.mtu})
				path, err := codec.Compile(way4)
				if err != nil {
					t.Fatal(err)
				}
				b := batch(t, c.inner)
				codec.Push(b, []encap.Path{path})
				expect(t, b, c.reason)
			})
		}
	}
}

// TestPushAtTheMTU holds that the limit counts each family's own headers.
func TestPushAtTheMTU(t *testing.T) {
	for _, c := range []struct {
		way       encap.Peer
		mtu, most int
	}{
		{way4, 1500, 1450}, {way6, 1500, 1430}, {way4, 1400, 1350}, {way6, 1400, 1330},
	} {
		for _, layer := range []encap.Layer{encap.Ethernet, encap.Datagram} {
			codec := newCodec(t, Config{Layer: layer, VTEP4: vtepA4, VTEP6: vtepA6, MTU: c.mtu})
			path, err := codec.Compile(c.way)
			if err != nil {
				t.Fatal(err)
			}
			for length, fits := range map[int]bool{c.most: true, c.most + 1: false} {
				b := batch(t, encaptest.Inner{Version: 4, Len: length}.Build())
				codec.Push(b, []encap.Path{path})
				if b.Live(0) != fits {
					t.Errorf("MTU %d to %s: %d bytes fit = %v, want %v", c.mtu, c.way.Remote, length, b.Live(0), fits)
				}
			}
		}
	}
}

func TestPushSetsThePeer(t *testing.T) {
	for _, layer := range []encap.Layer{encap.Ethernet, encap.Datagram} {
		for _, way := range []encap.Peer{way4, way6} {
			a, _ := nodes(t, Config{Layer: layer})
			way.Port = 4789
			path, err := a.Compile(way)
			if err != nil {
				t.Fatal(err)
			}
			b := batch(t, encaptest.Inner{Version: 4, Len: 60}.Build())
			a.Push(b, []encap.Path{path})
			if buf := b.At(0); buf.Peer != way.Remote.As16() || buf.PeerPort != 4789 {
				t.Errorf("peer %x port %d", buf.Peer, buf.PeerPort)
			}
		}
	}
}

// TestSourcePorts holds that the range is kept to its ends and spread over.
func TestSourcePorts(t *testing.T) {
	cases := map[string]struct{ min, max, first, last uint16 }{
		"default":    {0, 0, 32768, 60999},
		"configured": {1000, 1999, 1000, 1999},
		"one port":   {7, 7, 7, 7},
		"all ports":  {1, 65535, 1, 65535},
	}
	for name, c := range cases {
		codec := newCodec(t, Config{VTEP4: vtepA4, SrcPortMin: c.min, SrcPortMax: c.max})
		if got := codec.srcPort(0); got != c.first {
			t.Errorf("%s: lowest port %d, want %d", name, got, c.first)
		}
		if got := codec.srcPort(^uint32(0)); got != c.last {
			t.Errorf("%s: highest port %d, want %d", name, got, c.last)
		}
	}
}

// TestFlowsKeepTheirPort holds that one flow has one source port, and that many
// flows have many.
func TestFlowsKeepTheirPort(t *testing.T) {
	a, _ := nodes(t, Config{})
	seen := map[uint16]bool{}
	for flow := range uint16(200) {
		in := encaptest.Inner{Version: 4, Protocol: header.ProtocolTCP, SrcPort: 40000 + flow}
		var port uint16
		for _, length := range []int{60, 61, 1400} {
			in.Len = length
			wire := push(t, a, way4, in.Build())
			got := header.UDP(wire[34:]).SrcPort()
			if port != 0 && got != port {
				t.Fatalf("flow %d has ports %d and %d", flow, port, got)
			}
			port = got
		}
		seen[port] = true
	}
	if len(seen) < 190 {
		t.Errorf("200 flows have %d ports", len(seen))
	}
}

// TestIDsDiffer holds that packets of one flow get different IDs about as often
// as random numbers would.
func TestIDsDiffer(t *testing.T) {
	cases := map[string]func(p []byte, i int){
		"TCP segments of zeros": func(p []byte, i int) { header.TCP(p[20:]).SetSeq(uint32(i) * 1448) },
		"UDP with a counter": func(p []byte, i int) {
			header.UDP(p[20:]).SetChecksum(uint16(i * 7))
			p[len(p)-1], p[len(p)-2] = byte(i), byte(i>>8)
		},
		"the inner ID alone": func(p []byte, i int) { header.IPv4(p).SetID(uint16(i)) },
	}
	for name, change := range cases {
		protocol := uint8(header.ProtocolUDP)
		if name == "TCP segments of zeros" {
			protocol = header.ProtocolTCP
		}
		p := encaptest.Inner{Version: 4, Protocol: protocol, Len: 1400}.Build()
		seen := map[uint16]bool{}
		const n = 2000
		for i := range n {
			change(p, i)
			seen[ipID(0x1234, p)] = true
		}
		// Random numbers of 16 bits would repeat about 30 times.
		if len(seen) < n-60 {
			t.Errorf("%s: %d packets have %d IDs", name, n, len(seen))
		}
	}
}

func TestIDOfAnyLength(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	for n := range 64 {
		p := make([]byte, n)
		for i := range p {
			p[i] = byte(rng.Uint32())
		}
		_ = ipID(1, p) // does not panic
	}
}

// TestNoChecksum holds that the switch is about IPv4 only.
func TestNoChecksum(t *testing.T) {
	a, _ := nodes(t, Config{NoChecksum: true})
	inner := encaptest.Inner{Version: 4, Protocol: header.ProtocolUDP, Len: 100}.Build()
	if c := header.UDP(push(t, a, way4, inner)[34:]).Checksum(); c != 0 {
		t.Errorf("over IPv4 the checksum is %#x", c)
	}
	if c := header.UDP(push(t, a, way6, inner)[54:]).Checksum(); c == 0 {
		t.Error("over IPv6 there is no checksum")
	}
}

// TestBothFamiliesInOneBatch holds that each packet goes by its own path.
func TestBothFamiliesInOneBatch(t *testing.T) {
	for _, layer := range []encap.Layer{encap.Ethernet, encap.Datagram} {
		a, b := nodes(t, Config{Layer: layer})
		ways := []encap.Peer{way4, way6}
		paths := make([]encap.Path, len(ways))
		for i, way := range ways {
			var err error
			if paths[i], err = a.Compile(way); err != nil {
				t.Fatal(err)
			}
		}
		var inner [][]byte
		for i := range 16 {
			inner = append(inner, encaptest.Inner{Version: 4 + 2*(i%2), Protocol: header.ProtocolUDP, Len: 60 + i}.Build())
		}
		out := batch(t, inner...)
		for i := range out.Len() {
			out.At(i).Hop = uint32(i / 2 % 2) // not in step with the inner version
		}
		a.Push(out, paths)
		for i := range out.Len() {
			way := ways[i/2%2]
			if out.At(i).Peer != way.Remote.As16() {
				t.Errorf("layer %d, packet %d: to %x", layer, i, out.At(i).Peer)
			}
			out.At(i).Peer = way.Local.As16() // as B's port would set it
		}
		b.Pop(out)
		for i := range out.Len() {
			if !out.Live(i) || string(out.Bytes(i)) != string(inner[i]) || out.At(i).Peer != ways[i/2%2].Local.As16() {
				t.Errorf("layer %d, packet %d: live %v, drops %v", layer, i, out.Live(i), *out.Drops())
			}
		}
	}
}
