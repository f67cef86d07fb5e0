package udp

import (
	"errors"
	"fmt"

	"flanx/encap"
	"flanx/encap/header"
)

// DefaultPort is flannel's port for this backend.
const DefaultPort = 8285

// IPOverhead is how many bytes the backend adds to an inner packet as the
// underlay's MTU counts them: IPv4 20, UDP 8.
const IPOverhead = header.IPv4Len + header.UDPLen

// frameOverhead is the same with the Ethernet header.
const frameOverhead = header.EthernetLen + IPOverhead

// outerTTL is what flannel's proxy sends with: the kernel's default.
const outerTTL = 64

// maxIPv4 is the most that an IPv4 total length can say.
const maxIPv4 = 1<<16 - 1

// ErrConfig says that a Config contradicts itself.
var ErrConfig = errors.New("invalid udp backend configuration")

// Config says how a Codec works. The zero value is flannel's default on
// whole frames.
type Config struct {
	Layer encap.Layer
	// Port is our UDP port, and the peers' unless they say otherwise; 0 means
	// DefaultPort.
	Port uint16
	// MTU bounds the outer IP packet in bytes: Push drops what would be longer
	// as TooBig. 0 leaves only IPv4's own limit.
	MTU int
	// NoVerify accepts received frames without verifying the outer UDP
	// checksum. In the Datagram layer the kernel has done it.
	NoVerify bool
}

// Codec is the udp backend's encap.Codec.
type Codec struct {
	layer    encap.Layer
	port     uint16
	maxInner int // bytes of inner packet that fit
	tunnel   header.Tunnel
}

var _ encap.Codec = (*Codec)(nil)

// New returns a codec. The error wraps ErrConfig.
func New(cfg Config) (*Codec, error) {
	if cfg.Port == 0 {
		cfg.Port = DefaultPort
	}
	if cfg.MTU == 0 {
		cfg.MTU = maxIPv4
	}
	if cfg.Layer > encap.Datagram {
		return nil, fmt.Errorf("%w: unknown layer %d", ErrConfig, cfg.Layer)
	}
	if cfg.MTU < IPOverhead+header.IPv4Len {
		return nil, fmt.Errorf("%w: MTU %d leaves no room for an inner packet; set at least %d",
			ErrConfig, cfg.MTU, IPOverhead+header.IPv4Len)
	}
	return &Codec{
		layer:    cfg.Layer,
		port:     cfg.Port,
		maxInner: min(cfg.MTU, maxIPv4) - IPOverhead,
		tunnel:   header.Tunnel{Port: cfg.Port, Verify: !cfg.NoVerify},
	}, nil
}

// Overhead returns how many bytes Push writes before an inner packet: 42 in the
// Ethernet layer, none in the Datagram layer.
func (c *Codec) Overhead() int {
	if c.layer == encap.Datagram {
		return 0
	}
	return frameOverhead
}

// IPOverhead returns how much smaller the inner MTU is than the underlay's,
// whatever the layer.
func (c *Codec) IPOverhead() int { return IPOverhead }

// Compile prepares the way to a peer. The error wraps encap.ErrFamily for
// addresses that are not IPv4.
func (c *Codec) Compile(p encap.Peer) (encap.Path, error) {
	local, remote := p.Local.Unmap(), p.Remote.Unmap()
	if !remote.Is4() || c.layer == encap.Ethernet && !local.Is4() {
		return encap.Path{}, fmt.Errorf("compile path from %s to %s: %w: the udp backend is IPv4 only",
			p.Local, p.Remote, encap.ErrFamily)
	}
	if p.Port == 0 {
		p.Port = c.port
	}
	path := encap.Path{Ready: true, PeerPort: p.Port, Peer: remote.As16()}
	if c.layer == encap.Ethernet {
		path.Len = frameOverhead
		path.Ready = !p.NextHopMAC.IsZero()
		c.encode(path.Header[:frameOverhead], p, local.As4(), remote.As4())
	}
	return path, nil
}

// encode writes what all packets on a path have in common. The lengths are
// zero. The IP checksum is right for that, so that pushFrame only adds the
// length; the UDP checksum field holds the sum of what is known of its
// pseudo-header and header, for pushFrame to go on from.
func (c *Codec) encode(h []byte, p encap.Peer, src, dst [4]byte) {
	header.Ethernet(h).Encode(header.EthernetFields{
		Dst: p.NextHopMAC, Src: p.LocalMAC, EtherType: header.EtherTypeIPv4,
	})
	ip := header.IPv4(h[header.EthernetLen:])
	ip.Encode(header.IPv4Fields{
		Fragment: header.IPv4DontFragment, TTL: outerTTL, Protocol: header.ProtocolUDP, Src: src, Dst: dst,
	})
	u := header.UDP(ip[header.IPv4Len:])
	u.Encode(header.UDPFields{SrcPort: c.port, DstPort: p.Port})
	u.SetChecksum(header.Sum(u[:header.UDPLen], ip.PseudoSum(header.ProtocolUDP, 0)))
}
