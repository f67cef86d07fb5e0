// Package header reads and writes the headers that a tunnel deals with:
// Ethernet, IPv4, IPv6, UDP, TCP and VXLAN.
//
// A header is a named byte slice, a view on the packet itself, with getters
// and setters; nothing is parsed into objects and nothing allocates. Where a
// header is built from nothing, a Fields struct names its parts and Encode
// writes them.
//
// The methods of a view index it without looking at its length first: the
// caller has checked that it holds at least the header's Len. What takes bytes
// as they came from outside is safe on any of them, empty ones included, and
// says so: [CheckInner], [RepairInnerChecksum], [FlowHash] and [Outer.Parse].
//
// # Ownership and concurrency
//
// Views alias the caller's bytes; nothing is kept. All functions are free of
// state and safe to call at once on different bytes.
//
// # What it does not do
//
// It walks no IPv6 extension headers, reassembles no fragments, and does not
// judge addresses. All multi-byte values are in host order in Go and in
// network order on the wire; the code is the same on either endianness.
package header
