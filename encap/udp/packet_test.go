package udp

import (
	"bytes"
	"testing"

	"flanx/dataplane/packet"
	"flanx/encap"
	"flanx/encap/encaptest"
	"flanx/encap/header"
)

// batch returns a batch holding one packet.
func batch(t *testing.T, data []byte) *packet.Batch {
	t.Helper()
	pool, err := packet.NewPool(1, packet.FrameSize2K)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pool.Close() })
	b := packet.NewBatch(pool, 1)
	i, space, _ := b.Extend()
	b.Resize(i, copy(space, data))
	return b
}

// expect holds that the packet of b was dropped for the reason alone.
func expect(t *testing.T, b *packet.Batch, reason packet.Reason) {
	t.Helper()
	var want [packet.NumReasons]uint64
	want[reason] = 1
	if b.Live(0) || *b.Drops() != want {
		t.Errorf("live %v, drops %v; want %s", b.Live(0), *b.Drops(), reason)
	}
}

func TestPushRefuses(t *testing.T) {
	inner := encaptest.Inner{Version: 4, Protocol: header.ProtocolUDP, Len: 100}
	ttl := func(n uint8) []byte {
		p := inner.Build()
		p[8] = n
		return p
	}
	cases := map[string]struct {
		mtu    int
		inner  []byte
		reason packet.Reason
	}{
		"nothing":             {0, nil, packet.Short},
		"less than a header":  {0, inner.Build()[:19], packet.Short},
		"IPv6":                {0, encaptest.Inner{Version: 6}.Build(), packet.BadEtherType},
		"one byte over":       {127, inner.Build(), packet.TooBig},
		"TTL 1":               {0, ttl(1), packet.TTLExceeded},
		"TTL 0 does not wrap": {0, ttl(0), packet.TTLExceeded},
	}
	for name, c := range cases {
		for layer, layerName := range []string{"ethernet", "datagram"} {
			t.Run(name+"/"+layerName, func(t *testing.T) {
				codec := newCodec(t, Config{Layer: encap.Layer(layer), MTU: c.mtu})
				path, err := codec.Compile(way)
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

func TestPushAtTheMTU(t *testing.T) {
	inner := encaptest.Inner{Version: 4, Protocol: header.ProtocolUDP, Len: 100, TTL: 2}.Build()
	c := newCodec(t, Config{MTU: 128})
	path, err := c.Compile(way)
	if err != nil {
		t.Fatal(err)
	}
	b := batch(t, inner)
	c.Push(b, []encap.Path{path})
	if !b.Live(0) || b.At(0).Len() != 142 {
		t.Fatalf("drops %v, %d bytes", *b.Drops(), b.At(0).Len())
	}
	if got := b.Bytes(0)[42:]; !bytes.Equal(got, encaptest.Hopped(inner, 1)) {
		t.Errorf("inner is %x", got)
	}
}

func TestPopRefuses(t *testing.T) {
	inner := encaptest.Inner{Version: 4, Protocol: header.ProtocolUDP, Len: 60}
	last := inner
	last.TTL = 1
	cases := map[string]struct {
		payload []byte
		reason  packet.Reason
	}{
		"an empty datagram":   {nil, packet.Short},
		"19 bytes":            {inner.Build()[:19], packet.Short},
		"IPv6":                {encaptest.Inner{Version: 6, Len: 60}.Build(), packet.BadEtherType},
		"a VXLAN header":      {append([]byte{8, 0, 0, 0, 0, 0, 1, 0}, inner.Build()...), packet.BadEtherType},
		"the end of its hops": {last.Build(), packet.TTLExceeded},
	}
	for name, c := range cases {
		t.Run(name+"/datagram", func(t *testing.T) {
			b := batch(t, c.payload)
			newCodec(t, Config{Layer: encap.Datagram}).Pop(b)
			expect(t, b, c.reason)
		})
		t.Run(name+"/ethernet", func(t *testing.T) {
			b := batch(t, encaptest.Outer{DstPort: DefaultPort}.Wrap(c.payload))
			newCodec(t, Config{}).Pop(b)
			expect(t, b, c.reason)
		})
	}
}

func TestPopTakesAnySourcePort(t *testing.T) {
	inner := encaptest.Inner{Version: 4, Protocol: header.ProtocolUDP, Len: 60}.Build()
	for _, port := range []uint16{0, 1, 8285, 65535} {
		b := batch(t, encaptest.Outer{SrcPort: port, DstPort: DefaultPort}.Wrap(inner))
		newCodec(t, Config{}).Pop(b)
		if !b.Live(0) || b.At(0).PeerPort != port {
			t.Errorf("source port %d: drops %v, PeerPort %d", port, *b.Drops(), b.At(0).PeerPort)
		}
	}
}

func TestPopRefusesIPv6Outside(t *testing.T) {
	inner := encaptest.Inner{Version: 4, Protocol: header.ProtocolUDP, Len: 60}.Build()
	b := batch(t, encaptest.Outer{IPv6: true, DstPort: DefaultPort}.Wrap(inner))
	newCodec(t, Config{}).Pop(b)
	expect(t, b, packet.BadOuter)
}

func TestPopCarriesCongestion(t *testing.T) {
	inner := encaptest.Inner{Version: 4, Protocol: header.ProtocolTCP, Len: 60, ECN: header.ECNECT0}
	b := batch(t, encaptest.Outer{DstPort: DefaultPort, ECN: header.ECNCE}.Wrap(inner.Build()))
	newCodec(t, Config{}).Pop(b)
	inner.ECN = header.ECNCE
	if !b.Live(0) || !bytes.Equal(b.Bytes(0), encaptest.Hopped(inner.Build(), 1)) {
		t.Errorf("drops %v, got %x", *b.Drops(), b.Bytes(0))
	}
	inner.ECN = header.ECNNotECT
	b = batch(t, encaptest.Outer{DstPort: DefaultPort, ECN: header.ECNCE}.Wrap(inner.Build()))
	newCodec(t, Config{}).Pop(b)
	expect(t, b, packet.BadECN)
}
