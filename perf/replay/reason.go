package replay

import (
	"flanx/dataplane/packet"
)

// Reason says why a record of the capture was not sent. What the codec or the
// port refuses has a packet.Reason instead.
type Reason uint8

// The reasons.
const (
	// Empty: nothing was captured of it.
	Empty Reason = iota
	// Oversized: longer than any capture program captures.
	Oversized
	// Malformed: the record contradicts the block it is in.
	Malformed
	// CutRecord: less was captured than was on the wire, and Config.Cut says
	// to leave those out.
	CutRecord
	// UnknownLink: the link type is not one that an IP packet is found in.
	UnknownLink
	// NotIP: another protocol, such as ARP.
	NotIP
	// BadLength: the IP header claims more than there is, or less than itself.
	BadLength
	// TooLong: exceeds the MTU of the way, or the frames of the port.
	TooLong
	// FilteredOut: the filter left it out.
	FilteredOut
	// NoPeer: no peer's subnet covers its destination.
	NoPeer

	numReasons
)

var reasonNames = [numReasons]string{
	"empty", "oversized", "malformed", "cut_record", "unknown_link_type",
	"not_ip", "bad_length", "too_long", "filtered_out", "no_peer",
}

// String returns the reason's name as it stands in summaries.
func (r Reason) String() string {
	if r < numReasons {
		return reasonNames[r]
	}
	return "unknown"
}

// skipped counts by name what was not sent, of either kind of reason.
func skipped(ours *[numReasons]uint64, theirs *[packet.NumReasons]uint64) map[string]uint64 {
	all := map[string]uint64{}
	for r, n := range ours {
		if n > 0 {
			all[Reason(r).String()] += n
		}
	}
	for r, n := range theirs {
		if n > 0 {
			all[packet.Reason(r).String()] += n
		}
	}
	return all
}
