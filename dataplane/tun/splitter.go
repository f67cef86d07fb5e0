package tun

import (
	"golang.org/x/sys/unix"

	"flanx/dataplane/packet"
)

// The spill buffer takes what of a packet does not fit into its frame. Before
// it is room for what the frame holds beyond the first piece, so that the rest
// of a super-packet lies in one row.
const (
	spillFront = packet.FrameSize64K
	spillLen   = 1<<16 + 512 // one more than any packet (65,575: IPv6 with its header)
)

// splitter turns what the kernel hands over into packets that fit into frames.
//
//	read:  frame [vnet][head][piece 0][  tail  ]      spill [……front……][ over ]
//	then:  frame [head][piece 0]                      spill […… tail  ][ over ]
//	                                                           └── rest ──┘
type splitter struct {
	super super
	spill []byte
}

func newSplitter() splitter { return splitter{spill: make([]byte, spillFront+spillLen)} }

// over is the part of the spill buffer to read into.
func (s *splitter) over() []byte { return s.spill[spillFront:] }

// drain moves pieces of the super-packet at hand into b. It says no when b has
// no room for all of them: they wait for the next call.
func (s *splitter) drain(b *packet.Batch) bool {
	for len(s.super.rest) > 0 {
		i, space, ok := b.Extend()
		if !ok {
			return false
		}
		if s.super.headLen+s.super.size > len(space) { // another pool than before
			s.super.rest = nil
			b.Drop(i, packet.Truncated)
			return true
		}
		b.Resize(i, s.super.cut(space))
	}
	return true
}

// accept judges what was read into the i-th frame of b and the spill buffer.
// total is the packet's length without the header h. What is unsound is dropped
// as BadInner, what does not fit into a frame as Truncated.
func (s *splitter) accept(b *packet.Batch, i int, h vnet, space []byte, total int) {
	inFrame := min(total, len(space))
	over := total - inFrame
	if over == spillLen { // the kernel may have cut it
		b.Drop(i, packet.Truncated)
		return
	}
	if h.kind() == unix.VIRTIO_NET_HDR_GSO_NONE {
		s.whole(b, i, h, space, total)
		return
	}
	if !s.super.begin(h, space[:inFrame], total) {
		b.Drop(i, packet.BadInner)
		return
	}
	first := s.super.headLen + s.super.size
	if total <= first { // one piece only
		s.whole(b, i, h, space, total)
		return
	}
	if first > len(space) {
		b.Drop(i, packet.Truncated)
		return
	}
	tail := copy(s.spill[spillFront-(inFrame-first):], space[first:inFrame])
	s.super.setRest(s.spill[spillFront-tail:spillFront+over], total)
	s.super.finish(space[:first])
	b.Resize(i, first)
}

// whole accepts a packet that needs no cutting.
func (s *splitter) whole(b *packet.Batch, i int, h vnet, space []byte, total int) {
	switch {
	case total > len(space):
		b.Drop(i, packet.Truncated)
	case !h.complete(space[:total]):
		b.Drop(i, packet.BadInner)
	default:
		b.Resize(i, total)
	}
}
