package porttest

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"flanx/dataplane/packet"
)

// InFlight is how many packets the suite leaves unread at most, each way,
// unless it tests a full port. The pair must hold as many without loss.
const InFlight = 64

// ErrTimeout is what a Far's Recv returns when nothing came.
var ErrTimeout = errors.New("nothing received in time")

// Port is dataplane.Port, word for word (a test holds them equal). It stands here
// again so that a port and its tests build without the loops above them.
type Port interface {
	Recv(b *packet.Batch) error
	Send(b *packet.Batch) error
	Room() int
	Flush() error
	FD() int
	Close() error
}

// Far is the other end of the port under test.
type Far interface {
	// Send puts one packet on the wire towards the port.
	Send(pkt []byte) error
	// Recv returns the length of the next packet that the port sent, copied
	// into buf, or ErrTimeout. It leaves out what the port did not send.
	Recv(buf []byte, timeout time.Duration) (int, error)
}

// Direction is the way that a packet goes.
type Direction bool

// The two directions.
const (
	ToFar  Direction = false
	ToPort Direction = true
)

// Pair is a port under test with all that belongs to it. Whoever makes one
// registers the cleanup of the port and the pool with the test.
type Pair struct {
	Port Port
	Far  Far
	Pool *packet.Pool

	// Min and Max bound the length of a packet in bytes. Min leaves room for
	// 8 bytes behind what Stamp writes.
	Min, Max int

	// Stamp writes the headers that a packet needs to pass the wire onto the
	// front of pkt, whose length is final. Nil: any bytes pass.
	Stamp func(pkt []byte, way Direction)

	// Peer is the far end's address, for ports that need one: the suite sends
	// to it, and Recv must report it. Not valid: neither.
	Peer netip.AddrPort

	// Block makes the wire stand still so that the port's Room reaches zero,
	// and Unblock lets it go on, losing nothing. Nil where that cannot be done.
	Block, Unblock func()

	// Held returns how many frames are with the port or the kernel. Nil: none
	// ever is when a call has returned.
	Held func() int
}

// Case is one property of the suite.
type Case struct {
	Name string
	test func(*testing.T, *driver)
}

// Run holds every property against a fresh pair from open.
func Run(t *testing.T, open func(t *testing.T) *Pair) {
	t.Helper()
	for _, c := range Cases() {
		t.Run(c.Name, func(t *testing.T) {
			RunCase(t, c, open(t))
		})
	}
}

// RunCase holds one property against a fresh pair.
func RunCase(t *testing.T, c Case, p *Pair) {
	t.Helper()
	d := newDriver(t, p)
	d.settled("at the start")
	c.test(t, d)
}

// Cases returns the properties, for a test that must leave one out.
func Cases() []Case {
	cases := make([]Case, 0, 24)
	cases = append(cases, recvCases()...)
	cases = append(cases, sendCases()...)
	return append(cases, lifeCases()...)
}
