package dataplane_test

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"testing"
	"time"

	"flanx/control/lease"
	"flanx/dataplane"
	"flanx/dataplane/fib"
	"flanx/dataplane/memport"
	"flanx/dataplane/packet"
	"flanx/dataplane/stats"
	"flanx/encap"
	"flanx/encap/header"
)

// The overlay of these tests: we are 10.5.1.0/24 at 10.99.0.1, the peer is
// 10.5.2.0/24 at 10.99.0.2, and 10.99.0.3 with 10.5.3.0/24 is a third node.
var (
	ownSubnet  = netip.MustParsePrefix("10.5.1.0/24")
	localAddr  = netip.MustParseAddr("10.99.0.1")
	peerAddr   = netip.MustParseAddr("10.99.0.2")
	thirdAddr  = netip.MustParseAddr("10.99.0.3")
	stranger   = netip.MustParseAddr("10.99.0.66")
	ownPod     = netip.MustParseAddr("10.5.1.7")
	peerPod    = netip.MustParseAddr("10.5.2.7")
	thirdPod   = netip.MustParseAddr("10.5.3.7")
	nobodysPod = netip.MustParseAddr("10.5.9.7")
)

// bare is the simplest codec: it adds nothing, and a path is its peer.
type bare struct{}

func (bare) Overhead() int { return 0 }

func (bare) Compile(p encap.Peer) (encap.Path, error) {
	return encap.Path{Peer: p.Remote.As16(), PeerPort: p.Port, Ready: true}, nil
}

func (bare) Push(b *packet.Batch, paths []encap.Path) {
	for i := range b.Len() {
		buf := b.At(i)
		buf.Peer, buf.PeerPort = paths[buf.Hop].Peer, paths[buf.Hop].PeerPort
	}
}

func (bare) Pop(*packet.Batch) {}

// nextHops resolves the peers it is told to.
type nextHops map[netip.Addr]bool

func (nextHops) Track(netip.Addr)         {}
func (nextHops) Untrack(netip.Addr)       {}
func (nextHops) Watch(func([]netip.Addr)) {}

func (n nextHops) NextHop(a netip.Addr) fib.NextHop {
	return fib.NextHop{Known: n[a], MAC: encap.MAC{2, 1}, LocalMAC: encap.MAC{2, 2}}
}

// rig is a worker between memory ports, and the far ends of those.
type rig struct {
	worker          *dataplane.Worker
	pool            *packet.Pool
	pods            *memport.Port // the far side of the TUN
	fast, socket    *memport.Port // the far sides of the underlays
	tunEnd, fastEnd *memport.Port // the worker's own ends, for faults
	socketEnd       *memport.Port
	done            chan error
	stopped         bool
}

type rigConfig struct {
	noFast    bool
	from      netip.Addr // who the far side of both underlays is; default peerAddr
	anySource bool
	resolved  nextHops
	spin      time.Duration
}

func newRig(tb testing.TB, c rigConfig) *rig {
	tb.Helper()
	if !c.from.IsValid() {
		c.from = peerAddr
	}
	r := &rig{done: make(chan error, 1)}
	var err error
	if r.pool, err = packet.NewPool(1024, packet.FrameSize2K); err != nil {
		tb.Fatal(err)
	}
	pair := func(far netip.Addr) (near, distant *memport.Port) {
		cfg := memport.Config{}
		if far.IsValid() {
			cfg.B = netip.AddrPortFrom(far, 8285)
		}
		near, distant, err := memport.Pair(cfg)
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { _, _ = near.Close(), distant.Close() })
		return near, distant
	}
	r.tunEnd, r.pods = pair(netip.Addr{})
	r.fastEnd, r.fast = pair(c.from)
	r.socketEnd, r.socket = pair(c.from)
	r.worker, err = dataplane.NewWorker(r.config(c))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		r.stop(tb)
		_ = r.worker.Close()
		if free := r.pool.Free(); free != r.pool.Frames() {
			tb.Errorf("%d of %d frames free at the end", free, r.pool.Frames())
		}
		_ = r.pool.Close()
	})
	return r
}

func (r *rig) config(c rigConfig) dataplane.Config {
	fc := fib.Config{
		Fast: bare{}, Fallback: bare{}, Local4: localAddr, Port: 8285,
		Own:     lease.Subnets{V4: ownSubnet},
		Network: netip.MustParsePrefix("10.5.0.0/16"), BackendType: "udp", NextHops: c.resolved,
	}
	cfg := dataplane.Config{
		Pool: r.pool, TUN: r.tunEnd, Spin: c.spin, AcceptAnySource: c.anySource,
		Fast:     &dataplane.Underlay{Port: r.fastEnd, Codec: bare{}},
		Fallback: &dataplane.Underlay{Port: r.socketEnd, Codec: bare{}},
	}
	if c.noFast {
		cfg.Fast = nil // while the table still has fast paths, as after a lost AF_XDP socket
	}
	cfg.Table = fib.New(fc)
	_ = cfg.Table.Apply(lease.Update{Snapshot: true, Leases: []lease.Lease{
		{Subnets: lease.Subnets{V4: netip.MustParsePrefix("10.5.2.0/24")}, Attrs: lease.Attrs{PublicIP: peerAddr}},
		{Subnets: lease.Subnets{V4: netip.MustParsePrefix("10.5.3.0/24")}, Attrs: lease.Attrs{PublicIP: thirdAddr}},
	}})
	return cfg
}

func (r *rig) start() { go func() { r.done <- r.worker.Run() }() }

func (r *rig) stop(tb testing.TB) {
	tb.Helper()
	if r.stopped {
		return
	}
	r.stopped = true
	r.worker.Stop()
	select {
	case err := <-r.done:
		if err != nil {
			tb.Errorf("Run: %v", err)
		}
	case <-time.After(2 * time.Second):
		tb.Error("Run did not return within 2 s of Stop")
	}
}

// udpPacket is an inner IPv4 packet with n bytes of payload.
func udpPacket(src, dst netip.Addr, n int) []byte {
	p := make([]byte, header.IPv4Len+header.UDPLen+n)
	p[0], p[8], p[9] = 0x45, 64, header.ProtocolUDP
	binary.BigEndian.PutUint16(p[2:], uint16(len(p)))
	copy(p[12:], src.AsSlice())
	copy(p[16:], dst.AsSlice())
	binary.BigEndian.PutUint16(p[10:], ^header.Sum(p[:header.IPv4Len], 0))
	binary.BigEndian.PutUint16(p[20:], 4000)
	binary.BigEndian.PutUint16(p[22:], 5000)
	binary.BigEndian.PutUint16(p[24:], uint16(header.UDPLen+n))
	return p
}

// read waits for one packet at a far end; nil means none came.
func read(p *memport.Port, wait time.Duration) []byte {
	buf := make([]byte, 4096)
	for end := time.Now().Add(wait); time.Now().Before(end); time.Sleep(200 * time.Microsecond) {
		if n, err := p.Read(buf); err == nil {
			return buf[:n]
		}
	}
	return nil
}

func write(tb testing.TB, p *memport.Port, pkt []byte) {
	tb.Helper()
	if _, err := p.Write(pkt); err != nil {
		tb.Fatal(err)
	}
}

// settled waits until a direction has received n packets and returns its books.
func settled(tb testing.TB, d *stats.Direction, n uint64) stats.Totals {
	tb.Helper()
	for range 2000 {
		if t := d.Totals(); t.Received >= n {
			return t
		}
		time.Sleep(time.Millisecond)
	}
	tb.Fatalf("received %d packets, want %d", d.Totals().Received, n)
	return stats.Totals{}
}

func TestEgressTakesTheWayThatIsReady(t *testing.T) {
	cases := map[string]struct {
		cfg     rigConfig
		viaFast bool
	}{
		"next hop known":   {rigConfig{resolved: nextHops{peerAddr: true}}, true},
		"next hop unknown": {rigConfig{resolved: nextHops{}}, false},
		"no fast underlay": {rigConfig{resolved: nextHops{peerAddr: true}, noFast: true}, false},
		"while it spins":   {rigConfig{resolved: nextHops{peerAddr: true}, spin: time.Second}, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, c.cfg)
			r.start()
			want := udpPacket(ownPod, peerPod, 100)
			write(t, r.pods, want)
			used, other := r.socket, r.fast
			if c.viaFast {
				used, other = other, used
			}
			if got := read(used, time.Second); string(got) != string(want) {
				t.Errorf("got %x, want %x", got, want)
			}
			if got := read(other, 5*time.Millisecond); got != nil {
				t.Errorf("the other underlay sent %x", got)
			}
		})
	}
}

func TestEgressDropsWhatLeadsNowhere(t *testing.T) {
	cases := map[string][]byte{
		"no lease":           udpPacket(ownPod, nobodysPod, 10),
		"our own subnet":     udpPacket(ownPod, ownPod, 10),
		"multicast":          udpPacket(ownPod, netip.MustParseAddr("224.0.0.1"), 10),
		"IPv6 without lease": append([]byte{0x60}, make([]byte, 60)...),
		"short IPv4":         {0x45, 0, 0, 20},
		"short IPv6":         {0x60, 0, 0, 0},
		"not IP":             {0x00, 1, 2, 3},
	}
	for name, pkt := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, rigConfig{resolved: nextHops{peerAddr: true}})
			r.start()
			write(t, r.pods, pkt)
			got := settled(t, &r.worker.Stats().Egress, 1)
			if got.Drops[packet.NoRoute] != 1 || got.Delivered != 0 {
				t.Errorf("books: %+v", got)
			}
		})
	}
}

func TestIngressVerdicts(t *testing.T) {
	badSum := udpPacket(peerPod, ownPod, 10)
	badSum[10] ^= 1
	cases := map[string]struct {
		from      netip.Addr
		anySource bool
		pkt       []byte
		drop      packet.Reason
		delivered bool
	}{
		"member to us":              {pkt: udpPacket(peerPod, ownPod, 10), delivered: true},
		"stranger":                  {from: stranger, pkt: udpPacket(peerPod, ownPod, 10), drop: packet.UnknownPeer},
		"member, other's source":    {pkt: udpPacket(thirdPod, ownPod, 10), drop: packet.SpoofedSource},
		"member, our own source":    {pkt: udpPacket(ownPod, ownPod, 10), drop: packet.SpoofedSource},
		"member, source of nobody":  {pkt: udpPacket(nobodysPod, ownPod, 10), drop: packet.SpoofedSource},
		"member to a third node":    {pkt: udpPacket(peerPod, thirdPod, 10), drop: packet.NotOurs},
		"member to its own":         {pkt: udpPacket(peerPod, peerPod, 10), drop: packet.NotOurs},
		"bad header checksum":       {pkt: badSum, drop: packet.BadChecksum},
		"empty":                     {pkt: []byte{}, drop: packet.Short},
		"padded":                    {pkt: append(udpPacket(peerPod, ownPod, 10), 0, 0, 0), delivered: true},
		"stranger, any source":      {from: stranger, anySource: true, pkt: udpPacket(peerPod, ownPod, 10), delivered: true},
		"any source, but not to us": {anySource: true, pkt: udpPacket(peerPod, thirdPod, 10), drop: packet.NotOurs},
	}
	for name, c := range cases {
		for way := range 2 {
			t.Run(name+[]string{", fast", ", fallback"}[way], func(t *testing.T) {
				r := newRig(t, rigConfig{from: c.from, anySource: c.anySource})
				r.start()
				write(t, []*memport.Port{r.fast, r.socket}[way], c.pkt)
				books := settled(t, &r.worker.Stats().Ingress, 1)
				if c.delivered {
					want := udpPacket(peerPod, ownPod, 10)
					if got := read(r.pods, time.Second); string(got) != string(want) {
						t.Errorf("delivered %x, want %x", got, want)
					}
					return
				}
				if books.Drops[c.drop] != 1 || books.Delivered != 0 {
					t.Errorf("want %v; books: %+v", c.drop, books)
				}
			})
		}
	}
}

func TestUnfilledChecksumArrivesFilled(t *testing.T) {
	r := newRig(t, rigConfig{})
	r.start()
	pkt := udpPacket(peerPod, ownPod, 33)
	pseudo := header.Sum(pkt[12:20], 0)
	pseudo = header.Add(pseudo, header.ProtocolUDP)
	pseudo = header.Add(pseudo, header.UDPLen+33)
	binary.BigEndian.PutUint16(pkt[26:], pseudo)
	write(t, r.fast, pkt)
	got := read(r.pods, time.Second)
	if got == nil || header.Sum(got[20:], pseudo) != 0xffff {
		t.Errorf("delivered %x with a bad UDP checksum", got)
	}
}

func TestFallbackIsServedBesideABusyFastPath(t *testing.T) {
	r := newRig(t, rigConfig{})
	r.start()
	want := udpPacket(peerPod, ownPod, 33)
	busy := udpPacket(peerPod, thirdPod, 10) // dropped, so that nothing else comes out
	write(t, r.socket, want)
	for range 20000 {
		_, _ = r.fast.Write(busy) // a full queue is as busy as can be
		if r.worker.Stats().Ingress.Delivered.Load() == 1 {
			break
		}
	}
	if got := read(r.pods, time.Second); string(got) != string(want) {
		t.Errorf("got %x, want %x", got, want)
	}
}

func TestFullUnderlayStopsTheTUN(t *testing.T) {
	r := newRig(t, rigConfig{resolved: nextHops{peerAddr: true}})
	r.fastEnd.SetFaults(memport.Faults{Full: true})
	r.start()
	for range 10 {
		write(t, r.pods, udpPacket(ownPod, peerPod, 10))
	}
	time.Sleep(20 * time.Millisecond)
	if got := r.worker.Stats().Egress.Totals(); got.Received != 0 {
		t.Errorf("read %d packets that could not be sent", got.Received)
	}
	r.fastEnd.SetFaults(memport.Faults{})
	if got := settled(t, &r.worker.Stats().Egress, 10); got.Delivered != 10 {
		t.Errorf("books after room came back: %+v", got)
	}
}

func TestBooksBalanceUnderFaults(t *testing.T) {
	r := newRig(t, rigConfig{resolved: nextHops{peerAddr: true}})
	r.fastEnd.SetFaults(memport.Faults{Refuse: 3})
	r.tunEnd.SetFaults(memport.Faults{Refuse: 5})
	r.start()
	const n = 200
	for range n {
		write(t, r.pods, udpPacket(ownPod, peerPod, 10))
		write(t, r.fast, udpPacket(peerPod, ownPod, 10))
	}
	out := settled(t, &r.worker.Stats().Egress, n)
	in := settled(t, &r.worker.Stats().Ingress, n)
	if out.Drops[packet.SendFailed] != n/3 || out.Delivered != n-n/3 {
		t.Errorf("egress books: %+v", out)
	}
	if in.Dropped() != n/5 || in.Delivered != n-n/5 {
		t.Errorf("ingress books: %+v", in)
	}
}

func TestBrokenPortsEndTheWorkerByName(t *testing.T) {
	gone := memport.Faults{Err: packet.ErrPortGone}
	cases := map[string]struct {
		break_ func(*rig)
		want   error
	}{
		"TUN":      {func(r *rig) { r.tunEnd.SetFaults(gone) }, dataplane.ErrTUN},
		"fast":     {func(r *rig) { r.fastEnd.SetFaults(gone) }, dataplane.ErrFast},
		"fallback": {func(r *rig) { r.socketEnd.SetFaults(gone) }, dataplane.ErrFallback},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, rigConfig{resolved: nextHops{peerAddr: true}})
			c.break_(r)
			r.stopped = true
			err := r.worker.Run()
			if !errors.Is(err, c.want) || !errors.Is(err, packet.ErrPortGone) {
				t.Errorf("Run = %v, want %v: %v", err, c.want, packet.ErrPortGone)
			}
		})
	}
}

func TestNewWorkerNeedsItsParts(t *testing.T) {
	if _, err := dataplane.NewWorker(dataplane.Config{}); !errors.Is(err, dataplane.ErrWorkerConfig) {
		t.Errorf("NewWorker of nothing = %v", err)
	}
}

func TestStopBeforeRunAndTwice(t *testing.T) {
	r := newRig(t, rigConfig{})
	r.worker.Stop()
	r.worker.Stop()
	r.stopped = true
	if err := r.worker.Run(); err != nil {
		t.Errorf("Run after Stop: %v", err)
	}
}

func TestFullFallbackDoesNotHoldUpTheFastPath(t *testing.T) {
	r := newRig(t, rigConfig{resolved: nextHops{peerAddr: true}}) // the third node is not
	r.socketEnd.SetFaults(memport.Faults{Full: true})
	r.start()
	for range 10 {
		write(t, r.pods, udpPacket(ownPod, thirdPod, 10))
		write(t, r.pods, udpPacket(ownPod, peerPod, 10))
	}
	books := settled(t, &r.worker.Stats().Egress, 20)
	if books.Delivered != 10 || books.Drops[packet.Unresolved] != 10 {
		t.Errorf("books: %+v", books)
	}
}

// holding is a port that has always taken more than it has sent.
type holding struct{ *memport.Port }

func (holding) Held() int { return 3 }

func TestHeldPacketsAreNotDelivered(t *testing.T) {
	r := newRig(t, rigConfig{})
	cfg := r.config(rigConfig{noFast: true})
	cfg.Fallback.Port = holding{r.socketEnd}
	w, err := dataplane.NewWorker(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	r.start() // the rig's own worker is only stopped at the end
	r.stop(t)
	done := make(chan error, 1)
	go func() { done <- w.Run() }()
	for range 10 {
		write(t, r.pods, udpPacket(ownPod, peerPod, 10))
	}
	if books := settled(t, &w.Stats().Egress, 10); books.Delivered != 7 || books.Dropped() != 0 {
		t.Errorf("books: %+v, want 7 delivered of 10", books)
	}
	w.Stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
