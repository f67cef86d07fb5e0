// Package packetsock is a network interface as a port by a packet socket
// (packet(7)): for interfaces on which AF_XDP is not wanted or cannot be had,
// such as a TUN, and for watching what arrives.
//
// One sendmmsg(2) or recvmmsg(2) moves up to 64 packets. What the interface has
// no room for is held, at most one batch of it, until Flush gets it out; Room is
// 0 meanwhile. On an interface without link headers, such as a TUN, packets are
// bare IP.
//
// The port owns the frames that it holds until Flush or Close gives them back.
// It belongs to one goroutine. A VLAN tag of a received frame is not seen: the
// kernel takes it off.
package packetsock
