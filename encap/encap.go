package encap

import (
	"errors"
	"net/netip"

	"flanx/dataplane/packet"
)

// MaxOverhead is the longest stack of outer headers in bytes: Ethernet 14,
// IPv6 40, UDP 8, VXLAN 8, inner Ethernet 14.
const MaxOverhead = 84

// ErrFamily says that a codec cannot reach a peer of that address family.
var ErrFamily = errors.New("address family not carried by this backend")

// Layer is the outermost header that a codec writes and expects.
type Layer uint8

const (
	// Ethernet: the port sends and receives whole frames (AF_XDP, captures).
	Ethernet Layer = iota
	// Datagram: the port is a UDP socket, and the kernel writes Ethernet, IP and UDP.
	Datagram
)

// MAC is an Ethernet address.
type MAC [6]byte

// IsZero says whether the address is all zeros: not known.
func (m MAC) IsZero() bool { return m == MAC{} }

// Peer is what a codec needs to know about another node to reach it.
type Peer struct {
	Local  netip.Addr // our underlay address, the outer source
	Remote netip.Addr // the peer's underlay address, the outer destination
	Port   uint16     // the peer's tunnel port

	// LocalMAC and NextHopMAC are the outer Ethernet addresses; NextHopMAC is
	// zero while the next hop is unresolved. Unused in the Datagram layer.
	LocalMAC, NextHopMAC MAC
	// VTEP is the peer's inner Ethernet address (VXLAN only).
	VTEP MAC
}

// Path is a compiled way to one peer: what Push copies before a packet. It is a
// value without pointers, so a table of them is one piece of memory.
type Path struct {
	Header   [MaxOverhead]byte // the first Len bytes are the outer headers
	Len      uint8
	Ready    bool     // false: the next hop's MAC is not known, the frame cannot be sent
	PeerPort uint16   // for a socket port, host order
	Peer     [16]byte // for a socket port, netip.Addr.As16
}

// Codec wraps and unwraps whole batches.
type Codec interface {
	// Overhead returns how many bytes Push adds in front of an inner packet,
	// and therefore how much smaller the inner MTU is than the outer frame's.
	Overhead() int

	// Compile prepares the way to a peer. It runs when a route or neighbour
	// changes, never per packet. An unresolved next hop is no error: the Path
	// is then not Ready.
	Compile(Peer) (Path, error)

	// Push wraps every packet of b, each by paths[b.At(i).Hop], whose Ready is
	// true. It uses b.At(i).Hash for the source port, so the flow hash must
	// have been set. Afterwards At(i).Peer and PeerPort are the path's.
	// A packet that must not be sent is dropped with its reason.
	Push(b *packet.Batch, paths []Path)

	// Pop unwraps every packet of b down to the inner IP header and sets
	// At(i).Peer to the outer source (in the Datagram layer the port has set
	// it). What is not soundly ours is dropped with its reason. The bytes are
	// hostile: nothing read from them is trusted or used as a size unchecked.
	Pop(b *packet.Batch)
}
