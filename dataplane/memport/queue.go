package memport

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"sync"

	"golang.org/x/sys/unix"
)

// slot is the place of one packet in a queue.
type slot struct {
	data []byte // MaxLen bytes, made once
	n    int
}

// queue is one direction: a bounded ring of packets, and an eventfd that is
// readable while a packet is ready.
type queue struct {
	from     [16]byte // the sending end's address, for the receiver's Buf.Peer
	fromPort uint16

	mu    sync.Mutex
	slots []slot
	head  int // the oldest packet
	n     int // packets in the ring
	ready int // of those, how many the receiver may see; the rest wait for Flush
	event int // eventfd; -1 after close
	word  [8]byte
}

func newQueue(cfg Config, from netip.AddrPort) (*queue, error) {
	event, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("create eventfd: %w", err)
	}
	q := &queue{slots: make([]slot, cfg.Depth), event: event}
	slab := make([]byte, cfg.Depth*cfg.MaxLen)
	for i := range q.slots {
		q.slots[i].data, slab = slab[:cfg.MaxLen:cfg.MaxLen], slab[cfg.MaxLen:]
	}
	if from.IsValid() {
		q.from, q.fromPort = from.Addr().As16(), from.Port()
	}
	return q, nil
}

// at returns the i-th slot from the oldest.
func (q *queue) at(i int) *slot { return &q.slots[(q.head+i)%len(q.slots)] }

func (q *queue) room() int { return len(q.slots) - q.n }

// push copies a packet to the end. The caller has seen that there is room and
// that the packet fits.
func (q *queue) push(pkt []byte) {
	s := q.at(q.n)
	s.n = copy(s.data, pkt)
	q.n++
}

// swapLast exchanges the two youngest packets, unless the receiver has taken the
// one before.
func (q *queue) swapLast() {
	if q.n < 2 {
		return
	}
	a, b := q.at(q.n-1), q.at(q.n-2)
	*a, *b = *b, *a
}

// publish shows the receiver everything that was pushed.
func (q *queue) publish() {
	if q.ready == 0 && q.n > 0 {
		q.signal(true)
	}
	q.ready = q.n
}

// pop removes the oldest packet. The caller has seen that one is ready. Its
// bytes hold until the next push.
func (q *queue) pop() []byte {
	s := q.at(0)
	q.head = (q.head + 1) % len(q.slots)
	q.n--
	q.ready--
	if q.ready == 0 {
		q.signal(false)
	}
	return s.data[:s.n]
}

// signal makes the eventfd readable or not (eventfd(2): a write adds to its
// counter, a read sets it to zero). It cannot fail on a counter of 0 or 1.
func (q *queue) signal(readable bool) {
	if q.event < 0 {
		return
	}
	if readable {
		binary.NativeEndian.PutUint64(q.word[:], 1)
		_, _ = unix.Write(q.event, q.word[:])
		return
	}
	_, _ = unix.Read(q.event, q.word[:])
}

// close gives the eventfd back. What is in the ring stays readable by nobody.
func (q *queue) close() error {
	if q.event < 0 {
		return nil
	}
	event := q.event
	q.event = -1
	if err := unix.Close(event); err != nil {
		return fmt.Errorf("close eventfd: %w", err)
	}
	return nil
}
