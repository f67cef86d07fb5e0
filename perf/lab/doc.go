// Package lab builds networks out of what one Linux machine has: hosts are
// network namespaces, wires are veth pairs, and three or more hosts meet at a
// bridge in a switch namespace of its own. The demo, the benchmarks and the
// tests of every package run in it.
//
//	host1 eth0 ─┐
//	host2 eth0 ─┼─ bridge (switch namespace)     two hosts: one veth pair
//	host3 eth0 ─┘
//	  └ pod-web ── eth0 (pod namespace)          a pod behind host3
//
// A wire behaves as a cable unless asked otherwise: segmentation, receive
// coalescing and checksum offloads are off at every end, so that only frames
// of at most MTU bytes with complete checksums cross it.
//
// # Ownership
//
// A [Lab] owns its namespaces, what is in them, the processes found running in
// them, and one scratch folder; [Lab.Close] removes all of it. Every name
// begins with "flanx-", the process id and a counter, so labs never meet, and
// [Sweep] can tell the leavings of a process that died. Nothing is made, not
// even for a moment, in the namespace that the program was started in.
//
// # Concurrency
//
// A Lab is built by one goroutine. Once built, [Host.Do], [Host.Start] and
// [Host.Output] may be called from several, and [Lab.Close] from any, once or
// more often.
//
// The lab knows nothing of overlays, and it needs root.
package lab
