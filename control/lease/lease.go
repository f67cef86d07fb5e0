package lease

import (
	"encoding/json"
	"net/netip"
	"time"
)

// Subnets is a node's share of the overlay: an IPv4 prefix, an IPv6 prefix, or
// both. An absent family is the zero Prefix. It is comparable, and identifies
// the lease.
type Subnets struct {
	V4, V6 netip.Prefix
}

// IsZero says whether there is no subnet at all.
func (s Subnets) IsZero() bool { return s == Subnets{} }

// Attrs is what a node tells about itself: the JSON value of a lease.
type Attrs struct {
	PublicIP      netip.Addr      // the node's IPv4 address on the underlay
	PublicIPv6    netip.Addr      // zero when unused
	BackendType   string          // empty for alloc and udp
	BackendData   json.RawMessage // for vxlan: VXLANData
	BackendV6Data json.RawMessage
}

// Lease is one node's claim on its Subnets.
type Lease struct {
	Subnets  Subnets
	Attrs    Attrs
	Expires  time.Time // zero: not known, or never
	Reserved bool      // the key has no etcd lease: an operator's reservation
	Revision int64     // the store's revision of the last change, for compare-and-swap
}

// Update is a change of the cluster's leases.
type Update struct {
	// Snapshot says that Leases is everything there is: what is not in it is gone.
	Snapshot bool
	Leases   []Lease   // new or changed
	Removed  []Subnets // gone; empty in a snapshot
}
