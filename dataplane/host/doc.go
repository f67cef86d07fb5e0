// Package host is the privileged part of the data plane: it opens the TUN
// device, attaches the XDP program and binds AF_XDP sockets, follows next hops,
// and finds out what a network device can do.
//
// # The ladder
//
// [Climb] gets the tunnel's packets off the wire in the best way that works:
//
//	zero-copy     native XDP, the device uses our frames      ZeroCopy
//	native copy   native XDP, the kernel copies each packet   Native
//	generic       XDP in the stack, the kernel copies         Generic
//	UDP socket    no AF_XDP                                   UDP
//
// It says what it got and, for each better rung, why not ([Grant]). A rung that
// is demanded by name is had or refused with the reason. [OpenXSK] opens one
// rung: one program on the interface, and a socket with a packet pool of its own
// for each queue.
//
// # Generic XDP and super-packets
//
// A sender's kernel hands a device packets of up to 64 KiB when the device
// promises to segment them. Between two ends of a veth nobody ever does, so they
// arrive as they are. Native XDP on veth makes the kernel turn the peer's
// segmentation off; generic XDP does not: the program sees the super-packet, and
// a redirect to an AF_XDP socket loses it, counted only as rx_dropped there.
//
// The peer's settings cannot be read when it is in another network namespace:
// netlink tells its index and its namespace's number, but not its offloads, and
// ethtool sees only devices of its own namespace. So generic XDP is refused on
// every device that is made of software (veth, bridge, macvlan, vlan, bond, tun
// and so on, and loopback), unless
//
//   - its own offloads are off (see Device.offloadsOn): whoever makes a veth carry
//     nothing but whole frames does so at both ends, as "ethtool -K … tso off gso
//     off tx off tx-udp-segmentation off" on either and this project's lab do; or
//   - the caller promises it ([XSKConfig].WireSized).
//
// On hardware, and on devices that a hypervisor gives, the kernel itself turns
// receive coalescing off when a generic program is attached; where the device
// cannot (rx-gro-hw fixed on), the rung is refused too. And should the evidence
// deceive: a frame that does not fit is not redirected (xdpprog.Config.MaxFrame),
// so that the kernel gives it to the tunnel's UDP socket, which takes it apart.
//
// The same evidence stands for checksums: a veth's sender leaves them unfinished
// while its offload is on, and AF_XDP receives them so, in every mode.
// [XSK.Warnings] says it.
//
// # Concurrency
//
// Functions that open something do so in the network namespace of the calling
// thread. An [XSK] belongs to whoever opened it; its ports each to one worker.
//
// This package knows no codecs and forwards no packets.
package host
