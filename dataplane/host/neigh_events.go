package host

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// eventBuffer is how many bytes of events the kernel may hold for us. A dump of
// a large routing change is some megabytes; what does not fit is lost, which the
// kernel tells by ENOBUFS (netlink(7)), and everything is read again.
const eventBuffer = 4 << 20

// neighGroups are what a next hop depends on (linux/rtnetlink.h).
var neighGroups = []int{
	unix.RTNLGRP_LINK, unix.RTNLGRP_NEIGH, unix.RTNLGRP_NEXTHOP,
	unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV4_RULE,
	unix.RTNLGRP_IPV6_IFADDR, unix.RTNLGRP_IPV6_ROUTE, unix.RTNLGRP_IPV6_RULE,
}

// neighEvents is one subscription to all of neighGroups. One socket keeps the
// order among them, and the library's subscriptions, one socket and one channel
// per kind, allocate 64 KiB for each event.
type neighEvents struct {
	file *os.File
	conn syscall.RawConn
	buf  []byte
}

func subscribeNeighEvents(rcvbuf int) (*neighEvents, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open netlink socket: %w", err)
	}
	e := &neighEvents{file: os.NewFile(uintptr(fd), "rtnetlink"), buf: make([]byte, 64<<10)}
	if err := e.setUp(fd, rcvbuf); err != nil {
		e.close()
		return nil, err
	}
	return e, nil
}

func (e *neighEvents) setUp(fd, rcvbuf int) (err error) {
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, rcvbuf); err != nil {
		// Without CAP_NET_ADMIN net.core.rmem_max bounds it, which is enough
		// on all but the busiest hosts.
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, rcvbuf); err != nil {
			return fmt.Errorf("set netlink receive buffer: %w", err)
		}
	}
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fmt.Errorf("bind netlink socket: %w", err)
	}
	for _, group := range neighGroups {
		if err := unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, group); err != nil {
			return fmt.Errorf("subscribe to netlink group %d: %w", group, err)
		}
	}
	if e.conn, err = e.file.SyscallConn(); err != nil {
		return fmt.Errorf("open netlink socket: %w", err)
	}
	return nil
}

// next waits for events. They hold until the call after.
func (e *neighEvents) next() ([]syscall.NetlinkMessage, error) {
	var n int
	var from unix.Sockaddr
	var err error
	waitErr := e.conn.Read(func(fd uintptr) bool {
		n, from, err = unix.Recvfrom(int(fd), e.buf, 0)
		return !errors.Is(err, unix.EAGAIN)
	})
	if waitErr != nil {
		return nil, waitErr
	}
	if err != nil {
		return nil, err
	}
	if sa, ok := from.(*unix.SockaddrNetlink); !ok || sa.Pid != 0 {
		return nil, nil // not from the kernel
	}
	msgs, err := syscall.ParseNetlinkMessage(e.buf[:n])
	if err != nil {
		return nil, nil // the kernel sends none such; the sweep makes up for it
	}
	return msgs, nil
}

// interrupt makes next return os.ErrDeadlineExceeded, now and later.
func (e *neighEvents) interrupt() { _ = e.file.SetReadDeadline(time.Unix(1, 0)) }

func (e *neighEvents) close() { _ = e.file.Close() }

// readEvents takes events until interrupted.
func (n *NextHops) readEvents() error {
	for {
		msgs, err := n.events.next()
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil
		case errors.Is(err, unix.ENOBUFS):
			n.lostEvents()
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return fmt.Errorf("read netlink events: %w", err)
		}
		n.mu.Lock()
		for i := range msgs {
			n.event(msgs[i].Header.Type, msgs[i].Data)
		}
		if !n.todo.empty() {
			n.kick()
		}
		n.mu.Unlock()
	}
}

func (n *NextHops) lostEvents() {
	n.mu.Lock()
	n.stats.Lost++
	n.todo.resync = true
	n.mu.Unlock()
	n.cfg.Log.Debug("netlink events lost, reading everything again")
}

// event takes one message of the kernel. The caller holds mu.
func (n *NextHops) event(kind uint16, b []byte) {
	switch kind {
	case unix.RTM_NEWNEIGH, unix.RTM_DELNEIGH:
		if addr, neigh, ok := parseNeigh(b, n.cfg.IfIndex); ok {
			if kind == unix.RTM_DELNEIGH {
				neigh = neighbour{}
			}
			n.seen.neigh(addr)
			n.setNeigh(addr, neigh)
		}
	case unix.RTM_NEWROUTE, unix.RTM_DELROUTE:
		if p, ok := parseRoute(b); ok {
			n.todo.routes = append(n.todo.routes, p)
		}
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		n.linkEvent(b, kind == unix.RTM_DELLINK)
	case unix.RTM_NEWADDR, unix.RTM_DELADDR:
		if n.concerns(b) {
			n.todo.all = true
		}
	case unix.RTM_NEWRULE, unix.RTM_DELRULE, unix.RTM_NEWNEXTHOP, unix.RTM_DELNEXTHOP:
		n.todo.all = true
	}
}

// setNeigh records an entry of our interface. The caller holds mu.
func (n *NextHops) setNeigh(addr netip.Addr, to neighbour) {
	from := n.neighs[addr]
	if to.state == 0 {
		delete(n.neighs, addr)
	} else {
		n.neighs[addr] = to
	}
	if from.lead() != to.lead() {
		n.todo.tell.add(addr)
	}
	if to.state == unix.NUD_STALE && n.used(addr) {
		n.todo.probe.add(addr)
	}
}

// linkEvent takes a change of an interface. One that is not ours matters too:
// the kernel does not tell of the IPv4 routes that go with it. The caller holds
// mu.
func (n *NextHops) linkEvent(b []byte, gone bool) {
	index, link, ok := parseLink(b)
	if !ok {
		return
	}
	if index == n.cfg.IfIndex {
		if gone {
			link = linkState{}
		}
		n.seen.link = true
		n.setLink(link)
	}
	n.todo.all = true
}

// setLink records the state of our interface. The caller holds mu.
func (n *NextHops) setLink(to linkState) {
	if n.link == to {
		return
	}
	if n.link.up != to.up {
		n.cfg.Log.Info("underlay interface changed", "ifindex", n.cfg.IfIndex, "up", to.up)
	}
	n.link = to
	n.todo.tellAll = true
}

// concerns says whether an address that came or went is ours or our
// interface's: struct ifaddrmsg, linux/if_addr.h.
func (n *NextHops) concerns(b []byte) bool {
	if len(b) < unix.SizeofIfAddrmsg {
		return false
	}
	if int(binary.NativeEndian.Uint32(b[4:])) == n.cfg.IfIndex {
		return true
	}
	ours := false
	eachAttr(b[unix.SizeofIfAddrmsg:], func(kind uint16, value []byte) {
		if a, ok := addrOf(value); ok && (kind == unix.IFA_LOCAL || kind == unix.IFA_ADDRESS) {
			ours = ours || a == n.cfg.Local4 || a == n.cfg.Local6
		}
	})
	return ours
}
