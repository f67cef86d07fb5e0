// Package gen makes traffic and judges what arrives: ICMP echo, a TCP transfer
// with a digest at both ends, and numbered UDP datagrams at a given rate. It
// needs no other program.
//
// What is sent follows from a seed, so a run can be repeated and every byte that
// arrives can be checked. Each generator comes with its sink: one call runs both
// ends, each in the namespace that its [Inside] leads to, and returns when all
// has arrived, or the time or the context is over.
//
// # Ownership and concurrency
//
// A call owns its sockets and goroutines, and leaves none behind. Calls may run
// at once.
//
// The package measures what the sockets see. It does not count CPU time, and it
// knows nothing of the path between the two ends.
package gen
