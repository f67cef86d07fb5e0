package vxlan

import (
	"errors"
	"fmt"

	"flanx/encap"
	"flanx/encap/header"
)

// ErrVTEP says that a peer's lease has no usable VTEP address.
var ErrVTEP = errors.New("not the Ethernet address of a VTEP")

// Compile prepares the way to a peer. The error wraps encap.ErrFamily when we
// do not speak the remote address's family or the local one is of another, and
// ErrVTEP when the peer's VTEP is zero, a group's, or our own.
func (c *Codec) Compile(p encap.Peer) (encap.Path, error) {
	p.Local, p.Remote = p.Local.Unmap(), p.Remote.Unmap()
	if err := c.checkPeer(p); err != nil {
		return encap.Path{}, fmt.Errorf("compile path from %s to %s: %w", p.Local, p.Remote, err)
	}
	if p.Port == 0 {
		p.Port = c.port
	}
	path := encap.Path{Ready: true, PeerPort: p.Port, Peer: p.Remote.As16()}
	switch {
	case c.layer == encap.Datagram:
		path.Len = shim
		c.encodeShim(path.Header[:], p)
	case p.Remote.Is4():
		path.Len = frameOverhead4
		path.Ready = !p.NextHopMAC.IsZero()
		c.encode4(path.Header[:], p)
	default:
		path.Len = frameOverhead6
		path.Ready = !p.NextHopMAC.IsZero()
		c.encode6(path.Header[:], p)
	}
	return path, nil
}

func (c *Codec) checkPeer(p encap.Peer) error {
	own := c.vtep(p.Remote.Is6())
	switch {
	case !p.Remote.IsValid() || own.IsZero():
		return encap.ErrFamily
	case c.layer == encap.Ethernet && p.Local.Is4() != p.Remote.Is4():
		return encap.ErrFamily
	case p.VTEP.IsZero() || header.IsMulticast(p.VTEP) || p.VTEP == own:
		return fmt.Errorf("%x: %w", p.VTEP, ErrVTEP)
	}
	return nil
}

// The encoders write what all packets on a path have in common. Lengths, ID,
// source port and inner EtherType are zero. The IPv4 checksum is right for
// that, so that Push only adds; the UDP checksum field holds the sum of what is
// known of the pseudo-header and of the headers to come, for Push to go on
// from.

func (c *Codec) encode4(h []byte, p encap.Peer) {
	header.Ethernet(h).Encode(header.EthernetFields{
		Dst: p.NextHopMAC, Src: p.LocalMAC, EtherType: header.EtherTypeIPv4,
	})
	ip := header.IPv4(h[header.EthernetLen:])
	ip.Encode(header.IPv4Fields{
		TTL: outerTTL, Protocol: header.ProtocolUDP, Src: p.Local.As4(), Dst: p.Remote.As4(),
	})
	c.encodeUDP(ip[header.IPv4Len:], p, ip.PseudoSum(header.ProtocolUDP, 0))
}

func (c *Codec) encode6(h []byte, p encap.Peer) {
	header.Ethernet(h).Encode(header.EthernetFields{
		Dst: p.NextHopMAC, Src: p.LocalMAC, EtherType: header.EtherTypeIPv6,
	})
	ip := header.IPv6(h[header.EthernetLen:])
	ip.Encode(header.IPv6Fields{
		NextHeader: header.ProtocolUDP, HopLimit: outerTTL, Src: p.Local.As16(), Dst: p.Remote.As16(),
	})
	c.encodeUDP(ip[header.IPv6Len:], p, ip.PseudoSum(header.ProtocolUDP, 0))
}

func (c *Codec) encodeUDP(h []byte, p encap.Peer, pseudo uint16) {
	u := header.UDP(h)
	u.Encode(header.UDPFields{DstPort: p.Port})
	c.encodeShim(h[header.UDPLen:], p)
	u.SetChecksum(header.Sum(h[:header.UDPLen+shim], pseudo))
}

func (c *Codec) encodeShim(h []byte, p encap.Peer) {
	header.VXLAN(h).Encode(header.VXLANFields{Flags: header.VXLANFlagVNI, VNI: c.vni})
	header.Ethernet(h[header.VXLANLen:]).Encode(header.EthernetFields{
		Dst: p.VTEP, Src: c.vtep(p.Remote.Is6()),
	})
}
