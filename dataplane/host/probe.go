package host

import (
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/vishvananda/netlink"

	"flanx/dataplane/packet"
)

// Device is what matters about a network device for getting packets off it, at
// the moment that it was probed.
type Device struct {
	Name   string
	Index  int
	MTU    int    // bytes of IP packet
	Driver string // as ethtool names it; empty when it has none
	Kind   string // of a device made of software, as "ip link add type" names it; else empty
	Queues int    // that both receive and send

	loopback bool
	features map[string]bool // which are active, by the kernel's names; nil: not known
}

// Probe looks at a device of the calling thread's network namespace. It needs no
// privilege.
func Probe(ifindex int) (Device, error) {
	link, err := netlink.LinkByIndex(ifindex)
	if err != nil {
		return Device{}, fmt.Errorf("probe interface %d: %w", ifindex, err)
	}
	d := newDevice(link)
	e, err := openEthtool()
	if err != nil {
		return Device{}, fmt.Errorf("probe interface %s: %w", d.Name, err)
	}
	defer e.close()
	d.Driver = e.driver(d.Name)
	// A driver that does not tell has what the kernel allotted it.
	if rx, tx, err := e.queues(d.Name); err == nil {
		d.Queues = min(rx, tx)
	}
	d.Queues = max(d.Queues, 1)
	if d.features, err = e.features(d.Name); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return Device{}, fmt.Errorf("probe interface %s: %w", d.Name, err)
	}
	return d, nil
}

func newDevice(link netlink.Link) Device {
	attrs := link.Attrs()
	d := Device{
		Name: attrs.Name, Index: attrs.Index, MTU: attrs.MTU,
		Queues:   min(attrs.NumRxQueues, attrs.NumTxQueues),
		loopback: attrs.Flags&net.FlagLoopback != 0,
	}
	if kind := link.Type(); kind != "device" { // what netlink calls a link without a kind
		d.Kind = kind
	}
	return d
}

// software says whether packets can come to the device straight out of another
// stack, without having been on a wire.
func (d Device) software() bool { return d.Kind != "" || d.loopback }

// description names the device in messages.
func (d Device) description() string {
	if d.Driver == "" {
		return d.Name
	}
	return fmt.Sprintf("%s (driver %s)", d.Name, d.Driver)
}

// Offloads by which a sender leaves to the device what the device, being
// software, leaves undone. Segmentation of tunnels is not among them: it takes
// the checksum offload.
var senderOffloads = []string{
	"tx-checksum-ip-generic",
	"tx-generic-segmentation",
	"tx-tcp-segmentation",
	"tx-tcp6-segmentation",
	"tx-udp-segmentation",
}

// offloadsOn returns which of the senderOffloads are active.
func (d Device) offloadsOn() (on []string) {
	for _, name := range senderOffloads {
		if d.features[name] {
			on = append(on, name)
		}
	}
	return on
}

// superPackets returns why packets longer than the MTU must be expected by a
// generic program on the device, or nil. It is asked before attaching, and
// again afterwards, when the kernel has turned off what it can
// (generic_xdp_install in net/core/dev.c).
func (d Device) superPackets(attached bool) error {
	if d.software() {
		if d.features == nil {
			return fmt.Errorf("%w of %s: its offloads cannot be read", ErrSuperPackets, d.description())
		}
		if on := d.offloadsOn(); len(on) > 0 {
			return fmt.Errorf("%w of %s: %s on at this end, so a sender behind it may do likewise; switch them off at both ends (ethtool -K %s tso off gso off tx off tx-udp-segmentation off), or use native XDP",
				ErrSuperPackets, d.description(), strings.Join(on, ", "), d.Name)
		}
		return nil
	}
	for _, name := range []string{"rx-lro", "rx-gro-hw"} {
		if attached && d.features[name] {
			return fmt.Errorf("%w of %s: %s cannot be switched off", ErrSuperPackets, d.description(), name)
		}
	}
	return nil
}

// unfinishedChecksums returns a warning for devices whose senders may leave
// checksums to a device that never computes them.
func (d Device) unfinishedChecksums() string {
	if !d.software() || !d.features["tx-checksum-ip-generic"] {
		return ""
	}
	return fmt.Sprintf("packets may arrive on %s with unfinished checksums: it is a software device with checksum offload on; switch it off at both ends (ethtool -K %s tx off)",
		d.description(), d.Name)
}

// etherOverhead is what the kernel counts on top of the MTU: an Ethernet header,
// two VLAN tags and the frame check sequence (ETH_PAD_LEN in
// net/xdp/xsk_buff_pool.c).
const etherOverhead = 14 + 2*4 + 4

// frameSize returns the smallest UMEM frame that holds a packet of the device's
// MTU behind the headroom; 4096 bytes is the most that AF_XDP has.
func (d Device) frameSize() (int, error) {
	const most = packet.FrameSize4K - packet.Headroom - etherOverhead
	switch {
	case d.MTU+etherOverhead <= packet.FrameSize2K-packet.Headroom:
		return packet.FrameSize2K, nil
	case d.MTU <= most:
		return packet.FrameSize4K, nil
	}
	return 0, fmt.Errorf("%w: MTU %d of %s, AF_XDP takes at most %d", ErrMTU, d.MTU, d.description(), most)
}
