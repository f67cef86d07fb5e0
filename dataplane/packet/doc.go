// Package packet holds packets in frames that every port can use in place.
//
// A [Pool] is one page-aligned slab of memory cut into equal frames. An AF_XDP
// socket registers that slab as its UMEM; the TUN and UDP ports just use the
// memory. So a packet is read from the TUN into the very frame that the
// network card will send.
//
// A [Buf] is one packet: a window on a frame, with headroom before it for the
// outer headers. It holds no pointers. A [Batch] is an ordered list of Bufs
// that share a Pool.
//
//	frame start        Start            End        frame end
//	|   headroom       |   packet       |   tailroom  |
//	        Push grows ◀|▶ Pop shrinks
//
// # Ownership
//
// Each frame has exactly one owner at any time: its Pool, a Batch, or the
// kernel (a frame in an AF_XDP ring). A Batch gives a frame up through
// [Batch.Release] (delivered), [Batch.Drop] (lost, with a [Reason] counted) or
// [Batch.Take] (to the kernel, or to another owner who will put it back).
// The sum over all owners is the number of frames; tests hold this. In race
// builds a freed frame is poisoned, and freeing it twice panics.
//
// # Concurrency
//
// Nothing here is safe for concurrent use: a Pool and its Batches belong to
// one worker, which is one goroutine.
//
// This package does not parse packets and does no I/O.
package packet
