package packet

// Buf is one packet: a window on a frame, and what the stages before learned
// about it. It holds no pointers, so that moving one needs no write barrier;
// its bytes are reached through its Batch.
type Buf struct {
	Frame uint32 // index in the Pool
	Start uint32 // first byte of the packet, from the start of the frame
	End   uint32 // one past the last byte

	// Hop is the index of the hop in the fib snapshot of this batch. The worker
	// sets it on egress; on ingress it means nothing.
	Hop uint32
	// Hash is the inner flow's hash, for the outer source port.
	Hash uint32
	// Peer is the underlay address of the other node, IPv4 in its IPv4-mapped
	// form (netip.Addr.As16): the destination for a socket port's Send, the
	// source after Recv or Pop.
	Peer [16]byte
	// PeerPort is the UDP port that goes with Peer, in host order.
	PeerPort uint16
}

// Len returns the length of the packet in bytes.
func (b *Buf) Len() int { return int(b.End - b.Start) }

// Batch is an ordered list of packets on their way through the stages. Its
// capacity is fixed. The order within a flow is the order of arrival, and no
// stage may change it.
type Batch struct {
	pool  *Pool
	bufs  []Buf
	limit int // see Limit
	dead  int // how many of bufs are dropped and wait for Compact
	drops [NumReasons]uint64
}

// dropped marks a Buf whose frame is already back in the pool.
const dropped = ^uint32(0)

// NewBatch returns an empty batch with room for capacity packets from pool.
func NewBatch(pool *Pool, capacity int) *Batch {
	return &Batch{pool: pool, bufs: make([]Buf, 0, capacity), limit: capacity}
}

// Pool returns the pool that the frames come from.
func (b *Batch) Pool() *Pool { return b.pool }

// Len returns the number of packets, dropped ones not yet compacted included.
func (b *Batch) Len() int { return len(b.bufs) }

// Room returns how many packets can still be appended.
func (b *Batch) Room() int { return max(0, b.limit-len(b.bufs)) }

// Cap returns the most packets that the batch can hold.
func (b *Batch) Cap() int { return cap(b.bufs) }

// Limit bounds Room to fewer packets than the capacity, so that no more is
// received than the far side has room for. It holds until it is set again.
func (b *Batch) Limit(n int) { b.limit = min(max(n, 0), cap(b.bufs)) }

// At returns the i-th packet. The pointer holds until the next Compact, Reset
// or Append.
func (b *Batch) At(i int) *Buf { return &b.bufs[i] }

// Live says whether the i-th packet has not been dropped.
func (b *Batch) Live(i int) bool { return b.bufs[i].Frame != dropped }

// Bytes returns the i-th packet's bytes. Appending to them reallocates.
func (b *Batch) Bytes(i int) []byte {
	buf := &b.bufs[i]
	f := b.pool.Frame(buf.Frame)
	return f[buf.Start:buf.End:buf.End]
}

// Extend appends an empty packet on a fresh frame, its window starting at
// Headroom, and returns its index and the space behind Start to read into. The
// caller then sets the length with Resize, or calls Undo. It says no when the
// batch is full or the pool is empty.
func (b *Batch) Extend() (i int, space []byte, ok bool) {
	if b.Room() == 0 {
		return 0, nil, false
	}
	frame, ok := b.pool.Get()
	if !ok {
		return 0, nil, false
	}
	b.Append(Buf{Frame: frame, Start: Headroom, End: Headroom})
	return len(b.bufs) - 1, b.pool.Frame(frame)[Headroom:], true
}

// Resize sets the length of the i-th packet, keeping its start. It panics when
// the frame is too small: the caller read past its space.
func (b *Batch) Resize(i, n int) {
	buf := &b.bufs[i]
	end := int(buf.Start) + n
	if n < 0 || end > b.pool.FrameSize() {
		panic("packet: Resize past the frame")
	}
	buf.End = uint32(end)
}

// Undo takes back the last Extend: nothing was read into it.
func (b *Batch) Undo() {
	last := len(b.bufs) - 1
	b.pool.Put(b.bufs[last].Frame)
	b.bufs = b.bufs[:last]
}

// Append adds a packet whose frame the caller owned; the batch owns it from
// now on. The caller must have seen that there is Room.
func (b *Batch) Append(buf Buf) {
	n := len(b.bufs)
	b.bufs = b.bufs[:n+1] // panics when full: the caller did not look at Room
	b.bufs[n] = buf
}

// Push grows the i-th packet by n bytes at its front and returns those bytes,
// for a header to be written. It panics when the headroom is missing, for then
// the parts were wired wrongly.
func (b *Batch) Push(i, n int) []byte {
	buf := &b.bufs[i]
	start := int(buf.Start) - n
	if start < 0 {
		panic("packet: Push without headroom")
	}
	buf.Start = uint32(start)
	f := b.pool.Frame(buf.Frame)
	return f[start : start+n : start+n]
}

// Pop shrinks the i-th packet by n bytes at its front. It says no, and changes
// nothing, when the packet is shorter: that is the sender's doing.
func (b *Batch) Pop(i, n int) bool {
	buf := &b.bufs[i]
	if n < 0 || n > buf.Len() {
		return false
	}
	buf.Start += uint32(n)
	return true
}

// Trim cuts the i-th packet to n bytes at its end. It says no when the packet
// is shorter.
func (b *Batch) Trim(i, n int) bool {
	buf := &b.bufs[i]
	if n < 0 || n > buf.Len() {
		return false
	}
	buf.End = buf.Start + uint32(n)
	return true
}

// Drop counts the i-th packet as lost for the reason and frees its frame. The
// entry stays, not Live, until Compact. Dropping twice panics.
func (b *Batch) Drop(i int, reason Reason) {
	b.drops[reason]++
	b.Release(i)
}

// Release frees the i-th packet's frame without counting a loss: it has been
// delivered. The entry stays, not Live, until Compact.
func (b *Batch) Release(i int) {
	b.pool.Put(b.Take(i))
}

// Take hands the i-th packet's frame to the caller, who becomes its owner. The
// entry stays, not Live, until Compact.
func (b *Batch) Take(i int) (frame uint32) {
	frame = b.bufs[i].Frame
	if frame == dropped {
		panic("packet: a Buf given up twice")
	}
	b.bufs[i].Frame = dropped
	b.dead++
	return frame
}

// Move hands the i-th packet to another batch of the same pool, which must
// have room. The entry stays, not Live, until Compact.
func (b *Batch) Move(i int, to *Batch) {
	buf := b.bufs[i]
	b.Take(i)
	to.Append(buf)
}

// Compact removes the entries that are no longer Live, keeping the order. The
// worker calls it between stages, so a stage never meets a dead entry that it
// did not make itself.
func (b *Batch) Compact() {
	if b.dead == 0 {
		return
	}
	live := b.bufs[:0]
	for i := range b.bufs {
		if b.bufs[i].Frame != dropped {
			live = append(live, b.bufs[i])
		}
	}
	b.bufs, b.dead = live, 0
}

// Clear releases every packet still in the batch and empties it.
func (b *Batch) Clear() {
	for i := range b.bufs {
		if b.Live(i) {
			b.Release(i)
		}
	}
	b.Reset()
}

// Reset empties the batch after all its packets were given up.
func (b *Batch) Reset() { b.bufs, b.dead = b.bufs[:0], 0 }

// Drops returns how many packets this batch has dropped since it was made, by
// reason. The worker reads it; nobody else may while the worker runs.
func (b *Batch) Drops() *[NumReasons]uint64 { return &b.drops }
