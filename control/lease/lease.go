package lease

import (
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

// Overlaps says whether any address is in both.
func (s Subnets) Overlaps(o Subnets) bool {
	return s.V4.Overlaps(o.V4) || s.V6.Overlaps(o.V6)
}

// String is for people: "10.5.1.0/24", or both families with a comma.
func (s Subnets) String() string {
	switch {
	case s.V4.IsValid() && s.V6.IsValid():
		return s.V4.String() + "," + s.V6.String()
	case s.V6.IsValid():
		return s.V6.String()
	case s.V4.IsValid():
		return s.V4.String()
	}
	return "none"
}

// Lease is one node's claim on its Subnets.
type Lease struct {
	Subnets Subnets
	Attrs   Attrs

	// Expires is when the store forgets the lease unless it is renewed. Zero:
	// not known (other nodes' leases), or never. Of our own lease it carries
	// the monotonic clock, so that setting the wall clock does not move it.
	Expires time.Time

	Reserved bool  // the key has no etcd lease: an operator's reservation
	ID       int64 // the store's handle for our own lease; 0 for reservations and other nodes
	Revision int64 // the store's revision of the last change, for compare-and-swap
}

// Equal says whether both tell the same about a node: subnets, attributes and
// reservation. Revision, ID and Expires are the store's bookkeeping.
func (l Lease) Equal(o Lease) bool {
	return l.Subnets == o.Subnets && l.Reserved == o.Reserved && l.Attrs.Equal(o.Attrs)
}

// Update is a change of the cluster's leases.
type Update struct {
	// Lost says that the store is away or no longer to be trusted. Such an
	// Update carries nothing else: the last leases stay in force, and the next
	// Update is a snapshot.
	Lost bool
	// Snapshot says that Leases is everything there is: what is not in it is gone.
	Snapshot bool
	Leases   []Lease   // new or changed
	Removed  []Subnets // gone, to be taken out before Leases is put in; empty in a snapshot
}
