package fib

import (
	"encoding/binary"
	"iter"
	"net/netip"

	"github.com/gaissmai/bart"

	"flanx/control/lease"
	"flanx/encap"
)

// noHop is what a prefix leads to that must not leave this node: our own.
const noHop = ^uint32(0)

// Hop is one node as one family of inner packets reaches it. It is a value
// without pointers. Which subnet it stands for, Snapshot.All says.
type Hop struct {
	// Peer is the node's underlay address as netip.Addr.As16 gives it, in the
	// form of packet.Buf.Peer.
	Peer [16]byte
	// MTU is the largest outer IP packet that the way to the node takes, in
	// bytes; 0 when not known.
	MTU uint32
	// Ready says that the Fast path may be used: the MAC of the next hop is
	// known. While it is not, the Fallback is to be used, which lets the kernel
	// resolve it.
	Ready bool
}

// Snapshot is the table at one moment. It never changes.
type Snapshot struct {
	// Hops is indexed by what Lookup4 and Lookup6 return. Entries that no
	// prefix leads to may lie between the others; use All to list hops.
	Hops []Hop
	// Fast and Fallback are the compiled paths, by the same index. Each is nil
	// when there is no underlay port of that kind. A Fast path is complete only
	// where the hop is Ready, and otherwise the zero Path; a Fallback that the
	// codec refused has Ready false.
	Fast, Fallback []encap.Path
	// Own is our own lease.
	Own lease.Subnets
	// Version counts the snapshots of one Table, from 1.
	Version uint64

	lpm   *bart.Fast[uint32]
	peers *bart.Lite
	own4  struct {
		addr, mask uint32
		set        bool
	}
	own6 struct {
		hi, lo, maskHi, maskLo uint64
		set                    bool
	}
}

// Lookup4 returns the hop for an inner IPv4 destination, given as its
// big-endian value: 10.0.0.1 is 0x0A000001. It says no when no lease covers the
// address, or it is inside our own subnet.
func (s *Snapshot) Lookup4(dst uint32) (hop uint32, ok bool) {
	hop, ok = s.lpm.Lookup(netip.AddrFrom4([4]byte{
		byte(dst >> 24), byte(dst >> 16), byte(dst >> 8), byte(dst),
	}))
	return hop, ok && hop != noHop
}

// Lookup6 returns the hop for an inner IPv6 destination. It says no when no
// lease covers the address, or it is inside our own subnet.
func (s *Snapshot) Lookup6(dst [16]byte) (hop uint32, ok bool) {
	hop, ok = s.lpm.Lookup(netip.AddrFrom16(dst))
	return hop, ok && hop != noHop
}

// Own4 says whether an IPv4 address, given as its big-endian value, is inside
// our own subnet.
func (s *Snapshot) Own4(addr uint32) bool {
	return s.own4.set && addr&s.own4.mask == s.own4.addr
}

// Own6 says whether an IPv6 address is inside our own subnet.
func (s *Snapshot) Own6(addr [16]byte) bool {
	hi, lo := binary.BigEndian.Uint64(addr[:8]), binary.BigEndian.Uint64(addr[8:])
	return s.own6.set && hi&s.own6.maskHi == s.own6.hi && lo&s.own6.maskLo == s.own6.lo
}

// All iterates over the prefixes that lead to a hop, in no particular order.
func (s *Snapshot) All() iter.Seq2[netip.Prefix, uint32] {
	return func(yield func(netip.Prefix, uint32) bool) {
		for p, hop := range s.lpm.All() {
			if hop != noHop && !yield(p, hop) {
				return
			}
		}
	}
}

// setOwn prepares Own4 and Own6.
func (s *Snapshot) setOwn(own lease.Subnets) {
	s.Own = own
	if p := own.V4; p.IsValid() {
		a := p.Masked().Addr().As4()
		s.own4.mask = ^uint32(0) << (32 - p.Bits()) // a shift by 32 gives 0, as it must
		s.own4.addr = binary.BigEndian.Uint32(a[:])
		s.own4.set = true
	}
	if p := own.V6; p.IsValid() {
		a := p.Masked().Addr().As16()
		s.own6.maskHi = ^uint64(0) << max(0, 64-p.Bits())
		s.own6.maskLo = ^uint64(0) << min(64, 128-p.Bits())
		s.own6.hi = binary.BigEndian.Uint64(a[:8])
		s.own6.lo = binary.BigEndian.Uint64(a[8:])
		s.own6.set = true
	}
}
