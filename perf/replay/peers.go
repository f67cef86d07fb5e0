package replay

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"flanx/encap"
	"flanx/encap/header"
)

// ErrPeer says that a peer cannot be used.
var ErrPeer = errors.New("invalid peer")

// Peer is a node that packets for a subnet are wrapped for.
type Peer struct {
	Subnet netip.Prefix
	encap.Peer
}

// Peers leads inner destinations to compiled paths, the longest prefix first.
type Peers struct {
	codec   encap.Codec
	peers   []Peer
	paths   []encap.Path
	lengths []int // those that occur, longest first, IPv6 ones shifted by 128
	hops    map[netip.Prefix]uint32

	last netip.Addr // the destination looked up last, and where it leads
	hop  uint32
	ok   bool
}

// NewPeers compiles the path to each peer. A path is not Ready while the peer's
// next hop is not known: see Resolve.
func NewPeers(codec encap.Codec, peers []Peer) (*Peers, error) {
	p := &Peers{codec: codec, peers: peers, hops: make(map[netip.Prefix]uint32, len(peers))}
	for i, peer := range peers {
		subnet := peer.Subnet.Masked()
		if _, twice := p.hops[subnet]; twice || !subnet.IsValid() {
			return nil, fmt.Errorf("%w: subnet %s is not valid or given twice", ErrPeer, peer.Subnet)
		}
		path, err := codec.Compile(peer.Peer)
		if err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrPeer, peer.Subnet, err)
		}
		p.paths = append(p.paths, path)
		p.hops[subnet] = uint32(i)
		if n := key(subnet.Addr(), subnet.Bits()); !slices.Contains(p.lengths, n) {
			p.lengths = append(p.lengths, n)
		}
	}
	slices.SortFunc(p.lengths, func(a, b int) int { return b - a })
	return p, nil
}

// key tells prefix lengths of the two families apart.
func key(a netip.Addr, bits int) int {
	if a.Is6() {
		return bits + 1000
	}
	return bits
}

// Resolve compiles the paths to a remote anew, for its next hop is known now.
func (p *Peers) Resolve(remote netip.Addr, local, nextHop encap.MAC) error {
	for i := range p.peers {
		if p.peers[i].Remote != remote {
			continue
		}
		p.peers[i].LocalMAC, p.peers[i].NextHopMAC = local, nextHop
		path, err := p.codec.Compile(p.peers[i].Peer)
		if err != nil {
			return fmt.Errorf("%w: %s: %w", ErrPeer, p.peers[i].Subnet, err)
		}
		p.paths[i] = path
	}
	return nil
}

// Remotes returns the peers' underlay addresses, each once.
func (p *Peers) Remotes() []netip.Addr {
	var all []netip.Addr
	for _, peer := range p.peers {
		if !slices.Contains(all, peer.Remote) {
			all = append(all, peer.Remote)
		}
	}
	return all
}

// lookup returns the hop for an inner packet that holds its fixed header.
// Packets come in runs to one destination, so the last answer is kept.
func (p *Peers) lookup(ip []byte) (uint32, bool) {
	var dst netip.Addr
	if header.IPVersion(ip) == 4 {
		dst = netip.AddrFrom4(header.IPv4(ip).Dst())
	} else {
		dst = netip.AddrFrom16(header.IPv6(ip).Dst())
	}
	if dst != p.last {
		p.last = dst
		p.hop, p.ok = p.search(dst)
	}
	return p.hop, p.ok
}

func (p *Peers) search(dst netip.Addr) (uint32, bool) {
	for _, n := range p.lengths {
		if n >= 1000 != dst.Is6() {
			continue
		}
		prefix, err := dst.Prefix(n % 1000)
		if err != nil {
			continue
		}
		if hop, ok := p.hops[prefix]; ok {
			return hop, true
		}
	}
	return 0, false
}
