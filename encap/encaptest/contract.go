package encaptest

import (
	"bytes"
	"math/rand/v2"
	"net/netip"
	"sync"
	"testing"

	"flanx/dataplane/packet"
	"flanx/encap"
	"flanx/encap/header"
)

// roundTrip pushes random packets of every length and expects them back, hops
// taken, with the sender's address as their peer.
func (s Suite) roundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	a, b := s.node(t), s.node(t)
	for _, version := range s.Versions {
		least := Inner{Version: version}.HeaderLen()
		for length := least; length <= s.MTU; length += 1 + rng.IntN(7) {
			inner := RandomInner(rng, version, length)
			wire := a.push(inner)[0]
			if got := len(wire) - len(inner); got != s.Overhead {
				t.Fatalf("Push added %d bytes, want %d", got, s.Overhead)
			}
			i := b.add(wire)
			s.Recv.Pop(b.batch)
			if !b.batch.Live(i) {
				t.Fatalf("IPv%d of %d bytes was dropped: %v\n%x", version, length, b.drops(), wire)
			}
			if want := Hopped(inner, s.Hops); !bytes.Equal(b.batch.Bytes(i), want) {
				t.Fatalf("IPv%d of %d bytes\n got %x\nwant %x", version, length, b.batch.Bytes(i), want)
			}
			if got := netip.AddrFrom16(b.batch.At(i).Peer).Unmap(); got != s.Way.Local {
				t.Fatalf("peer is %s, want %s", got, s.Way.Local)
			}
			b.batch.Clear()
		}
	}
}

// truncation cuts packets at every length.
func (s Suite) truncation(t *testing.T) {
	a, b := s.node(t), s.node(t)
	for _, wire := range a.push(s.samples()...) {
		for n := range len(wire) {
			got := b.pop(wire[:n])[0]
			if got == nil {
				continue
			}
			// On a socket the datagram is the truth, so what is cut off
			// the inner packet is seen where that is judged.
			if s.Layer == encap.Ethernet {
				t.Fatalf("%d of %d bytes were accepted", n, len(wire))
			}
			if _, _, ok := header.CheckInner(got); ok {
				t.Fatalf("%d of %d bytes were accepted as a whole packet", n, len(wire))
			}
		}
	}
	d := *b.batch.Drops()
	if short := d[packet.Short]; short == 0 || len(b.drops()) != 1 {
		t.Errorf("truncated packets were dropped as %v, want short alone", b.drops())
	}
}

// bitFlips flips each bit behind the Ethernet header: the packet is dropped or,
// where no checksum covers the bit, comes out unchanged.
func (s Suite) bitFlips(t *testing.T) {
	if s.Layer == encap.Datagram || s.NoChecksum {
		t.Skip("no checksum for the codec to verify")
	}
	a, b := s.node(t), s.node(t)
	for _, inner := range s.samples() {
		want := Hopped(inner, s.Hops)
		wire := a.push(inner)[0]
		for bit := header.EthernetLen * 8; bit < len(wire)*8; bit++ {
			flipped := bytes.Clone(wire)
			flipped[bit/8] ^= 1 << (bit % 8)
			if got := b.pop(flipped)[0]; got != nil && !bytes.Equal(got, want) {
				t.Fatalf("bit %d of %x flipped: got another packet\n got %x\nwant %x", bit, wire, got, want)
			}
		}
	}
}

// order mixes sound and broken packets in one batch: the sound ones come out in
// their order, and each broken one is counted once.
func (s Suite) order(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	a, b := s.node(t), s.node(t)
	for range 20 {
		var want [][]byte
		bad := 0
		before := total(b.batch)
		for range batchSize {
			inner := RandomInner(rng, s.Versions[rng.IntN(len(s.Versions))], 64)
			wire := a.push(inner)[0]
			if rng.IntN(3) == 0 {
				wire = wire[:rng.IntN(s.Overhead+1)]
				bad++
			} else {
				want = append(want, Hopped(inner, s.Hops))
			}
			b.add(wire)
		}
		s.Recv.Pop(b.batch)
		b.batch.Compact()
		if b.batch.Len() != len(want) || total(b.batch)-before != uint64(bad) {
			t.Fatalf("%d came out and %d were dropped, want %d and %d", b.batch.Len(), total(b.batch)-before, len(want), bad)
		}
		for i := range want {
			if !bytes.Equal(b.batch.Bytes(i), want[i]) {
				t.Fatalf("packet %d\n got %x\nwant %x", i, b.batch.Bytes(i), want[i])
			}
		}
		b.batch.Clear()
	}
}

func total(b *packet.Batch) (n uint64) {
	for _, d := range b.Drops() {
		n += d
	}
	return n
}

// notReady holds that nothing is sent to an unresolved next hop.
func (s Suite) notReady(t *testing.T) {
	way := s.Way
	way.NextHopMAC = encap.MAC{}
	path, err := s.Send.Compile(way)
	if err != nil {
		t.Fatal(err)
	}
	if want := s.Layer == encap.Datagram; path.Ready != want {
		t.Fatalf("without a next hop's address Ready = %v, want %v", path.Ready, want)
	}
	if path.Ready {
		return
	}
	n := s.node(t)
	n.paths[0] = path
	n.add(s.samples()[0])
	s.Send.Push(n.batch, n.paths)
	if n.batch.Live(0) || n.batch.Drops()[packet.Unresolved] != 1 {
		t.Errorf("drops = %v, want unresolved", n.drops())
	}
	n.batch.Reset()
}

// allocations holds that neither way allocates.
func (s Suite) allocations(t *testing.T) {
	a := s.node(t)
	inner := Inner{Version: s.Versions[0], Protocol: header.ProtocolUDP, Len: 64}.Build()
	wire := a.push(inner)[0]
	b := s.node(t)
	if n := testing.AllocsPerRun(100, func() {
		for range batchSize {
			a.add(inner)
		}
		s.Send.Push(a.batch, a.paths)
		a.batch.Clear()
	}); n != 0 {
		t.Errorf("Push: %v allocations per batch", n)
	}
	if n := testing.AllocsPerRun(100, func() {
		for i := range batchSize {
			b.add(wire[:len(wire)-i%2]) // every second is dropped
		}
		s.Recv.Pop(b.batch)
		b.batch.Clear()
	}); n != 0 {
		t.Errorf("Pop: %v allocations per batch", n)
	}
}

// workers uses one codec from several goroutines; the race detector looks on.
func (s Suite) workers(t *testing.T) {
	inner := s.samples()
	var wg sync.WaitGroup
	for range 4 {
		a, b := s.node(t), s.node(t)
		wg.Go(func() {
			for range 50 {
				for i := range inner {
					a.add(inner[i])
				}
				s.Send.Push(a.batch, a.paths)
				for i := range a.batch.Len() {
					b.add(a.batch.Bytes(i))
				}
				a.batch.Clear()
				s.Recv.Pop(b.batch)
				b.batch.Compact()
				if b.batch.Len() != len(inner) {
					t.Errorf("%d of %d arrived", b.batch.Len(), len(inner))
				}
				b.batch.Clear()
			}
		})
	}
	wg.Wait()
}
