// Package memport is a pair of ports joined in memory, for tests of whatever
// stands on a dataplane.Port: two bounded queues, one each way, and faults that
// a test switches on.
//
//	a.Send ─▶ queue ─▶ b.Recv
//	a.Recv ◀─ queue ◀─ b.Send
//
// # Ownership
//
// Bytes are copied into the queue by Send and out of it by Recv, so the two
// ends may use different pools, and a port never holds a frame.
//
// # Concurrency
//
// The two ends may be used by two goroutines at once, and a test may set
// faults and use [Port.Write] and [Port.Read] from a third: a lock is taken
// once per call.
//
// What it does not do: parse packets, keep time, or carry a Buf's Hop and Hash.
package memport
