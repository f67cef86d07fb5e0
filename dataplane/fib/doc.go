// Package fib decides which node a packet goes to: it turns the leases of the
// cluster into a [Snapshot] that maps inner addresses to hops, and each hop to
// the compiled [encap.Path] that reaches it.
//
//	lease.Update ──▶ Table.Apply ─┐                       ┌─▶ Lookup4, Lookup6
//	                              ├─▶ atomic *Snapshot ───┤
//	NextHops ──────▶ Table.Changed┘   (read once a batch) └─▶ Hops, Fast, Fallback
//
// A lease with subnets of both families gives two hops: inner IPv4 travels to
// the node's PublicIP, inner IPv6 to its PublicIPv6.
//
// # Which hop a packet gets
//
// The longest prefix that contains the address decides, whatever order the
// leases came in. Two leases that claim the very same prefix are rivals: the
// first to claim it has it, and when it goes, the next in order of arrival.
// Our own subnet is in the table and leads nowhere, so that a lease covering it
// cannot attract its packets. A lease that cannot be used (see [Refusal]) costs
// only itself, and only the family that is wrong.
//
// # Ownership and concurrency
//
// [Table.Load] may be called by anybody at any time and never blocks. A
// Snapshot never changes: workers hold one for the length of a batch and index
// its slices without a lock. Successive snapshots share memory: a changed hop
// is written behind the end of what older snapshots can see, and the prefix is
// led there, so that a change costs the same in a table of ten and of 65,536.
// An index is therefore good only in the snapshot that it was looked up in, and
// Hops also holds entries that no prefix leads to any more.
//
// [Table.Apply], [Table.Changed], [Table.Refresh] and [Table.Stats] lock, and
// may be called from different goroutines.
//
// # Size and speed
//
// One structure serves both families and all prefix lengths: bart.Fast. Against
// it stood an array indexed by subnet number, which works where all IPv4
// subnets have one length. Nanoseconds per lookup of random addresses on one
// core of a shared virtual machine, routes 1 / 1,000 / 65,536:
//
//	bart.Fast        8.3 /  8.3 / 15.4
//	bart.Table      10.3 / 15.1 / 23.2
//	array            0.8 /  0.8 /  0.9
//
// Through a Snapshot that is 11 / 10 / 17 for IPv4, and 13 / 27 / 29 for IPv6.
//
// The array's gain is under one percent of the 1.6 µs that a packet costs, and
// it would need a second structure beside it for every lease of another length,
// so it is not here.
//
// 65,536 routes with both kinds of path take 30 MiB. A change among them takes
// 11 µs, and one in four thousand, which moves all to new memory, some 70 ms.
//
// This package does no I/O, does not parse backend data (see [Config].VTEP) and
// does not know how next hops are found: that is [NextHops], in dataplane/host.
package fib
