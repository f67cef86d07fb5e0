package xsk

import (
	"fmt"

	"golang.org/x/sys/unix"

	"flanx/dataplane/packet"
)

const (
	// minFrame is the least that can be sent: an Ethernet header. An empty
	// descriptor is invalid, and not every kernel gives its frame back.
	minFrame = 14
	// maxStalls is how many calls in a row may move nothing before the port
	// leaves the rest to a later Flush.
	maxStalls = 8
	// checkEvery is how many empty Recvs go by between two looks at whether the
	// socket is still bound (a power of two): poll does not report it.
	checkEvery = 64
)

// Port is an AF_XDP socket on one queue. It satisfies dataplane.Port.
type Port struct {
	socket
	cfg    Config
	pool   *packet.Pool
	budget budget

	rxHeld int // frames with the kernel for receiving
	txHeld int // frames with the kernel for sending

	unsent bool  // frames are left in the TX ring that only a kick moves
	down   bool  // the kernel last said ENETDOWN
	idle   uint  // empty Recvs
	gone   error // once set, every call returns it

	counters Counters
}

// Counters are what the port counts itself, since it was opened. The worker
// that owns the port reads them.
type Counters struct {
	Kicks          uint64 // calls to make the kernel send
	Wakeups        uint64 // calls to make the kernel receive, or to see whether it still can
	Stalls         uint64 // times that kicking was given up with frames left
	Sent           uint64 // frames put into the TX ring
	Completed      uint64 // frames that came back from sending
	DeviceDrops    uint64 // frames that the device refused: not sent, not retried (copy mode)
	BadDescs       uint64 // received descriptors that point outside their frame
	BadCompletions uint64 // completed addresses outside the pool
}

// Open binds an AF_XDP socket whose packet memory is the pool, and fills its
// fill ring. It waits up to two seconds for a queue that was just closed. On
// error nothing is left behind and the pool is as before; after success the
// pool must stay open until the port is closed.
func Open(cfg Config, pool *packet.Pool) (*Port, error) {
	b, err := newBudget(cfg, pool.Frames())
	if err != nil {
		return nil, err
	}
	return open(&opener{cfg: cfg, budget: b, sizes: b.sizes(), pool: pool})
}

func open(o *opener) (*Port, error) {
	s, err := o.open()
	if err != nil {
		return nil, err
	}
	p := &Port{socket: *s, cfg: o.cfg, pool: o.pool, budget: o.budget}
	p.refill()
	return p, nil
}

// ZeroCopy says whether the kernel granted zero-copy, as read back from it.
func (p *Port) ZeroCopy() bool { return p.zerocopy }

// Queue returns the queue that the port is bound to.
func (p *Port) Queue() int { return p.cfg.Queue }

// Pool returns the pool whose frames the port moves.
func (p *Port) Pool() *packet.Pool { return p.pool }

// Counters returns the port's counters; they go on counting.
func (p *Port) Counters() *Counters { return &p.counters }

// Held returns how many frames the kernel holds for receiving (fill and RX
// rings) and for sending (TX and completion rings). With the pool's free frames
// and those in batches they are all frames.
func (p *Port) Held() (rx, tx int) { return p.rxHeld, p.txHeld }

// FD returns the socket to poll. Readable means packets; writable means that at
// most half of the TX ring is used.
func (p *Port) FD() int { return p.fd }

// Recv appends received packets to b, as they arrived.
func (p *Port) Recv(b *packet.Batch) error {
	if p.gone != nil {
		return p.gone
	}
	p.refill()
	n := p.rx.peek(uint32(b.Room()))
	for i := range n {
		p.take(b, p.rx.at(i))
	}
	if n > 0 {
		p.rx.release(n)
	} else {
		p.idle++
	}
	if p.fill.needWakeup() || (n == 0 && p.idle%checkEvery == 0) {
		return p.wakeRX()
	}
	return nil
}

// take appends one received packet to b. A descriptor that makes no sense is
// counted, and its frame freed if it names one.
func (p *Port) take(b *packet.Batch, d unix.XDPDesc) {
	frame, at, ok := p.pool.Locate(d.Addr)
	if !ok {
		p.counters.BadDescs++
		return
	}
	p.rxHeld--
	if uint64(at)+uint64(d.Len) > uint64(p.pool.FrameSize()) {
		p.counters.BadDescs++
		p.pool.Put(frame)
		return
	}
	b.Append(packet.Buf{Frame: frame, Start: at, End: at + d.Len})
}

// refill tops the fill ring up to the budget from the pool.
func (p *Port) refill() {
	want := p.budget.fill - p.rxHeld
	if want <= 0 {
		return
	}
	n := min(int(p.fill.free(uint32(want))), p.pool.Free())
	for range n {
		frame, _ := p.pool.Get()
		p.fill.put(p.pool.Offset(frame, 0))
	}
	if n > 0 {
		p.fill.submit()
		p.rxHeld += n
	}
}

// Room returns how many packets Send can take now.
func (p *Port) Room() int {
	if p.down {
		return p.budget.tx // to be dropped and counted
	}
	if p.unsent {
		return 0
	}
	p.reclaim()
	return p.budget.tx - p.txHeld
}

// Send puts the packets of b into the TX ring and makes the kernel take them.
// What exceeds Room, or meets a link that is down, is dropped as
// packet.SendFailed; what is no Ethernet frame as packet.Short.
func (p *Port) Send(b *packet.Batch) error {
	if b.Pool() != p.pool {
		panic("xsk: a batch of another pool")
	}
	if err := p.ready(); err != nil {
		p.refuse(b)
		return err
	}
	if p.down || p.unsent {
		p.refuse(b)
		return nil
	}
	p.enqueue(b)
	return p.kick()
}

// ready makes way for a Send: it says whether the port is gone, and, when the
// link was down or frames were left, asks whether that is still so.
func (p *Port) ready() error {
	if p.gone == nil && (p.down || p.unsent) {
		return p.kick()
	}
	p.reclaim()
	return p.gone
}

func (p *Port) refuse(b *packet.Batch) {
	for i := range b.Len() {
		b.Drop(i, packet.SendFailed)
	}
	b.Reset()
}

// enqueue moves the packets of b to the TX ring, as many as the budget allows.
func (p *Port) enqueue(b *packet.Batch) {
	room := p.budget.tx - p.txHeld
	n := 0
	for i := range b.Len() {
		buf := b.At(i)
		switch {
		case buf.End-buf.Start < minFrame:
			b.Drop(i, packet.Short)
		case n == room:
			b.Drop(i, packet.SendFailed)
		default:
			p.tx.put(unix.XDPDesc{Addr: p.pool.Offset(buf.Frame, buf.Start), Len: buf.End - buf.Start})
			b.Take(i)
			n++
		}
	}
	b.Reset()
	p.tx.submit()
	p.txHeld += n
	p.counters.Sent += uint64(n)
}

// Flush frees what was sent and kicks again what was not.
func (p *Port) Flush() error {
	if p.gone != nil {
		return p.gone
	}
	p.reclaim()
	if p.unsent || p.down {
		return p.kick()
	}
	return nil
}

// reclaim gives the frames that were sent back to the pool, and says how many.
func (p *Port) reclaim() int {
	if p.gone != nil {
		return 0
	}
	n := p.completion.peek(p.completion.size())
	if n == 0 {
		return 0
	}
	for i := range n {
		frame, _, ok := p.pool.Locate(p.completion.at(i))
		if !ok {
			p.counters.BadCompletions++
			continue
		}
		p.pool.Put(frame)
		p.txHeld--
	}
	p.completion.release(n)
	p.counters.Completed += uint64(n)
	return int(n)
}

// Close gives the socket and its rings back. The frames that the kernel held
// are in no pool afterwards.
func (p *Port) Close() error {
	p.gone = fmt.Errorf("%w: closed", packet.ErrPortGone)
	return p.close()
}
