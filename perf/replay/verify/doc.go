// Package verify compares what was sent with what arrived, by content.
//
// A [Journal] keeps a fingerprint and a time of each packet, 32 bytes in all; it
// is filled by one goroutine, and [Compare] matches two of them afterwards. A
// packet's fingerprint leaves out what a router on the way changes: TTL or hop
// limit, the ECN bits, and the IPv4 header checksum that covers them. Of a frame without IP it
// leaves out the Ethernet header, tags and trailing zeros.
//
// What arrived and was never sent is foreign, and no fault: other traffic is on
// every wire.
package verify
