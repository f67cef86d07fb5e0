// Package dataplane carries packets between the TUN and the underlay. It owns
// the two loops, [Worker.egress] and [Worker.ingress], and nothing else: how a
// packet gets on the wire is a [Port]'s matter, how it is wrapped a codec's, and
// where it goes is read from one atomic snapshot of the fib.
//
//	                  control  (leases, watch; slow path)
//	etcd ──watch──▶ Source ──▶ Agent ──▶ fib.Table.Apply ──▶ atomic snapshot
//	                                                           │ read once per turn
//	pods ─▶ kernel ─▶ flannel0                                 ▼
//	         read  ┌──────────┐  Batch  ┌────────┐  ┌───────────┐  ┌─────────────┐  AF_XDP TX
//	         ────▶ │ TUN port │ ──────▶ │ route  │─▶│ Codec.Push│─▶│ underlay    │ ─────────▶ wire
//	               │          │         └────────┘  └───────────┘  │ port: xsk / │
//	         ◀──── │          │ ◀────── │ verify │◀─│ Codec.Pop │◀─│ udpsock     │ ◀───────── wire
//	         write └──────────┘         └────────┘  └───────────┘  └─────────────┘  AF_XDP RX
//	                                one Worker: one goroutine on one OS thread
//
// # Words
//
// Each has this one meaning in the whole project:
//
//   - node: a host that takes part in the overlay.
//   - network: the overlay's address range; subnet: one node's share of it.
//   - lease: a node's claim on its subnet, with what it tells about itself.
//   - inner: the packet that pods see, and its headers; outer: the headers that
//     carry it between nodes.
//   - underlay: the network between the nodes; overlay: the one made on top.
//   - egress: from overlay to underlay; ingress: the way back.
//   - hop: the node that an inner destination leads to; route: an inner prefix
//     and its hop; path: the compiled headers that reach a hop.
//   - peer: the far end of a path, by its underlay address.
//
// # Underlays
//
// A worker has one or two. The fast one is an AF_XDP socket. The fallback is a
// UDP socket on the tunnel port, which is always there: it owns the port, takes
// what the kernel had to reassemble or what came in on a queue that no AF_XDP
// socket serves, and sends while a next hop's MAC is unknown. Both ways in pass
// through the same checks.
//
// # Ownership and accounting
//
// A frame is in the pool, in one of the worker's batches, or with the kernel;
// see package packet. Every packet that a port hands in is delivered to the far
// port, dropped with a named reason, or held by a UDP socket that had no room:
// received = delivered + drops + held, exactly, whenever the worker is between
// turns. When the underlay has no room the
// worker stops reading the TUN, and the kernel's own queue fills: what is lost
// there is the kernel's to count.
//
// # Concurrency
//
// Workers share nothing but the fib snapshot. A Worker's counters may be read
// from anywhere through [Worker.Stats].
package dataplane
