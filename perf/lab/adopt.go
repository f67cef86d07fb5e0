package lab

import (
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
)

// Adopt moves a device out of the program's own namespace into the host, as a
// real network card is plugged in, gives it the address and sets it up. When
// the lab is closed the kernel moves a physical device back and deletes others.
func (h *Host) Adopt(dev string, addr netip.Prefix) error {
	link, err := netlink.LinkByName(dev)
	if err != nil {
		return fmt.Errorf("find %s to move to host %s: %w", dev, h.name, err)
	}
	if err := netlink.LinkSetNsFd(link, int(h.ns.Fd())); err != nil {
		return fmt.Errorf("move %s to host %s: %w", dev, h.name, err)
	}
	err = h.Do(func() error {
		link, err := netlink.LinkByName(dev)
		if err != nil {
			return err
		}
		a, err := netlink.ParseAddr(addr.String())
		if err != nil {
			return err
		}
		if err := netlink.AddrAdd(link, a); err != nil {
			return err
		}
		return netlink.LinkSetUp(link)
	})
	if err != nil {
		return fmt.Errorf("set up %s on host %s: %w", dev, h.name, err)
	}
	h.addr4 = addr.Addr()
	return nil
}

// XDPMode says where in the receive path of a device an XDP program runs:
// "native", "generic", "offload", "several", or "none".
func (h *Host) XDPMode(dev string) (mode string, err error) {
	err = h.Do(func() error {
		link, err := netlink.LinkByName(dev)
		if err != nil {
			return fmt.Errorf("find %s on host %s: %w", dev, h.name, err)
		}
		mode = "none"
		if x := link.Attrs().Xdp; x != nil && x.Attached {
			mode = xdpModes[x.AttachMode]
		}
		return nil
	})
	return mode, err
}

// xdpModes are the values of IFLA_XDP_ATTACHED (linux/if_link.h).
var xdpModes = map[uint32]string{0: "none", 1: "native", 2: "generic", 3: "offload", 4: "several"}
