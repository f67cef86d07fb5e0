package wire

import (
	"encoding/json"
	"fmt"
	"net"

	"flanx/control/hostnet"
	"flanx/control/lease"
	"flanx/encap"
	"flanx/encap/header"
	"flanx/encap/udp"
	"flanx/encap/vxlan"
)

// backend is what the network configuration says about encapsulation, and our
// own part in it.
type backend struct {
	kind string // "udp", "vxlan" or "alloc"
	port uint16
	mtu  int  // of the underlay, as configured; 0: the interface's
	df   bool // outer packets must not be fragmented

	vni  uint32
	gbp  bool
	vtep encap.MAC
}

// newBackend reads the backend part of a network configuration. prev is what we
// said about ourselves before, adopted the MAC of a flannel.<VNI> found on the
// host; a node that keeps its MAC spares the others a change.
func newBackend(cfg lease.NetworkConfig, prev lease.Attrs, adopted func(vni uint32) net.HardwareAddr) (backend, error) {
	if cfg.EnableIPv6 {
		return backend{}, fmt.Errorf("%w: EnableIPv6 is set, and flanxd serves IPv4 only; leave it out, or run flanneld on this node", ErrBackend)
	}
	switch cfg.BackendType {
	case "alloc":
		return backend{kind: "alloc"}, nil
	case "udp":
		c, err := cfg.UDP()
		if err != nil {
			return backend{}, fmt.Errorf("%w: %w", ErrBackend, err)
		}
		return backend{kind: "udp", port: c.Port, df: true}, nil
	case "vxlan":
		return newVXLAN(cfg, prev, adopted)
	}
	return backend{}, fmt.Errorf("%w: Backend.Type %q; flanxd has udp, vxlan and alloc", ErrBackend, cfg.BackendType)
}

func newVXLAN(cfg lease.NetworkConfig, prev lease.Attrs, adopted func(vni uint32) net.HardwareAddr) (backend, error) {
	c, err := cfg.VXLAN()
	if err != nil {
		return backend{}, fmt.Errorf("%w: %w", ErrBackend, err)
	}
	if c.DirectRouting {
		return backend{}, fmt.Errorf("%w: Backend.DirectRouting is set, and flanxd always encapsulates; leave it out, or run flanneld on this node", ErrBackend)
	}
	b := backend{kind: "vxlan", port: c.Port, mtu: c.MTU, vni: c.VNI, gbp: c.GBP}
	b.vtep = chooseMAC(prev, adopted(c.VNI))
	return b, nil
}

// chooseMAC prefers the MAC that the other nodes have for us already.
func chooseMAC(prev lease.Attrs, adopted net.HardwareAddr) encap.MAC {
	if d, err := lease.ParseVXLANData(prev.BackendData); err == nil {
		return encap.MAC(d.VtepMAC)
	}
	if len(adopted) == 6 && adopted[0]&1 == 0 {
		return encap.MAC(adopted)
	}
	return encap.MAC(hostnet.RandomMAC())
}

// attrs is what we tell the other nodes.
func (b backend) attrs(iface hostnet.Interface) lease.Attrs {
	a := lease.Attrs{PublicIP: iface.Public4}
	if b.kind == "vxlan" {
		a.BackendType = "vxlan"
		a.BackendData = lease.VXLANData{VNI: b.vni, VtepMAC: lease.MAC(b.vtep)}.Encode()
	}
	return a
}

// vtepOf reads the VTEP's MAC out of another node's lease; nil where leases
// have none.
func (b backend) vtepOf() func(json.RawMessage) (encap.MAC, error) {
	if b.kind != "vxlan" {
		return nil
	}
	return func(data json.RawMessage) (encap.MAC, error) {
		d, err := lease.ParseVXLANData(data)
		if err != nil {
			return encap.MAC{}, err
		}
		if d.VNI != 0 && d.VNI != b.vni {
			return encap.MAC{}, fmt.Errorf("BackendData.VNI is %d, ours is %d", d.VNI, b.vni)
		}
		return encap.MAC(d.VtepMAC), nil
	}
}

// codec makes the codec of one layer. mtu bounds the outer IP packet.
func (b backend) codec(layer encap.Layer, mtu int) (encap.Codec, error) {
	if b.kind == "vxlan" {
		return vxlan.New(vxlan.Config{
			Layer: layer, VNI: b.vni, Port: b.port, VTEP4: b.vtep, GBP: b.gbp, MTU: mtu,
		})
	}
	return udp.New(udp.Config{Layer: layer, Port: b.port, MTU: mtu})
}

// tunnelHeader is how many bytes a datagram has before the inner packet.
func (b backend) tunnelHeader() int {
	if b.kind == "vxlan" {
		return header.VXLANLen + header.EthernetLen
	}
	return 0
}

// maxInner is the longest inner packet to make of TCP segments that a kernel left
// uncut; 0 where there is no kernel at the other end that would.
func (b backend) maxInner(mtu hostnet.MTU) int {
	if b.kind == "vxlan" {
		return mtu.V4
	}
	return 0
}
