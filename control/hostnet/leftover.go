package hostnet

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/vishvananda/netlink"
)

// VXLANDevice is a VXLAN device of the kernel.
type VXLANDevice struct {
	Index int
	Name  string
	VNI   int
	Port  int // UDP, destination and listening
	IPv6  bool
	MAC   net.HardwareAddr // what peers send to: to be kept as our VTEP's MAC
}

// flannelName returns the names that flanneld gives its devices.
func flannelName(vni int, v6 bool) string {
	if v6 {
		return fmt.Sprintf("flannel-v6.%d", vni)
	}
	return fmt.Sprintf("flannel.%d", vni)
}

// IsFlannel says whether the device is one that flanneld left behind.
func (d VXLANDevice) IsFlannel() bool { return d.Name == flannelName(d.VNI, d.IPv6) }

// VXLANDevices lists the VXLAN devices that stand in the way of a VTEP with the
// given VNI and UDP port: those that flanneld made for this VNI, and those that
// hold the port. While there is one of the latter, no socket can be bound to it.
func VXLANDevices(vni, port int) ([]VXLANDevice, error) {
	links, err := dump(netlink.LinkList)
	if err != nil {
		return nil, fmt.Errorf("list VXLAN devices: %w", err)
	}
	var found []VXLANDevice
	for _, l := range links {
		v, ok := l.(*netlink.Vxlan)
		if !ok {
			continue
		}
		d := describe(v)
		if d.IsFlannel() && d.VNI == vni || d.Port == port {
			found = append(found, d)
		}
	}
	return found, nil
}

func describe(v *netlink.Vxlan) VXLANDevice {
	d := VXLANDevice{
		Index: v.Index, Name: v.Name, VNI: v.VxlanId, Port: v.Port, MAC: slices.Clone(v.HardwareAddr),
		IPv6: v.SrcAddr != nil && v.SrcAddr.To4() == nil || v.Group != nil && v.Group.To4() == nil,
	}
	// Without local address and group the device does not tell its family.
	d.IPv6 = d.IPv6 || d.Name == flannelName(d.VNI, true)
	return d
}

// Remove deletes the device, which gives its UDP port free and removes its
// routes and neighbours. It is looked at again first: only a VXLAN device of the
// same index, VNI and MAC is deleted. One that is gone is no error.
func (d VXLANDevice) Remove() error {
	link, err := netlink.LinkByIndex(d.Index)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove device %s: %w", d.Name, err)
	}
	v, ok := link.(*netlink.Vxlan)
	if !ok || v.VxlanId != d.VNI || !bytes.Equal(v.HardwareAddr, d.MAC) {
		return fmt.Errorf("remove device %s: %w: it was replaced meanwhile", d.Name, ErrConflict)
	}
	if err := netlink.LinkDel(link); err != nil {
		return fmt.Errorf("remove device %s: %w", d.Name, explain(err))
	}
	return nil
}

// CheckTUN says early, and more clearly than opening would, why a TUN device of
// that name cannot be had: a device of another kind has it, or a process holds
// it. No device, or an idle persistent TUN, is fine. The error is [ErrConflict].
func CheckTUN(name string) error {
	link, err := netlink.LinkByName(name)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("check TUN %s: %w", name, err)
	}
	t, ok := link.(*netlink.Tuntap)
	switch {
	case !ok:
		return fmt.Errorf("check TUN %s: %w: it is a %s device: remove it (ip link del %[1]s) or choose another -tun-name",
			name, ErrConflict, link.Type())
	case t.Mode != netlink.TUNTAP_MODE_TUN:
		return fmt.Errorf("check TUN %s: %w: it is a TAP device: remove it (ip link del %[1]s) or choose another -tun-name",
			name, ErrConflict)
	case t.NonPersist: // it lives only as long as somebody holds it
		return fmt.Errorf("check TUN %s: %w: held by %s: stop that (flanneld with the udp backend?) or choose another -tun-name",
			name, ErrConflict, holder("/proc", name))
	}
	return nil
}

// isTUNInfo says whether an fdinfo has the line "iff:\tname".
func isTUNInfo(info []byte, name string) bool {
	for line := range bytes.Lines(info) {
		if value, ok := bytes.CutPrefix(line, []byte("iff:")); ok {
			return trimLine(value) == name
		}
	}
	return false
}
