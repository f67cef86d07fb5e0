// Package change edits IP packets before they are sent again, and decides which
// are sent.
//
// A [Rules] maps addresses and ports, sets TTLs, repairs checksums, and makes
// the addresses of each loop its own. Checksums are patched for what changed
// (RFC 1624), so that a wrong one stays wrong unless Repair is asked for.
//
// An [Expr] is a filter in a small part of tcpdump's language:
//
//	udp port 53 and not src net 10.0.0.0/8
//
// Both keep no state between packets, allocate nothing per packet, and are safe
// on any bytes. An Expr belongs to one goroutine.
package change
