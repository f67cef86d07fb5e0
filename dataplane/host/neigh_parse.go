package host

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"

	"flanx/encap"
)

// parseNeigh reads an entry if it is one of the interface: struct ndmsg,
// linux/neighbour.h.
func parseNeigh(b []byte, ifIndex int) (addr netip.Addr, n neighbour, ok bool) {
	if len(b) < unix.SizeofNdMsg {
		return netip.Addr{}, neighbour{}, false
	}
	family, flags := b[0], b[10]
	if int(int32(binary.NativeEndian.Uint32(b[4:]))) != ifIndex ||
		family != unix.AF_INET && family != unix.AF_INET6 || // a bridge's forwarding table, say
		flags&unix.NTF_PROXY != 0 {
		return netip.Addr{}, neighbour{}, false
	}
	n.state = binary.NativeEndian.Uint16(b[8:])
	eachAttr(b[unix.SizeofNdMsg:], func(kind uint16, value []byte) {
		switch kind {
		case unix.NDA_DST:
			addr, ok = addrOf(value)
		case unix.NDA_LLADDR:
			if len(value) == len(n.mac) {
				n.mac = encap.MAC(value)
			}
		}
	})
	return addr, n, ok
}

// parseRoute reads the destination of a route: struct rtmsg, linux/rtnetlink.h.
func parseRoute(b []byte) (netip.Prefix, bool) {
	if len(b) < unix.SizeofRtMsg {
		return netip.Prefix{}, false
	}
	var dst netip.Addr
	switch b[0] {
	case unix.AF_INET:
		dst = netip.IPv4Unspecified()
	case unix.AF_INET6:
		dst = netip.IPv6Unspecified()
	default:
		return netip.Prefix{}, false
	}
	eachAttr(b[unix.SizeofRtMsg:], func(kind uint16, value []byte) {
		if a, ok := netip.AddrFromSlice(value); ok && kind == unix.RTA_DST {
			dst = a
		}
	})
	p, err := dst.Prefix(int(b[1]))
	return p, err == nil
}

// parseLink reads an interface: struct ifinfomsg, linux/rtnetlink.h. It says no
// to messages that are not about the interface as such: one about a bridge's
// port has another family, and a wireless event has no MTU.
func parseLink(b []byte) (index int, link linkState, ok bool) {
	if len(b) < unix.SizeofIfInfomsg || b[0] != unix.AF_UNSPEC {
		return 0, linkState{}, false
	}
	index = int(int32(binary.NativeEndian.Uint32(b[4:])))
	link.up = isUp(binary.NativeEndian.Uint32(b[8:]))
	eachAttr(b[unix.SizeofIfInfomsg:], func(kind uint16, value []byte) {
		switch {
		case kind == unix.IFLA_ADDRESS && len(value) == len(link.mac):
			link.mac = encap.MAC(value)
		case kind == unix.IFLA_MTU && len(value) == 4:
			link.mtu = int(binary.NativeEndian.Uint32(value))
			ok = true
		}
	})
	return index, link, ok
}

// isUp reads interface flags: netdevice(7). IFF_LOWER_UP is the carrier itself,
// and true sooner than IFF_RUNNING, which waits for link_watch.
func isUp(flags uint32) bool { return flags&unix.IFF_UP != 0 && flags&unix.IFF_LOWER_UP != 0 }

// eachAttr calls fn for each attribute of a message: rtnetlink(7). It stops at
// one that claims more bytes than there are.
func eachAttr(b []byte, fn func(kind uint16, value []byte)) {
	for len(b) >= unix.SizeofRtAttr {
		size := int(binary.NativeEndian.Uint16(b))
		if size < unix.SizeofRtAttr || size > len(b) {
			return
		}
		const kinds = ^uint16(unix.NLA_F_NESTED | unix.NLA_F_NET_BYTEORDER)
		fn(binary.NativeEndian.Uint16(b[2:])&kinds, b[unix.SizeofRtAttr:size])
		b = b[min(len(b), (size+3)&^3):]
	}
}
