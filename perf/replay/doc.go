// Package replay sends a capture again: through a tunnel's codec or as it is, at
// the pace it was captured or another, to a port or into a file.
//
//	capture ─▶ find IP ─▶ filter ─▶ change ─▶ batch ─▶ encapsulate ─▶ pace ─▶ Port
//	                └─ what cannot be sent is counted by reason, and the rest goes on
//
// [Run] does it, whatever the port: offline encapsulation is a replay to a
// pcapport.Port at top speed. [Decapsulate] is the way back, for files.
//
// # Memory
//
// A file of any size takes the same memory: one record is in hand at a time, and
// as many frames as the pool has. Only [Config.Preload] reads a file into memory,
// up to a limit.
//
// # Ownership and concurrency
//
// Run uses its port and pool alone, on one locked thread, and closes neither.
// Ending its context ends it within a tenth of a second, with the summary of
// what was sent.
//
// The package opens no device and needs no privilege: whoever calls it does.
package replay
