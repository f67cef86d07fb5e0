package dataplane

import (
	"encoding/binary"
	"encoding/json"
	"net/netip"
	"testing"

	"flanx/control/lease"
	"flanx/dataplane/fib"
	"flanx/dataplane/packet"
	"flanx/encap"
	"flanx/encap/header"
	"flanx/encap/udp"
	"flanx/encap/vxlan"
)

// spring is a port that always has a full batch of one packet, and a sink: what
// a TUN or a ring costs without the kernel.
type spring struct{ pkt []byte }

func (s *spring) Recv(b *packet.Batch) error {
	for {
		i, space, ok := b.Extend()
		if !ok {
			return nil
		}
		b.Resize(i, copy(space, s.pkt))
	}
}

func (s *spring) Send(b *packet.Batch) error { b.Clear(); return nil }
func (s *spring) Room() int                  { return 1 << 20 }
func (s *spring) Flush() error               { return nil }
func (s *spring) FD() int                    { return -1 }
func (s *spring) Close() error               { return nil }

// idle is a port that never has anything.
type idle struct{ spring }

func (*idle) Recv(*packet.Batch) error { return nil }

// known resolves every next hop.
type known struct{}

func (known) Track(netip.Addr)         {}
func (known) Untrack(netip.Addr)       {}
func (known) Watch(func([]netip.Addr)) {}
func (known) NextHop(netip.Addr) fib.NextHop {
	return fib.NextHop{Known: true, MAC: encap.MAC{2, 1}, LocalMAC: encap.MAC{2, 2}}
}

var (
	benchLocal = netip.MustParseAddr("10.99.0.1")
	benchPeer  = netip.MustParseAddr("10.99.0.2")
	benchVTEP  = encap.MAC{2, 0, 0, 0, 0, 1}
	peerVTEP   = encap.MAC{2, 0, 0, 0, 0, 2}
)

// innerPacket is a UDP packet of n bytes from one node's subnet to the other's.
func innerPacket(n int, ingress bool) []byte {
	p := make([]byte, n)
	p[0], p[8], p[9] = 0x45, 64, header.ProtocolUDP
	binary.BigEndian.PutUint16(p[2:], uint16(n))
	src, dst := []byte{10, 5, 1, 7}, []byte{10, 5, 2, 7}
	if ingress {
		src, dst = dst, src
	}
	copy(p[12:], src)
	copy(p[16:], dst)
	binary.BigEndian.PutUint16(p[10:], ^header.Sum(p[:header.IPv4Len], 0))
	binary.BigEndian.PutUint16(p[24:], uint16(n-header.IPv4Len))
	return p
}

func benchCodec(tb testing.TB, kind string, vtep encap.MAC) encap.Codec {
	tb.Helper()
	var c encap.Codec
	var err error
	if kind == "udp" {
		c, err = udp.New(udp.Config{Layer: encap.Ethernet})
	} else {
		c, err = vxlan.New(vxlan.Config{Layer: encap.Ethernet, VNI: 1, VTEP4: vtep})
	}
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

// wrapped is an inner packet as the peer would send it to us.
func wrapped(tb testing.TB, kind string, inner []byte) []byte {
	tb.Helper()
	pool, err := packet.NewPool(1, packet.FrameSize2K)
	if err != nil {
		tb.Fatal(err)
	}
	defer pool.Close()
	c := benchCodec(tb, kind, peerVTEP)
	path, err := c.Compile(encap.Peer{
		Local: benchPeer, Remote: benchLocal, LocalMAC: encap.MAC{2, 2}, NextHopMAC: encap.MAC{2, 1}, VTEP: benchVTEP,
	})
	if err != nil {
		tb.Fatal(err)
	}
	b := packet.NewBatch(pool, 1)
	i, space, _ := b.Extend()
	b.Resize(i, copy(space, inner))
	c.Push(b, []encap.Path{path})
	return append([]byte(nil), b.Bytes(i)...)
}

// benchWorker is a worker whose TUN or fast underlay always has packets.
func benchWorker(tb testing.TB, kind string, size int, ingress bool) *Worker {
	tb.Helper()
	pool, err := packet.NewPool(256, packet.FrameSize2K)
	if err != nil {
		tb.Fatal(err)
	}
	codec := benchCodec(tb, kind, benchVTEP)
	table := fib.New(fib.Config{
		Fast: codec, Fallback: codec, Local4: benchLocal, Port: 8472,
		Own: lease.Subnets{V4: netip.MustParsePrefix("10.5.1.0/24")}, Network: netip.MustParsePrefix("10.5.0.0/16"),
		BackendType: kind, NextHops: known{},
		VTEP: func(json.RawMessage) (encap.MAC, error) { return peerVTEP, nil },
	})
	_ = table.Apply(lease.Update{Snapshot: true, Leases: []lease.Lease{
		{Subnets: lease.Subnets{V4: netip.MustParsePrefix("10.5.2.0/24")}, Attrs: lease.Attrs{PublicIP: benchPeer, BackendType: kind}},
	}})
	var tunPort, fast Port = &spring{innerPacket(size, false)}, &idle{}
	if ingress {
		tunPort, fast = &idle{}, &spring{wrapped(tb, kind, innerPacket(size, true))}
	}
	w, err := NewWorker(Config{
		Pool: pool, TUN: tunPort, Table: table,
		Fast: &Underlay{fast, codec}, Fallback: &Underlay{&idle{}, codec},
	})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _, _ = w.Close(), pool.Close() })
	return w
}

var benchCases = []struct {
	name    string
	size    int
	ingress bool
}{
	{"egress/64B", 64, false},
	{"egress/1400B", 1400, false},
	{"ingress/64B", 64, true},
	{"ingress/1400B", 1400, true},
}

// BenchmarkWorker is a whole turn without the kernel: receive (a copy), route or
// verify, wrap or unwrap, send.
func BenchmarkWorker(b *testing.B) {
	for _, kind := range []string{"udp", "vxlan"} {
		for _, c := range benchCases {
			b.Run(kind+"/"+c.name, func(b *testing.B) {
				w := benchWorker(b, kind, c.size, c.ingress)
				b.ReportAllocs()
				packets := 0
				for b.Loop() {
					n, err := w.turn()
					if err != nil {
						b.Fatal(err)
					}
					packets += n
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(packets), "ns/packet")
				checkBooks(b, w, uint64(packets))
			})
		}
	}
}

// checkBooks fails when the turns did not deliver what they met.
func checkBooks(tb testing.TB, w *Worker, packets uint64) {
	tb.Helper()
	out, in := w.stats.Egress.Totals(), w.stats.Ingress.Totals()
	if out.Delivered+in.Delivered != packets {
		tb.Fatalf("%d packets met; egress %+v, ingress %+v", packets, out, in)
	}
}

func TestTurnDoesNotAllocate(t *testing.T) {
	for _, kind := range []string{"udp", "vxlan"} {
		for _, c := range benchCases {
			t.Run(kind+"/"+c.name, func(t *testing.T) {
				w := benchWorker(t, kind, c.size, c.ingress)
				packets := 0
				allocs := testing.AllocsPerRun(100, func() {
					n, err := w.turn()
					if err != nil {
						t.Fatal(err)
					}
					packets += n
				})
				if allocs != 0 {
					t.Errorf("%v allocations per turn", allocs)
				}
				checkBooks(t, w, uint64(packets))
			})
		}
	}
}
