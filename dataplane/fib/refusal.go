package fib

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"flanx/control/lease"
	"flanx/encap"
)

// Refusal says why one family of a lease is not used.
type Refusal uint8

// The refusals. All but OtherBackend and NotCarried are warned of, once for
// each revision of the lease.
const (
	// Accepted: it is used.
	Accepted Refusal = iota
	// OtherBackend: the node runs another backend, which ours cannot talk to.
	OtherBackend
	// NotCarried: we do not carry this family, or our backend does not.
	NotCarried
	// BadSubnet: the subnet has host bits set or is not inside the network.
	BadSubnet
	// OwnSubnet: the subnet is ours, or a part of it.
	OwnSubnet
	// BadPeer: the public IP is missing or cannot be a node's: unspecified,
	// loopback, multicast, broadcast, link-local IPv6, inside the overlay, or
	// such that the codec refuses it.
	BadPeer
	// OwnPeer: the public IP is our own.
	OwnPeer
	// BadVTEP: the backend data has no usable MAC for the node.
	BadVTEP
	// Crowded: too many leases claim the very same prefix.
	Crowded

	// NumRefusals is the number of refusals.
	NumRefusals
)

var refusalNames = [NumRefusals]string{
	Accepted: "accepted", OtherBackend: "other_backend", NotCarried: "not_carried",
	BadSubnet: "bad_subnet", OwnSubnet: "own_subnet", BadPeer: "bad_peer",
	OwnPeer: "own_peer", BadVTEP: "bad_vtep", Crowded: "crowded",
}

// String returns the refusal's name as it stands in metrics.
func (r Refusal) String() string {
	if r < NumRefusals {
		return refusalNames[r]
	}
	return "unknown"
}

// quiet says whether the refusal is a matter of course in some clusters.
func (r Refusal) quiet() bool { return r == OtherBackend || r == NotCarried }

// refusal is the error of a lease that is not used.
type refusal struct {
	why    Refusal
	detail string
}

func (r *refusal) Error() string { return r.why.String() + ": " + r.detail }

func refuse(why Refusal, format string, args ...any) *refusal {
	return &refusal{why, fmt.Sprintf(format, args...)}
}

// endpoint is where a lease says that its packets go.
type endpoint struct {
	peer netip.Addr
	vtep encap.MAC
}

// admit judges one family of a lease that has a subnet of it. Everything in
// the lease may have been written by anybody.
func (c *Config) admit(l *lease.Lease, f *family) (endpoint, *refusal) {
	if !c.speaks(l.Attrs.BackendType) {
		return endpoint{}, refuse(OtherBackend, "the node's backend is %.40q, ours is %q", l.Attrs.BackendType, c.BackendType)
	}
	if !f.network.IsValid() || !f.local.IsValid() {
		return endpoint{}, refuse(NotCarried, "no network or no underlay address of this family here")
	}
	if r := f.judgeSubnet(f.subnet(l.Subnets)); r != nil {
		return endpoint{}, r
	}
	peer, data := f.peer(&l.Attrs)
	if r := f.judgePeer(peer); r != nil {
		return endpoint{}, r
	}
	to := endpoint{peer: peer}
	if c.VTEP != nil {
		vtep, err := c.VTEP(data)
		if err != nil {
			return endpoint{}, refuse(BadVTEP, "%v", err)
		}
		if vtep.IsZero() || vtep[0]&1 != 0 {
			return endpoint{}, refuse(BadVTEP, "the MAC %x is zero or a group address", vtep)
		}
		to.vtep = vtep
	}
	return to, c.judgePath(to, f)
}

// judgePath refuses what no codec can reach.
func (c *Config) judgePath(to endpoint, f *family) *refusal {
	var last error
	for _, codec := range [...]encap.Codec{c.Fallback, c.Fast} {
		if codec == nil {
			continue
		}
		if _, last = codec.Compile(c.peer(to, f)); last == nil {
			return nil
		}
	}
	switch {
	case last == nil: // no codec at all: only the lookup is wanted
		return nil
	case errors.Is(last, encap.ErrFamily):
		return refuse(NotCarried, "%v", last)
	}
	return refuse(BadPeer, "%v", last)
}

// speaks says whether our backend can talk to nodes of that type.
func (c *Config) speaks(backend string) bool {
	return c.BackendType == "" || c.BackendType == "udp" || strings.EqualFold(backend, c.BackendType)
}

func (f *family) judgeSubnet(p netip.Prefix) *refusal {
	if p.Addr().Is6() != f.v6 || p.Addr().Is4In6() || p != p.Masked() {
		return refuse(BadSubnet, "%v is no subnet of its family", p)
	}
	if p.Bits() < f.network.Bits() || !f.network.Contains(p.Addr()) {
		return refuse(BadSubnet, "%v is not inside the network %v", p, f.network)
	}
	if f.own.IsValid() && p.Bits() >= f.own.Bits() && f.own.Contains(p.Addr()) {
		return refuse(OwnSubnet, "%v is inside our own %v; another node claims our addresses", p, f.own)
	}
	return nil
}

// broadcast4 is the limited broadcast address, RFC 919 section 7.
var broadcast4 = netip.AddrFrom4([4]byte{255, 255, 255, 255})

func (f *family) judgePeer(a netip.Addr) *refusal {
	switch {
	case !a.IsValid():
		return refuse(BadPeer, "the public IP is missing")
	case a.Is6() != f.v6 || a.Is4In6() || a.Zone() != "":
		return refuse(BadPeer, "the public IP %v is not of the subnet's family", a)
	case a.IsUnspecified(), a.IsLoopback(), a.IsMulticast(), a == broadcast4,
		!f.v6 && a.As4()[0] == 0, // "this network", RFC 1122 section 3.2.1.3
		f.v6 && a.IsLinkLocalUnicast():
		return refuse(BadPeer, "the public IP %v is no node's address", a)
	case f.network.Contains(a):
		return refuse(BadPeer, "the public IP %v is inside the overlay network %v, which would loop", a, f.network)
	case a == f.local, a == f.public:
		return refuse(OwnPeer, "the public IP %v is our own; is a second node configured with our address?", a)
	}
	return nil
}
