package porttest

import (
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"flanx/dataplane/packet"
)

// patience is how long the suite waits for what must happen. It is long only
// because test machines are slow.
const patience = 5 * time.Second

// driver sends numbered packets through a Pair and checks what comes out.
type driver struct {
	*Pair
	t   *testing.T
	in  *packet.Batch // for Recv
	out *packet.Batch // for Send
	buf []byte
}

func newDriver(t *testing.T, p *Pair) *driver {
	t.Helper()
	if p.Held == nil {
		p.Held = func() int { return 0 }
	}
	return &driver{
		Pair: p,
		t:    t,
		in:   packet.NewBatch(p.Pool, InFlight),
		out:  packet.NewBatch(p.Pool, InFlight),
		buf:  make([]byte, 1<<16),
	}
}

// build writes the packet of that number over pkt: a pattern that differs from
// byte to byte and from packet to packet, the number in the last four bytes,
// and the headers at the front.
func (d *driver) build(pkt []byte, number int, way Direction) {
	x := uint32(number)*2654435761 + 1
	for i := range pkt {
		x ^= x << 13
		x ^= x >> 17
		x ^= x << 5
		pkt[i] = byte(x)
	}
	binary.BigEndian.PutUint32(pkt[len(pkt)-4:], uint32(number))
	if d.Stamp != nil {
		d.Stamp(pkt, way)
	}
}

// check compares a packet with the one of that number and length.
func (d *driver) check(got []byte, number, length int, way Direction) {
	d.t.Helper()
	if len(got) != length {
		d.t.Fatalf("packet %d is %d bytes long, sent %d", number, len(got), length)
	}
	want := make([]byte, length)
	d.build(want, number, way)
	for i := range want {
		if got[i] != want[i] {
			d.t.Fatalf("packet %d of %d bytes differs from byte %d on (it carries number %d)",
				number, length, i, binary.BigEndian.Uint32(got[length-4:]))
		}
	}
}

// farSends sends one packet towards the port.
func (d *driver) farSends(number, length int) {
	d.t.Helper()
	pkt := d.buf[:length]
	d.build(pkt, number, ToPort)
	if err := d.Far.Send(pkt); err != nil {
		d.t.Fatalf("far end sends packet %d: %v", number, err)
	}
}

// farGets waits for the packet of that number at the far end.
func (d *driver) farGets(number, length int) {
	d.t.Helper()
	n, err := d.Far.Recv(d.buf, patience)
	if err != nil {
		d.t.Fatalf("far end waits for packet %d: %v", number, err)
	}
	d.check(d.buf[:n], number, length, ToFar)
}

// farIsQuiet checks that nothing more arrives at the far end.
func (d *driver) farIsQuiet() {
	d.t.Helper()
	n, err := d.Far.Recv(d.buf, 20*time.Millisecond)
	if err == nil {
		d.t.Fatalf("far end got an unexpected packet of %d bytes: % x", n, d.buf[:min(n, 64)])
	}
	if !errors.Is(err, ErrTimeout) {
		d.t.Fatalf("far end: %v", err)
	}
}

// add appends the packet of that number to out.
func (d *driver) add(number, length int) {
	d.t.Helper()
	i, space, ok := d.out.Extend()
	if !ok || len(space) < length {
		d.t.Fatalf("no frame for packet %d: %d of %d free", number, d.Pool.Free(), d.Pool.Frames())
	}
	d.out.Resize(i, length)
	d.build(d.out.Bytes(i), number, ToFar)
	d.address(i)
}

// address tells the i-th packet of out where to go.
func (d *driver) address(i int) {
	if d.Peer.IsValid() {
		buf := d.out.At(i)
		buf.Peer, buf.PeerPort = d.Peer.Addr().As16(), d.Peer.Port()
	}
}

// send hands out to the port.
func (d *driver) send() {
	d.t.Helper()
	if err := d.Port.Send(d.out); err != nil {
		d.t.Fatalf("Send: %v", err)
	}
	if d.out.Len() != 0 {
		d.t.Fatalf("Send left %d packets in the batch", d.out.Len())
	}
}

// awaitRoom flushes until the port can take n packets.
func (d *driver) awaitRoom(n int) {
	d.t.Helper()
	deadline := time.Now().Add(patience)
	for d.Port.Room() < n {
		if time.Now().After(deadline) {
			d.t.Fatalf("Room stays at %d, want %d", d.Port.Room(), n)
		}
		d.poll(unix.POLLOUT, 10*time.Millisecond)
		d.flush()
	}
}

func (d *driver) flush() {
	d.t.Helper()
	if err := d.Port.Flush(); err != nil {
		d.t.Fatalf("Flush: %v", err)
	}
}

// recv calls the port's Recv on in, once.
func (d *driver) recv() {
	d.t.Helper()
	if err := d.Port.Recv(d.in); err != nil {
		d.t.Fatalf("Recv: %v", err)
	}
	d.in.Compact()
}

// await receives until in holds n packets.
func (d *driver) await(n int) {
	d.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		d.recv()
		if d.in.Len() >= n {
			return
		}
		if time.Now().After(deadline) {
			d.t.Fatalf("received %d packets, want %d; drops %v", d.in.Len(), n, *d.in.Drops())
		}
		d.poll(unix.POLLIN, 10*time.Millisecond)
	}
}

// checkIn compares the i-th packet of in, its peer too.
func (d *driver) checkIn(i, number, length int) {
	d.t.Helper()
	d.check(d.in.Bytes(i), number, length, ToPort)
	if !d.Peer.IsValid() {
		return
	}
	if buf := d.in.At(i); buf.Peer != d.Peer.Addr().As16() || buf.PeerPort != d.Peer.Port() {
		d.t.Fatalf("packet %d is from %v port %d, want %v", number, buf.Peer, buf.PeerPort, d.Peer)
	}
}

// poll waits on the port's descriptor for the events, at most so long, and says
// whether one came.
func (d *driver) poll(events int16, timeout time.Duration) bool {
	d.t.Helper()
	fd := d.Port.FD()
	if fd < 0 {
		time.Sleep(time.Millisecond)
		return false
	}
	fds := []unix.PollFd{{Fd: int32(fd), Events: events}}
	for {
		n, err := unix.Poll(fds, int(timeout.Milliseconds()))
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			d.t.Fatalf("poll: %v", err)
		}
		return n > 0
	}
}

// settled checks that every frame is in the pool, in one of the driver's
// batches, or held by the port.
func (d *driver) settled(when string) {
	d.t.Helper()
	if sum := d.Pool.Free() + d.in.Len() + d.out.Len() + d.Held(); sum != d.Pool.Frames() {
		d.t.Fatalf("%s: %d free + %d in batches + %d held = %d frames of %d", when,
			d.Pool.Free(), d.in.Len()+d.out.Len(), d.Held(), sum, d.Pool.Frames())
	}
}

// lost returns how many packets a batch has dropped, for whatever reason.
func lost(b *packet.Batch) (n uint64) {
	for _, drops := range b.Drops() {
		n += drops
	}
	return n
}

// sizes returns lengths worth trying between Min and Max, both included.
func (d *driver) sizes() []int {
	var sizes []int
	for _, n := range []int{
		d.Min, d.Min + 1, d.Min + 2, d.Min + 3, 60, 61, 63, 64, 65, 127, 128, 129, 255, 256, 257,
		511, 512, 513, 576, 1000, 1023, 1024, 1279, 1280, 1400, 1450, 1472, 1499, 1500,
		d.Max - 3, d.Max - 2, d.Max - 1, d.Max,
	} {
		if n >= d.Min && n <= d.Max {
			sizes = append(sizes, n)
		}
	}
	return sizes
}

// sizeOf returns a length for the packet of that number, the same each time.
func (d *driver) sizeOf(number int) int {
	return d.Min + (number*37)%(d.Max-d.Min+1)
}
