package dataplane

import "flanx/dataplane/packet"

// Port is one side of a worker: the TUN, an AF_XDP socket, a UDP socket, a
// capture, or memory. It is used by one goroutine; only Close may come from
// another, after the worker has stopped.
type Port interface {
	// Recv appends the packets that are ready to b, up to b's room. It never
	// blocks: nothing ready is no error. An error means the port is broken
	// (packet.ErrPortGone when its device is), not that a packet was bad: bad packets
	// are dropped in b with their reason.
	Recv(b *packet.Batch) error

	// Send takes every packet of b and leaves b empty, also on error. Packets
	// that the kernel refuses are dropped in b with a reason. It never blocks;
	// a caller that sends no more than Room loses none for lack of space.
	Send(b *packet.Batch) error

	// Room returns how many packets Send can take now. At zero the caller
	// waits for FD to be writable, calls Flush, and asks again. A port that
	// holds packets which leave only after another Flush says zero, so that
	// a worker never goes to sleep on them.
	Room() int

	// Flush pushes on what Send left unfinished (frames in a ring that were not
	// yet kicked, completions not yet reclaimed). It never blocks.
	Flush() error

	// FD is what to poll when both directions are idle; -1 if there is nothing
	// to wait for.
	FD() int

	// Close gives every resource back. Frames that the kernel held are in no
	// pool afterwards, so the pool is closed with it.
	Close() error
}
