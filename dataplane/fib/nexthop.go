package fib

import (
	"net/netip"

	"flanx/encap"
)

// NextHop is how frames leave for one underlay address.
type NextHop struct {
	// Known says that a frame from LocalMAC to MAC, sent on our underlay
	// interface, gets there. When it is false the MACs mean nothing.
	Known bool
	// LocalMAC is our interface's address, MAC the next hop's.
	LocalMAC, MAC encap.MAC
	// Local is the source address that the kernel would choose, for display.
	Local netip.Addr
	// IfIndex is the interface that the route leads out of, also when it is not
	// ours (then Known is false); 0 when there is no route.
	IfIndex int
	// MTU is the largest IP packet for this way in bytes; 0 when not known.
	MTU int
}

// NextHops knows how frames leave for each of the underlay addresses that it
// has been asked to follow. Its methods are called with the Table's lock held:
// they answer from memory and never call back.
type NextHops interface {
	// Track begins to follow remote. Until it has been resolved its NextHop is
	// not Known. Tracking twice is like tracking once.
	Track(remote netip.Addr)
	// Untrack ends that.
	Untrack(remote netip.Addr)
	// NextHop returns what is known of remote now.
	NextHop(remote netip.Addr) NextHop
	// Watch names the function to tell which remotes have another NextHop than
	// before. It is called once, before anything is tracked. The function is
	// called without locks of the NextHops held, from one goroutine at a time,
	// and may keep the slice.
	Watch(changed func(remotes []netip.Addr))
}
