// Package wire makes a node out of its parts: it turns the daemon's
// configuration into a source, an agent, host networking, a table and workers,
// and is the only place that chooses between them.
//
// A node lives in two halves. The agent's half (node.go) acquires the lease,
// prepares the host and hands leases to the table. The engine's half
// (engine.go) opens the ways onto the underlay, runs the workers, and opens
// them anew when a port fails. Neither waits for the other once the node is up.
package wire
