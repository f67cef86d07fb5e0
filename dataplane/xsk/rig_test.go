package xsk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"flanx/dataplane/packet"
	"flanx/dataplane/porttest"
	"flanx/dataplane/xdpprog"
)

// patience is how long a test waits for what must happen.
const patience = 5 * time.Second

const tunnelPort = 8472

// The addresses that the ends filter for. No interface needs to have them.
var (
	addrA = netip.MustParseAddr("192.0.2.1")
	addrB = netip.MustParseAddr("192.0.2.2")
)

// rig is a veth pair, va and vb, in one namespace of its own.
type rig struct {
	t  testing.TB
	ns *porttest.Namespace
}

// newRig makes the pair; link is more words for "ip link add va type veth".
func newRig(t testing.TB, link string) *rig {
	t.Helper()
	r := &rig{t: t, ns: porttest.NewNamespace(t)}
	r.ns.Sysctl("net/ipv6/conf/default/disable_ipv6", "1") // no router solicitations
	r.ns.IP("link add va " + link + " type veth peer name vb " + link)
	r.ns.IP("link set va up")
	r.ns.IP("link set vb up")
	r.awaitCarrier()
	return r
}

// awaitCarrier waits until both ends are up: before that, frames are dropped.
func (r *rig) awaitCarrier() {
	r.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		up := true
		for _, dev := range []string{"va", "vb"} {
			up = up && r.flags(dev)&net.FlagRunning != 0
		}
		if up {
			return
		}
		if time.Now().After(deadline) {
			r.t.Fatal("no carrier")
		}
	}
}

func (r *rig) flags(dev string) net.Flags { return r.device(dev).Flags }

func (r *rig) device(dev string) *net.Interface {
	r.t.Helper()
	var ifi *net.Interface
	r.ns.Do(func() {
		var err error
		if ifi, err = net.InterfaceByName(dev); err != nil {
			r.t.Fatal(err)
		}
	})
	return ifi
}

func newTestPool(t testing.TB, frames, frameSize int) *packet.Pool {
	t.Helper()
	pool, err := packet.NewPool(frames, frameSize)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pool.Close() })
	return pool
}

// attach runs the filter for addr on dev.
func (r *rig) attach(dev string, addr netip.Addr, mode xdpprog.Mode) *xdpprog.Program {
	r.t.Helper()
	prog, err := xdpprog.Load(xdpprog.Config{IPv4: addr, Port: tunnelPort})
	if err != nil {
		r.t.Fatalf("%+v", err)
	}
	r.t.Cleanup(func() { _ = prog.Close() })
	index := r.device(dev).Index
	r.ns.Do(func() {
		at, err := prog.Attach(index, mode)
		if err != nil {
			r.t.Fatal(err)
		}
		r.t.Cleanup(func() { _ = at.Close() })
	})
	return prog
}

// try opens a port on dev in the namespace.
func (r *rig) try(dev string, cfg Config, pool *packet.Pool) (p *Port, err error) {
	cfg.IfIndex = r.device(dev).Index
	r.ns.Do(func() { p, err = Open(cfg, pool) })
	return p, err
}

// open opens a port on dev and registers it for its queue, if prog is not nil.
func (r *rig) open(dev string, cfg Config, pool *packet.Pool, prog *xdpprog.Program) *Port {
	r.t.Helper()
	p, err := r.try(dev, cfg, pool)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = p.Close() })
	if prog != nil {
		if err := prog.Register(cfg.Queue, p.FD()); err != nil {
			r.t.Fatal(err)
		}
	}
	return p
}

// openWith is open with rings of chosen sizes.
func (r *rig) openWith(dev string, cfg Config, pool *packet.Pool, prog *xdpprog.Program, resize func(*sizes)) *Port {
	r.t.Helper()
	cfg.IfIndex = r.device(dev).Index
	b, err := newBudget(cfg, pool.Frames())
	if err != nil {
		r.t.Fatal(err)
	}
	o := &opener{cfg: cfg, budget: b, sizes: b.sizes(), pool: pool}
	resize(&o.sizes)
	var p *Port
	r.ns.Do(func() { p, err = open(o) })
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = p.Close() })
	if err := prog.Register(cfg.Queue, p.FD()); err != nil {
		r.t.Fatal(err)
	}
	return p
}

const headers = 14 + 20 + 8

// stamp writes Ethernet, IPv4 and UDP headers that pass the filter for dst.
func stamp(pkt []byte, dst netip.Addr) {
	clear(pkt[:headers])
	copy(pkt, []byte{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45})
	binary.BigEndian.PutUint16(pkt[16:], uint16(len(pkt)-14))
	pkt[22], pkt[23] = 64, unix.IPPROTO_UDP
	copy(pkt[26:], addrA.AsSlice())
	copy(pkt[30:], dst.AsSlice())
	binary.BigEndian.PutUint16(pkt[36:], tunnelPort)
	binary.BigEndian.PutUint16(pkt[38:], uint16(len(pkt)-34))
}

// number writes the packet's number and the word's into every word behind the
// headers, so that loss, reordering and corruption all show.
func number(pkt []byte, nr int) {
	for w := 0; headers+4*w+4 <= len(pkt); w++ {
		binary.BigEndian.PutUint32(pkt[headers+4*w:], uint32(nr)<<16|uint32(w)&0xffff)
	}
}

func checkNumber(pkt []byte, nr int) error {
	for w := 0; headers+4*w+4 <= len(pkt); w++ {
		if got, want := binary.BigEndian.Uint32(pkt[headers+4*w:]), uint32(nr)<<16|uint32(w)&0xffff; got != want {
			return fmt.Errorf("packet %d word %d is %#x, want %#x", nr, w, got, want)
		}
	}
	return nil
}

// queue appends the numbered packet of length n to b.
func queue(t testing.TB, b *packet.Batch, nr, n int, dst netip.Addr) {
	t.Helper()
	i, _, ok := b.Extend()
	if !ok {
		t.Fatalf("no frame for packet %d: %d of %d free", nr, b.Pool().Free(), b.Pool().Frames())
	}
	b.Resize(i, n)
	stamp(b.Bytes(i), dst)
	number(b.Bytes(i), nr)
}

// send sends the packets numbered from first on, all of length n, in one batch.
func send(t testing.TB, p *Port, first, count, n int, dst netip.Addr) {
	t.Helper()
	b := packet.NewBatch(p.pool, count)
	for i := range count {
		queue(t, b, first+i, n, dst)
	}
	if err := errors.Join(p.Send(b), p.Flush()); err != nil {
		t.Fatal(err)
	}
	if lost(b) != 0 {
		t.Fatalf("lost while sending: %v", *b.Drops())
	}
}

// receive takes the packets numbered from first on, and checks them.
func receive(t testing.TB, p *Port, first, count int) {
	t.Helper()
	b := packet.NewBatch(p.pool, 64)
	deadline := time.Now().Add(patience)
	for got := 0; got < count; {
		if err := p.Recv(b); err != nil {
			t.Fatal(err)
		}
		for i := range b.Len() {
			if err := checkNumber(b.Bytes(i), first+got); err != nil {
				t.Fatal(err)
			}
			got++
		}
		if b.Clear(); time.Now().After(deadline) {
			st, err := p.Statistics()
			t.Fatalf("received %d packets of %d; %+v, %v", got, count, st, err)
		}
		if got < count {
			wait(t, p, unix.POLLIN, time.Millisecond)
		}
	}
}

func wait(t testing.TB, p *Port, events int16, d time.Duration) bool {
	t.Helper()
	fds := []unix.PollFd{{Fd: int32(p.FD()), Events: events}}
	n, err := unix.Poll(fds, int(d.Milliseconds()))
	if err != nil && !errors.Is(err, unix.EINTR) {
		t.Fatal(err)
	}
	return n > 0
}

// awaitCompleted waits until nothing is under way.
func awaitCompleted(t testing.TB, p *Port) {
	t.Helper()
	for deadline := time.Now().Add(patience); p.txHeld > 0; time.Sleep(time.Millisecond) {
		if err := p.Flush(); err != nil {
			t.Fatal(err)
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d frames do not come back", p.txHeld)
		}
	}
}

// settled checks that every frame is free or held, and, when the wire is quiet,
// that what is held for receiving is in the rings.
func settled(t testing.TB, p *Port) {
	t.Helper()
	rx, tx := p.Held()
	if sum := p.pool.Free() + rx + tx; sum != p.pool.Frames() {
		t.Errorf("%d free + %d receiving + %d sending = %d frames of %d", p.pool.Free(), rx, tx, sum, p.pool.Frames())
	}
	waiting := p.rx.peek(p.rx.size())
	if inRings := int(p.fill.pending() + waiting); inRings != rx {
		t.Errorf("%d frames are in the fill and RX rings, %d are held", inRings, rx)
	}
}
