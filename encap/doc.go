// Package encap says how an inner packet is wrapped for the underlay and
// unwrapped again: the [Codec] contract, and the [Path] that a codec compiles
// once per [Peer] so that wrapping a packet is a copy and a few patches.
//
// The codecs are in the folders below: udp is flannel's udp backend (the bare
// inner packet in a datagram), vxlan is RFC 7348 as flannel and the kernel
// speak it. encaptest is the suite that each of them passes.
//
// A codec is safe for use by several workers at once: it is not changed after
// it was made. It does no I/O, knows no routes, and judges only what it alone
// can see: that the outer headers are sound and its own. Whether the sender is
// a member, and the inner packet acceptable, is for the worker.
package encap
