// Package vxlan is flannel's vxlan backend as the kernel's own VXLAN device
// speaks it (RFC 7348): an inner Ethernet frame in a datagram.
//
//	Ethernet 14 | IPv4 20 | UDP 8 | VXLAN 8 | Ethernet 14 | inner …    Ethernet layer, 64
//	Ethernet 14 | IPv6 40 | UDP 8 | VXLAN 8 | Ethernet 14 | inner …    Ethernet layer, 84
//	                                VXLAN 8 | Ethernet 14 | inner …    Datagram layer, 22
//
// A node has one tunnel endpoint (VTEP) per outer address family, each with its
// own Ethernet address: flannel.1 and flannel-v6.1. One Codec is both. Which of
// them a packet leaves by is said by its path; flannel sends inner IPv4 over
// IPv4 and inner IPv6 over IPv6, and the codec carries either over either.
//
// # What it sends
//
// As the kernel with flannel's settings: TTL 64, TOS 0, DF clear; the source
// port from the flow's hash within the local port range, so that the underlay
// spreads flows over its paths; no flag but I.
//
// The UDP checksum is present over IPv4 too, by default. RFC 7348 would rather
// have it zero and the receiver must take either, but a kernel that receives
// with checksum offload gets the inner checksum's verdict from the outer one,
// and without an outer one sums every packet before it can merge them: 2
// instead of 7 Gbit/s in one report (cilium issue 15485). Making the sum costs us some 40 ns for
// 1,400 bytes. [Config.NoChecksum] turns it off for underlays whose receivers
// gain nothing.
//
// DF is clear, so the ID must tell apart the packets that the underlay could
// hold fragments of at once (RFC 6864). The codec has no state to count in, so
// the ID is a hash of the flow and of the inner bytes that change between
// packets (length, ID, ports, sequence number, the last eight): as good as
// random, which is what the kernel's own choice comes to. An underlay that
// respects the MTU never fragments and never looks.
//
// # What it accepts
//
// What the kernel accepts (vxlan_rcv in drivers/net/vxlan/vxlan_core.c): any
// source port; checksum zero over IPv4 but not over IPv6; the I flag must be
// set and every reserved bit clear, stricter than RFC 7348; the VNI ours; the
// inner destination our VTEP or broadcast; the inner source neither our VTEP,
// which is a loop, nor a group. An inner source of zeros passes. The group
// policy bits are accepted, and ignored, only with [Config.GBP].
//
// The order of the verdicts is the kernel's too: I flag, VNI, reserved bits,
// inner addresses, EtherType, and last the ECN combination (RFC 6040), which
// can only be judged in the Ethernet layer: a UDP socket does not tell.
//
// # What it does not do
//
// No learning, no ARP or neighbour discovery, no multicast, no inner VLAN:
// flannel's peers are all known beforehand, so no such frame has a reason to
// come, and each is dropped. The inner TTL is not touched.
//
// A Codec is safe for use by several workers at once.
package vxlan
