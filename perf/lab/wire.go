package lab

import (
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Wire says what kind of cable joins hosts. The zero value is an Ethernet of
// 1,500 bytes with one queue that carries nothing but whole frames.
type Wire struct {
	MTU      int  // bytes of IP packet; 0 means 1500
	Offloads bool // leave veth's offloads on: packets of 64 KiB cross, checksums unfilled
	Queues   int  // receive and transmit queues of each interface; 0 means 1
}

// Connect joins two hosts by a veth pair, more by a bridge in a namespace of its
// own. Each host's interface is its next eth (eth0 on the first wire), with the
// addresses 10.99.W.N/24 and fd99:0:0:W::N/64 for wire W (from 0) and host N
// (from 1, in the order they were made).
func (l *Lab) Connect(w Wire, hosts ...*Host) error {
	if w.MTU == 0 {
		w.MTU = 1500
	}
	if w.Queues == 0 {
		w.Queues = 1
	}
	l.mu.Lock()
	number := l.wires
	l.wires++
	l.mu.Unlock()
	for _, h := range hosts {
		if h.index == 0 || h.lab != l {
			return fmt.Errorf("connect %s: it is no host of this lab", h.name)
		}
	}
	var err error
	switch {
	case len(hosts) < 2:
		err = fmt.Errorf("connect %d hosts: a wire has two ends", len(hosts))
	case len(hosts) == 2:
		err = w.pair(end{hosts[0], hosts[0].nextEth()}, end{hosts[1], hosts[1].nextEth()})
	default:
		err = l.connectSwitch(w, number, hosts)
	}
	if err != nil {
		return err
	}
	for _, h := range hosts {
		if err := h.address(number); err != nil {
			return err
		}
	}
	return nil
}

// connectSwitch runs one veth pair from each host to a bridge.
func (l *Lab) connectSwitch(w Wire, number int, hosts []*Host) error {
	name := fmt.Sprintf("sw%d", number)
	sw, err := l.add(name, fmt.Sprintf("switch-%d", number)) // no host or pod can be called so
	if err != nil {
		return err
	}
	if err := sw.Do(func() error { return addBridge("br0", w) }); err != nil {
		return fmt.Errorf("make switch %s: %w", name, err)
	}
	for _, h := range hosts {
		port := end{sw, "p-" + h.name}
		if err := w.pair(end{h, h.nextEth()}, port); err != nil {
			return err
		}
		if err := sw.Do(func() error { return enslave(port.dev, "br0") }); err != nil {
			return fmt.Errorf("plug %s into %s: %w", h.name, name, err)
		}
	}
	return nil
}

func (h *Host) nextEth() string {
	h.links++
	return fmt.Sprintf("eth%d", h.links-1)
}

// end is one end of a veth pair.
type end struct {
	host *Host
	dev  string
}

// pair makes a veth pair whose ends are born in their namespaces, sets the
// offloads, and puts both up.
func (w Wire) pair(a, b end) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = a.dev, w.MTU
	attrs.NumTxQueues, attrs.NumRxQueues = w.Queues, w.Queues
	veth := netlink.NewVeth(attrs)
	veth.PeerName, veth.PeerMTU = b.dev, uint32(w.MTU)
	veth.PeerNumTxQueues, veth.PeerNumRxQueues = uint32(w.Queues), uint32(w.Queues)
	veth.PeerNamespace = netlink.NsFd(b.host.ns.Fd())
	if err := a.host.Do(func() error { return netlink.LinkAdd(veth) }); err != nil {
		return fmt.Errorf("make wire from %s %s to %s %s: %w", a.host.name, a.dev, b.host.name, b.dev, err)
	}
	for _, e := range []end{a, b} {
		if !w.Offloads {
			if err := e.host.SetOffloads(e.dev, false); err != nil {
				return err
			}
		}
		if err := e.host.Do(func() error { return setUp(e.dev) }); err != nil {
			return fmt.Errorf("host %s: %w", e.host.name, err)
		}
	}
	return nil
}

// address gives the newest eth its addresses on a wire.
func (h *Host) address(wire int) error {
	v4 := netip.AddrFrom4([4]byte{10, 99, byte(wire), byte(h.index)})
	raw := [16]byte{0: 0xfd, 1: 0x99, 7: byte(wire), 15: byte(h.index)}
	v6 := netip.AddrFrom16(raw)
	dev := fmt.Sprintf("eth%d", h.links-1)
	err := h.Do(func() error {
		if err := addAddress(dev, netip.PrefixFrom(v4, 24)); err != nil {
			return err
		}
		return addAddress(dev, netip.PrefixFrom(v6, 64))
	})
	if err != nil {
		return fmt.Errorf("host %s: %w", h.name, err)
	}
	if !h.addr4.IsValid() {
		h.addr4, h.addr6 = v4, v6
	}
	return nil
}

// The functions below work in the calling thread's namespace.

func setUp(dev string) error {
	link, err := netlink.LinkByName(dev)
	if err == nil {
		err = netlink.LinkSetUp(link)
	}
	return wrap(err, "set %s up", dev)
}

func addAddress(dev string, p netip.Prefix) error {
	link, err := netlink.LinkByName(dev)
	if err == nil {
		a := &netlink.Addr{IPNet: ipNet(p)}
		if p.Addr().Is6() {
			a.Flags = unix.IFA_F_NODAD
		}
		err = netlink.AddrAdd(link, a)
	}
	if err == nil && p.Addr().Is6() {
		err = awaitLocal(p.Addr())
	}
	return wrap(err, "add address %s to %s", p, dev)
}

// localWait bounds how long the kernel may take until an IPv6 address works.
const localWait = 3 * time.Second

// awaitLocal waits until packets to an address of ours are delivered: the kernel
// adds the route to itself from a work queue (addrconf_dad_start in
// net/ipv6/addrconf.c), also when no duplicate detection is asked for.
func awaitLocal(a netip.Addr) error {
	for deadline := time.Now().Add(localWait); ; time.Sleep(time.Millisecond) {
		routes, err := netlink.RouteGet(net.IP(a.AsSlice()))
		if err == nil && len(routes) > 0 && routes[0].Type == unix.RTN_LOCAL {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not usable after %s", localWait)
		}
	}
}

func addBridge(dev string, w Wire) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = dev, w.MTU
	snooping := false // floods multicast, as a plain switch does
	if err := netlink.LinkAdd(&netlink.Bridge{LinkAttrs: attrs, MulticastSnooping: &snooping}); err != nil {
		return fmt.Errorf("add bridge %s: %w", dev, err)
	}
	return setUp(dev)
}

func enslave(dev, bridge string) error {
	link, err := netlink.LinkByName(dev)
	if err != nil {
		return fmt.Errorf("find %s: %w", dev, err)
	}
	br, err := netlink.LinkByName(bridge)
	if err != nil {
		return fmt.Errorf("find %s: %w", bridge, err)
	}
	return wrap(netlink.LinkSetMaster(link, br), "enslave %s to %s", dev, bridge)
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{
		IP:   p.Addr().AsSlice(),
		Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen()),
	}
}
