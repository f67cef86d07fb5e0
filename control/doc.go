// Package control knows what the cluster looks like and holds our place in it.
//
// A [Source] tells the leases of all nodes; a [Leaser] acquires and keeps our
// own. The [Agent] runs both and hands every change to one apply function; it
// never sees the packet half. Everything read from a store is hostile input.
//
//	Source.Watch ──▶ table: admit, hold down ──▶ Apply ──▶ the packet half
//	                   │                           ▲
//	                   └──▶ state file ── store away at start
//	Leaser.Find ──▶ Attrs ──▶ Leaser.Acquire ──▶ OnLease ──▶ Leaser.Keep
//
// # What holds when the store fails
//
// The store is never needed to forward packets. While it is away the last leases
// stay in force, also over a restart, from the state file. When it is back,
// peers whose leases ran out in the meantime get a grace period to come again
// before they are removed. Our own subnet is taken and renewed by
// compare-and-swap only, so it is never taken from another node; when another
// node holds it, the agent stops with [ErrLeaseLost].
//
// # Concurrency
//
// Agent.Run uses three goroutines and joins them before it returns. Apply and
// OnLease are called from one goroutine at a time; Status may be called from
// anywhere. The network configuration is read once: a later change is reported,
// and takes effect at the next start.
package control
