// Command zerocopy proves that flanxd carries packets by AF_XDP in true zero
// copy. It is the first and only program of a guest that run.sh boots under
// QEMU, whose two virtio network cards grant XDP_ZEROCOPY and are joined by a
// hub: software emulation, no special hardware, no network for the guest.
//
// In the guest it makes two hosts of the two cards, runs a flanxd in each with a
// static cluster, and moves pings, packets of MTU size and hashed TCP both ways,
// for both encapsulations. It holds that the way granted is zero copy (which
// flanxd reads back from XDP_OPTIONS), that the XDP program runs in native mode,
// and that the kernel counted no loss on the sockets.
//
// Booted with flanx.expect=refusal, on cards that do not grant zero copy, it
// holds that the demand is refused with the reason and that auto says why it
// copies. So the proof is known to be able to fail.
//
// The last line is its verdict: "N passed, N failed".
package main
