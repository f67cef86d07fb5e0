// Package udp is flannel's udp backend: the UDP payload is the bare inner IPv4
// packet, nothing before it and nothing after.
//
//	Ethernet 14 | IPv4 20 | UDP 8 | inner IPv4 …     Ethernet layer
//	                                inner IPv4 …     Datagram layer
//
// # On the wire
//
// As flannel's proxy sends: source and destination port are the port of the
// network's configuration, TTL 64, TOS 0, DF set, and therefore ID 0 (RFC 6864
// section 4.1), UDP checksum present. Received is whatever comes to the port,
// from any source port, with a right checksum or none.
//
// Only IPv4 is carried, inside and outside.
//
// # TTL
//
// flannel's proxy is a router hop of its own at either end: it takes one from
// the inner TTL when it wraps and one when it unwraps, so a ping across arrives
// with 62 of 64. So does this codec, or a mixed cluster would see two lengths
// of one way. A packet that would leave with TTL 0 is dropped with
// [packet.TTLExceeded]. Who wants to answer it with an ICMP Time Exceeded must
// do so before Push.
//
// # What it does not do
//
// Whether the rest of an inner packet is sound is for header.CheckInner, and
// whether its addresses belong to the sender for the worker.
//
// A Codec is safe for use by several workers at once.
package udp
