package xsk

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"golang.org/x/sys/unix"

	"flanx/dataplane/packet"
)

// kernel is the other side of a port's four rings over plain memory. It does
// what net/xdp does, when the test tells it to.
type kernel struct {
	t          *testing.T
	pool       *packet.Pool
	fill       consumer[uint64]
	rx         producer[unix.XDPDesc]
	tx         consumer[unix.XDPDesc]
	completion producer[uint64]
	fillMemory *memory[uint64]
	txMemory   *memory[unix.XDPDesc]

	receiving []uint64 // frames taken from the fill ring
	sending   []uint64 // frames taken from the TX ring
	sentLens  []uint32
	number    byte // of the next packet to deliver
}

// newModel returns a port whose kernel is the test. Its descriptor is a socket
// on which a kick succeeds and does nothing.
func newModel(t *testing.T, frames int, cfg Config) (*Port, *kernel) {
	t.Helper()
	pool, err := packet.NewPool(frames, packet.FrameSize2K)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pool.Close() })
	b, err := newBudget(cfg, frames)
	if err != nil {
		t.Fatal(err)
	}
	const start = math.MaxUint32 - 20 // wrap early
	n := b.sizes()
	fill, rx := newMemory[uint64](int(n.fill), start), newMemory[unix.XDPDesc](int(n.rx), start)
	tx, completion := newMemory[unix.XDPDesc](int(n.tx), start), newMemory[uint64](int(n.completion), start)
	p := &Port{cfg: cfg, pool: pool, budget: b, socket: socket{
		fd: deafSocket(t), fill: fill.producerSide(), rx: rx.consumerSide(),
		tx: tx.producerSide(), completion: completion.consumerSide(),
	}}
	k := &kernel{
		t: t, pool: pool, fillMemory: fill, txMemory: tx, fill: fill.consumerSide(), rx: rx.producerSide(),
		tx: tx.consumerSide(), completion: completion.producerSide(),
	}
	p.refill()
	return p, k
}

// deafSocket is a datagram socket that talks to itself: an empty message goes
// nowhere else, and an empty read finds one or nothing.
func deafSocket(t *testing.T) int {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	self, err := unix.Getsockname(fd)
	if err == nil {
		err = unix.Connect(fd, self)
	}
	if err != nil {
		t.Fatal(err)
	}
	return fd
}

// allocate takes up to n frames from the fill ring.
func (k *kernel) allocate(n int) {
	got := k.fill.peek(uint32(n))
	for i := range got {
		k.receiving = append(k.receiving, k.fill.at(i))
	}
	k.fill.release(got)
}

// deliver puts up to n packets, each one byte longer than the last, into frames
// that it allocated.
func (k *kernel) deliver(n int) (delivered int) {
	n = int(k.rx.free(uint32(min(n, len(k.receiving)))))
	for _, addr := range k.receiving[:n] {
		frame, at, ok := k.pool.Locate(addr)
		if !ok || at != 0 {
			k.t.Fatalf("fill ring holds address %#x", addr)
		}
		data := k.pool.Frame(frame)[packet.Headroom:]
		data[0] = k.number
		k.rx.put(unix.XDPDesc{Addr: addr + packet.Headroom, Len: minFrame + uint32(k.number)})
		k.number++
	}
	k.rx.submit()
	k.receiving = k.receiving[n:]
	return n
}

// send takes up to n frames from the TX ring.
func (k *kernel) send(n int) {
	got := k.tx.peek(uint32(n))
	for i := range got {
		d := k.tx.at(i)
		k.sending = append(k.sending, d.Addr)
		k.sentLens = append(k.sentLens, d.Len)
	}
	k.tx.release(got)
}

// complete gives up to n sent frames back.
func (k *kernel) complete(n int) {
	n = int(k.completion.free(uint32(min(n, len(k.sending)))))
	for _, addr := range k.sending[:n] {
		k.completion.put(addr)
	}
	k.completion.submit()
	k.sending = k.sending[n:]
}

// add appends a packet of n bytes on a fresh frame; it says no when there is none.
func add(b *packet.Batch, n int) bool {
	i, _, ok := b.Extend()
	if ok {
		b.Resize(i, n)
	}
	return ok
}

// fill appends packets of n bytes until the batch is full or the pool is empty.
func fill(b *packet.Batch, n int) {
	for more := true; more && b.Room() > 0; {
		more = add(b, n)
	}
}

func lost(b *packet.Batch) (n uint64) {
	for _, d := range b.Drops() {
		n += d
	}
	return n
}

// TestFramesAreConserved plays a random worker and a random kernel and holds,
// after every step, that free + fill + RX + TX + completion + batches are all
// frames, that the budget is kept, that nothing within Room is lost, and that
// the order is kept both ways.
func TestFramesAreConserved(t *testing.T) {
	const frames, burst = 96, 24
	rng := rand.New(rand.NewPCG(3, 4))
	p, k := newModel(t, frames, Config{FillTarget: 40, TXLimit: 30})
	in, out := packet.NewBatch(p.pool, burst), packet.NewBatch(p.pool, burst)
	var got, sent byte
	for step := range 60_000 {
		n := rng.IntN(burst + 1)
		switch rng.IntN(6) {
		case 0:
			k.allocate(n)
		case 1:
			k.deliver(n)
		case 2:
			k.send(n)
		case 3:
			k.complete(n)
		case 4:
			if err := p.Recv(in); err != nil {
				t.Fatal(err)
			}
			for i := range in.Len() {
				if in.At(i).Start != packet.Headroom || in.Bytes(i)[0] != got || in.At(i).Len() != minFrame+int(got) {
					t.Fatalf("step %d: packet %d has window %+v and number %d", step, got, *in.At(i), in.Bytes(i)[0])
				}
				got++
			}
			checkConserved(t, step, p, k, in, out)
			in.Clear()
		case 5:
			for range min(n, p.Room()) {
				if add(out, minFrame+int(sent)) {
					sent++
				}
			}
			checkConserved(t, step, p, k, in, out)
			if err := p.Send(out); err != nil {
				t.Fatal(err)
			}
			if lost(out) != 0 {
				t.Fatalf("step %d: lost within Room: %v", step, *out.Drops())
			}
			if err := p.Flush(); err != nil {
				t.Fatal(err)
			}
		}
		checkConserved(t, step, p, k, in, out)
	}
	k.send(frames)
	for i, l := range k.sentLens {
		if l != minFrame+uint32(byte(i)) {
			t.Fatalf("packet %d left with length %d: order is lost", i, l)
		}
	}
	if len(k.sentLens) < 1000 {
		t.Fatalf("only %d packets sent: the test tests nothing", len(k.sentLens))
	}
}

func checkConserved(t *testing.T, step int, p *Port, k *kernel, batches ...*packet.Batch) {
	t.Helper()
	inBatches := 0
	for _, b := range batches {
		inBatches += b.Len()
	}
	fill, rx := int(p.fill.pending()), int(*k.rx.own-*p.rx.own)
	tx, completion := int(p.tx.pending()), int(*k.completion.own-*p.completion.own)
	sum := p.pool.Free() + fill + len(k.receiving) + rx + tx + len(k.sending) + completion + inBatches
	if sum != p.pool.Frames() {
		t.Fatalf("step %d: %d free, %d fill, %d receiving, %d rx, %d tx, %d sending, %d completion, %d in batches: %d of %d frames",
			step, p.pool.Free(), fill, len(k.receiving), rx, tx, len(k.sending), completion, inBatches, sum, p.pool.Frames())
	}
	heldRX, heldTX := p.Held()
	if heldRX != fill+len(k.receiving)+rx || heldTX != tx+len(k.sending)+completion {
		t.Fatalf("step %d: Held = %d, %d; want %d, %d", step, heldRX, heldTX, fill+len(k.receiving)+rx, tx+len(k.sending)+completion)
	}
	if heldRX > p.budget.fill || heldTX > p.budget.tx {
		t.Fatalf("step %d: held %d and %d exceed the budget %+v", step, heldRX, heldTX, p.budget)
	}
}

// TestSendingNeverStarvesReceiving: with a device that sends nothing, and
// batches full, the fill ring is still topped up.
func TestSendingNeverStarvesReceiving(t *testing.T) {
	p, k := newModel(t, 64, Config{FillTarget: 24, TXLimit: 24})
	out := packet.NewBatch(p.pool, 64)
	for range 100 {
		fill(out, 60)
		if err := p.Send(out); err != nil {
			t.Fatal(err)
		}
	}
	if rx, tx := p.Held(); rx != 24 || tx != 24 {
		t.Fatalf("held %d for receiving and %d for sending, want 24 and 24", rx, tx)
	}
	hands := packet.NewBatch(p.pool, 64) // a worker that holds all that is left to it
	fill(hands, 60)
	k.allocate(64)
	k.deliver(64)
	in := packet.NewBatch(p.pool, 24)
	for range 3 {
		if err := p.Recv(in); err != nil {
			t.Fatal(err)
		}
		in.Clear()
	}
	if rx, _ := p.Held(); rx != 24 {
		t.Errorf("%d frames ready to receive, want 24", rx)
	}
}

func TestRoomIsZeroWhileFramesAreLeft(t *testing.T) {
	p, k := newModel(t, 64, Config{})
	out := packet.NewBatch(p.pool, 16)
	add(out, 60)
	if err := p.Send(out); err != nil {
		t.Fatal(err)
	}
	if p.Room() != 0 || p.counters.Stalls != 1 {
		t.Errorf("Room = %d, %d stalls with a frame that the kernel did not take; want 0, 1", p.Room(), p.counters.Stalls)
	}
	k.send(1)
	if err := p.Flush(); err != nil {
		t.Fatal(err)
	}
	if want := p.budget.tx - 1; p.Room() != want {
		t.Errorf("Room = %d with one frame under way, want %d", p.Room(), want)
	}
	k.complete(1)
	if p.Room() != p.budget.tx || p.counters.Completed != 1 {
		t.Errorf("Room = %d, %d completed; want %d, 1", p.Room(), p.counters.Completed, p.budget.tx)
	}
}

func TestSendPastRoomIsCounted(t *testing.T) {
	p, _ := newModel(t, 64, Config{TXLimit: 4})
	out := packet.NewBatch(p.pool, 16)
	for range 7 {
		add(out, 60)
	}
	add(out, minFrame-1)
	add(out, 0)
	if err := p.Send(out); err != nil {
		t.Fatal(err)
	}
	if d := out.Drops(); d[packet.SendFailed] != 3 || d[packet.Short] != 2 || out.Len() != 0 {
		t.Errorf("%d packets left, drops %v; want 3 send_failed and 2 short", out.Len(), *d)
	}
	if p.counters.Sent != 4 {
		t.Errorf("sent %d, want 4", p.counters.Sent)
	}
}

// TestNonsenseFromTheKernel: descriptors and addresses that cannot be are
// counted, and end no process.
func TestNonsenseFromTheKernel(t *testing.T) {
	p, k := newModel(t, 64, Config{})
	slab := uint64(len(p.pool.Slab()))
	k.allocate(5)
	good, long := k.receiving[0], k.receiving[1]
	for _, d := range []unix.XDPDesc{
		{Addr: slab, Len: 60},
		{Addr: math.MaxUint64, Len: 60},
		{Addr: long + packet.Headroom, Len: packet.FrameSize2K - packet.Headroom + 1},
		{Addr: k.receiving[2] + packet.Headroom, Len: math.MaxUint32},
		{Addr: good + packet.Headroom, Len: packet.FrameSize2K - packet.Headroom},
	} {
		k.rx.put(d)
	}
	k.rx.submit()
	in := packet.NewBatch(p.pool, 16)
	if err := p.Recv(in); err != nil {
		t.Fatal(err)
	}
	if in.Len() != 1 || in.At(0).Len() != packet.FrameSize2K-packet.Headroom || p.counters.BadDescs != 4 {
		t.Errorf("%d packets, %d bad descriptors; want 1, 4", in.Len(), p.counters.BadDescs)
	}
	k.completion.put(slab + 1)
	k.completion.put(math.MaxUint64)
	k.completion.submit()
	if err := p.Flush(); err != nil || p.counters.BadCompletions != 2 {
		t.Errorf("Flush: %v, %d bad completions; want 2", err, p.counters.BadCompletions)
	}
}

func TestSleepingKernelIsWoken(t *testing.T) {
	p, k := newModel(t, 64, Config{})
	p.zerocopy = true
	in, out := packet.NewBatch(p.pool, 16), packet.NewBatch(p.pool, 16)
	cycle := func() (kicks, wakeups uint64) {
		t.Helper()
		before := p.counters
		add(out, 60)
		if err := errors.Join(p.Send(out), p.Recv(in)); err != nil {
			t.Fatal(err)
		}
		k.send(1)
		k.complete(1)
		return p.counters.Kicks - before.Kicks, p.counters.Wakeups - before.Wakeups
	}
	if kicks, wakeups := cycle(); kicks != 0 || wakeups != 0 {
		t.Errorf("an awake kernel was kicked %d and woken %d times", kicks, wakeups)
	}
	k.txMemory.flags, k.fillMemory.flags = unix.XDP_RING_NEED_WAKEUP, unix.XDP_RING_NEED_WAKEUP
	if kicks, wakeups := cycle(); kicks != 1 || wakeups != 1 {
		t.Errorf("a sleeping kernel was kicked %d and woken %d times, want once each", kicks, wakeups)
	}
}

func TestBrokenSocket(t *testing.T) {
	p, _ := newModel(t, 64, Config{IfIndex: 7, Queue: 3})
	p.fd = -1 // EBADF
	out := packet.NewBatch(p.pool, 4)
	add(out, 60)
	if err := p.Send(out); !errors.Is(err, packet.ErrPortGone) || !errors.Is(err, unix.EBADF) {
		t.Fatalf("Send on a closed descriptor: %v, want ErrPortGone and EBADF", err)
	}
	free := p.pool.Free()
	add(out, 60)
	for name, err := range map[string]error{"Send": p.Send(out), "Flush": p.Flush(), "Recv": p.Recv(packet.NewBatch(p.pool, 4))} {
		if !errors.Is(err, packet.ErrPortGone) {
			t.Errorf("%s on a broken port: %v, want ErrPortGone", name, err)
		}
	}
	if out.Len() != 0 || out.Drops()[packet.SendFailed] != 1 || p.pool.Free() != free {
		t.Errorf("a broken port kept packets: %d in the batch, drops %v, %d of %d free", out.Len(), *out.Drops(), p.pool.Free(), free)
	}
}

func TestIdlePortLooksWhetherItIsBound(t *testing.T) {
	p, _ := newModel(t, 64, Config{})
	p.fd = -1
	in := packet.NewBatch(p.pool, 4)
	for range checkEvery {
		if err := p.Recv(in); err != nil {
			if !errors.Is(err, packet.ErrPortGone) {
				t.Fatalf("Recv: %v, want ErrPortGone", err)
			}
			return
		}
	}
	t.Errorf("%d empty Recvs on a dead socket found nothing", checkEvery)
}

func TestForeignBatchPanics(t *testing.T) {
	p, _ := newModel(t, 64, Config{})
	other, err := packet.NewPool(4, packet.FrameSize2K)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	_ = p.Send(packet.NewBatch(other, 4))
}

func TestModelAllocs(t *testing.T) {
	p, k := newModel(t, 256, Config{})
	in, out := packet.NewBatch(p.pool, 32), packet.NewBatch(p.pool, 32)
	allocs := testing.AllocsPerRun(200, func() {
		k.receiving = k.receiving[:0]
		for range 32 {
			add(out, 60)
		}
		_ = p.Send(out)
		_ = p.Flush()
		_ = p.Recv(in)
		in.Clear()
		for n := k.tx.peek(32); n > 0; n = k.tx.peek(32) {
			for i := range n {
				k.completion.put(k.tx.at(i).Addr)
			}
			k.tx.release(n)
			k.completion.submit()
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations per turn", allocs)
	}
}

// BenchmarkPortRings is Send, completion and Recv of batches of 64 without a
// kernel: what the port itself costs.
func BenchmarkPortRings(b *testing.B) {
	t := &testing.T{}
	p, k := newModel(t, 1024, Config{})
	p.zerocopy = true // no kicks
	in, out := packet.NewBatch(p.pool, 64), packet.NewBatch(p.pool, 64)
	b.ReportAllocs()
	for b.Loop() {
		for range 64 {
			add(out, 60)
		}
		_ = p.Send(out)
		n := k.tx.peek(64)
		for i := range n {
			k.completion.put(k.tx.at(i).Addr)
		}
		k.tx.release(n)
		k.completion.submit()

		n = k.fill.peek(64)
		for i := range k.rx.free(n) {
			k.rx.put(unix.XDPDesc{Addr: k.fill.at(i) + packet.Headroom, Len: 60})
		}
		k.fill.release(n)
		k.rx.submit()
		_ = p.Recv(in)
		in.Clear()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/64, "ns/packet")
}
