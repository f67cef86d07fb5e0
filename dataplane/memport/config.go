package memport

import (
	"errors"
	"fmt"
	"net/netip"
)

// ErrConfig says that a pair was asked for that cannot be made.
var ErrConfig = errors.New("invalid memory port")

// What Write and Read answer.
var (
	ErrFull    = errors.New("memory port: queue is full")
	ErrEmpty   = errors.New("memory port: queue is empty")
	ErrTooLong = errors.New("memory port: packet is too long")
)

// Default sizes of a Config that leaves them zero.
const (
	DefaultDepth  = 256
	DefaultMaxLen = 2048
)

// Config describes a pair. The zero value is a good one.
type Config struct {
	// Depth is how many packets each direction holds; 0 means DefaultDepth.
	Depth int
	// MaxLen is the longest packet in bytes, at most 65,535; 0 means DefaultMaxLen.
	MaxLen int
	// A and B are the addresses of the two ends, which the other end's Recv
	// reports as the Peer. Not valid: the Peer is left zero.
	A, B netip.AddrPort
}

func (c Config) withDefaults() (Config, error) {
	if c.Depth == 0 {
		c.Depth = DefaultDepth
	}
	if c.MaxLen == 0 {
		c.MaxLen = DefaultMaxLen
	}
	if c.Depth < 0 || c.MaxLen < 0 || c.MaxLen > 65535 {
		return c, fmt.Errorf("%w: depth %d, packets of %d bytes", ErrConfig, c.Depth, c.MaxLen)
	}
	return c, nil
}

// Faults are what can be wrong with one end. They are deterministic: "every
// n-th" counts the packets that this end has sent since the faults were set.
// Zero means never.
type Faults struct {
	// Err is returned by Recv, Send and Flush, which then do nothing else; Send
	// drops its packets. Use packet.ErrPortGone for a device that was deleted.
	Err error
	// Full makes Room zero, so that Send drops everything.
	Full bool
	// Lazy keeps what is sent out of the other end's sight until Flush, as a
	// ring does that was not kicked.
	Lazy bool
	// RecvMax is the most packets that one Recv returns.
	RecvMax int

	// Refuse drops every n-th packet in Send: the kernel said no.
	Refuse int
	// Lose loses every n-th packet on the way: nobody counts it.
	Lose int
	// Repeat delivers every n-th packet twice, if there is room.
	Repeat int
	// Swap makes every n-th packet change places with the one before it, if
	// that is still in the queue.
	Swap int
	// Damage flips one bit in the last byte of every n-th packet.
	Damage int
}

// hits says whether a fault of "every n-th" strikes the count-th packet.
func hits(n int, count uint64) bool { return n > 0 && count%uint64(n) == 0 }
