package fib

import (
	"encoding/json"
	"log/slog"
	"net/netip"

	"flanx/control/lease"
	"flanx/encap"
)

// Config says what a Table is for. It is read once, by New.
type Config struct {
	// Fast compiles paths for the AF_XDP port, Fallback those for the UDP
	// socket. Either may be nil: the Snapshot then has no such paths.
	Fast, Fallback encap.Codec
	// Local4 and Local6 are our addresses on the underlay, the outer sources.
	// Without one, inner packets of that family are not carried.
	Local4, Local6 netip.Addr
	// Public4 and Public6 are the addresses that our own lease names, where
	// they differ from Local4 and Local6 (a node behind NAT).
	Public4, Public6 netip.Addr
	// Port is the peers' tunnel port.
	Port uint16
	// Own is our own lease. It is never a hop.
	Own lease.Subnets
	// Network and IPv6Network are the overlay's: leases outside are refused. A
	// family without one is not carried.
	Network, IPv6Network netip.Prefix
	// BackendType is ours, in lower case. "udp" and "" take leases of any type,
	// as flannel's udp backend does; every other takes only its own.
	BackendType string
	// VTEP reads a node's inner MAC from a lease's BackendData (for IPv4) or
	// BackendV6Data; nil for a backend that has none. The data is hostile.
	VTEP func(data json.RawMessage) (encap.MAC, error)
	// NextHops finds the MACs for Fast. Without it no hop is ever Ready.
	NextHops NextHops
	// Log takes warnings about leases that are not used; nil discards them.
	Log *slog.Logger
}

// family is what differs between inner IPv4 and inner IPv6.
type family struct {
	v6            bool
	network       netip.Prefix
	own           netip.Prefix
	local, public netip.Addr
}

func (c *Config) family(v6 bool) family {
	if v6 {
		return family{true, c.IPv6Network, c.Own.V6, c.Local6, c.Public6}
	}
	return family{false, c.Network, c.Own.V4, c.Local4, c.Public4}
}

// subnet returns the family's part of a lease's subnets.
func (f *family) subnet(s lease.Subnets) netip.Prefix {
	if f.v6 {
		return s.V6
	}
	return s.V4
}

// peer returns the family's underlay address and backend data of a lease.
func (f *family) peer(a *lease.Attrs) (netip.Addr, json.RawMessage) {
	if f.v6 {
		return a.PublicIPv6, a.BackendV6Data
	}
	return a.PublicIP, a.BackendData
}

// peer is what a codec needs to reach an endpoint while its next hop is not
// known.
func (c *Config) peer(to endpoint, f *family) encap.Peer {
	return encap.Peer{Local: f.local, Remote: to.peer, Port: c.Port, VTEP: to.vtep}
}
