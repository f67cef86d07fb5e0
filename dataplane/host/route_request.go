package host

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// errNoAnswer says that the kernel did not answer a request for a route.
var errNoAnswer = errors.New("no answer from the kernel")

// routeSocket asks the kernel for routes, one at a time. It is used by one
// goroutine. The library's RouteGet allocates 64 KiB for each answer, which for
// the 65,536 nodes of the largest overlay is 4 GiB; this allocates nothing.
type routeSocket struct {
	fd      int
	seq     uint32
	out, in []byte
}

func openRouteSocket() (*routeSocket, error) {
	// It need not wait for answers: the kernel has queued one when sendto
	// returns (netlink_unicast_kernel in net/netlink/af_netlink.c).
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open netlink socket: %w", err)
	}
	if err := unix.Connect(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("connect netlink socket: %w", err)
	}
	return &routeSocket{fd: fd, out: make([]byte, 0, 128), in: make([]byte, 16<<10)}, nil
}

func (s *routeSocket) close() { unix.Close(s.fd) }

// get returns the way of packets from local to remote, which are of one family.
func (s *routeSocket) get(local, remote netip.Addr) (way, error) {
	s.seq++
	s.out = appendRouteRequest(s.out[:0], s.seq, local, remote)
	if _, err := unix.Write(s.fd, s.out); err != nil {
		return way{}, fmt.Errorf("ask for route to %s: %w", remote, err)
	}
	for {
		n, err := unix.Read(s.fd, s.in)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN):
			return way{}, fmt.Errorf("ask for route to %s: %w", remote, errNoAnswer)
		case err != nil:
			return way{}, fmt.Errorf("read route to %s: %w", remote, err)
		}
		if w, ok, err := parseRouteAnswer(s.in[:n], s.seq); ok {
			return w, err
		}
	}
}

// appendRouteRequest encodes an RTM_GETROUTE: nlmsghdr of netlink(7), rtmsg of
// rtnetlink(7), destination and source.
func appendRouteRequest(b []byte, seq uint32, local, remote netip.Addr) []byte {
	family, bits := byte(unix.AF_INET), byte(32)
	if remote.Is6() {
		family, bits = unix.AF_INET6, 128
	}
	native := binary.NativeEndian
	b = native.AppendUint32(b, 0) // the length, when it is known
	b = native.AppendUint16(b, unix.RTM_GETROUTE)
	b = native.AppendUint16(b, unix.NLM_F_REQUEST)
	b = native.AppendUint32(b, seq)
	b = native.AppendUint32(b, 0)
	b = append(b, family, bits, bits, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	b = appendAddrAttr(b, unix.RTA_DST, remote)
	b = appendAddrAttr(b, unix.RTA_SRC, local)
	native.PutUint32(b, uint32(len(b)))
	return b
}

func appendAddrAttr(b []byte, kind uint16, a netip.Addr) []byte {
	native := binary.NativeEndian
	b = native.AppendUint16(b, uint16(unix.SizeofRtAttr+a.BitLen()/8))
	b = native.AppendUint16(b, kind)
	if a.Is4() {
		v := a.As4()
		return append(b, v[:]...)
	}
	v := a.As16()
	return append(b, v[:]...)
}

// parseRouteAnswer reads the answer to request seq. It says no when the message
// answers another one.
func parseRouteAnswer(b []byte, seq uint32) (w way, ok bool, err error) {
	native := binary.NativeEndian
	if len(b) < unix.SizeofNlMsghdr || native.Uint32(b[8:]) != seq {
		return way{}, false, nil
	}
	kind, body := native.Uint16(b[4:]), b[unix.SizeofNlMsghdr:]
	switch {
	case kind == unix.RTM_NEWROUTE && len(body) >= unix.SizeofRtMsg:
		return parseWay(body), true, nil
	case kind == unix.NLMSG_ERROR && len(body) >= 4:
		return way{}, true, unix.Errno(-int32(native.Uint32(body)))
	}
	return way{}, true, errNoAnswer
}

// parseWay reads a route that the kernel resolved for one destination: struct
// rtmsg and its attributes, rtnetlink(7).
func parseWay(b []byte) (w way) {
	native := binary.NativeEndian
	kind, flags := b[7], native.Uint32(b[8:])
	tunnel := false
	eachAttr(b[unix.SizeofRtMsg:], func(kind uint16, value []byte) {
		switch kind {
		case unix.RTA_OIF:
			w.ifIndex = uint32Of(value)
		case unix.RTA_GATEWAY:
			w.gateway, _ = addrOf(value)
		case unix.RTA_VIA: // an IPv4 route by an IPv6 neighbour: struct rtvia
			w.gateway, _ = addrOf(value[min(2, len(value)):])
		case unix.RTA_PREFSRC:
			w.local, _ = addrOf(value)
		case unix.RTA_ENCAP_TYPE:
			tunnel = true
		case unix.RTA_METRICS:
			eachAttr(value, func(kind uint16, value []byte) {
				if kind == unix.RTAX_MTU {
					w.mtu = uint32Of(value)
				}
			})
		}
	})
	if kind != unix.RTN_UNICAST || tunnel || flags&unix.RTNH_F_LINKDOWN != 0 {
		return way{}
	}
	return w
}

func uint32Of(b []byte) int {
	if len(b) != 4 {
		return 0
	}
	return int(int32(binary.NativeEndian.Uint32(b)))
}
