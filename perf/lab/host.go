package lab

import (
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/vishvananda/netlink"
)

// Host is a network namespace that stands for a machine: loopback is up and
// packets are forwarded.
type Host struct {
	lab     *Lab
	name    string
	full    string // the namespace's name
	ns      *os.File
	spawner *spawner
	index   int // from 1: the last part of its addresses; 0 for pods and switches
	links   int // eth interfaces so far
	addr4   netip.Addr
	addr6   netip.Addr
}

// Host adds a host. The name has at most 11 lower-case letters and digits.
func (l *Lab) Host(name string) (*Host, error) {
	if err := checkName(name); err != nil {
		return nil, fmt.Errorf("name host: %w", err)
	}
	h, err := l.add(name, name)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.nodes++
	h.index = l.nodes
	return h, nil
}

// add makes the namespace prefix-suffix and gives it to the lab, ready for use.
func (l *Lab) add(name, suffix string) (*Host, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, fmt.Errorf("add host %s: %w", name, ErrClosed)
	}
	full := l.prefix + "-" + suffix
	ns, err := createNamespace(full)
	if err != nil {
		return nil, err
	}
	h := &Host{lab: l, name: name, full: full, ns: ns, spawner: newSpawner(ns)}
	if err := h.Do(prepareNamespace); err != nil {
		_ = ns.Close()
		_ = unmountNamespace(full)
		return nil, fmt.Errorf("prepare host %s: %w", name, err)
	}
	l.hosts = append(l.hosts, h)
	return h, nil
}

// prepareNamespace makes the calling thread's namespace like a host: the same
// on every machine, whatever its own settings are (a new namespace inherits
// some of IPv4's).
func prepareNamespace() error {
	for _, s := range []struct{ key, value string }{
		{"net/ipv4/ip_forward", "1"},
		{"net/ipv4/conf/all/rp_filter", "0"},
		{"net/ipv4/conf/default/rp_filter", "0"},
		{"net/ipv6/conf/all/forwarding", "1"},
		{"net/ipv6/conf/all/accept_dad", "0"}, // addresses of ours are usable at once
		{"net/ipv6/conf/default/accept_dad", "0"},
	} {
		if err := os.WriteFile("/proc/sys/"+s.key, []byte(s.value), 0); err != nil {
			return fmt.Errorf("set sysctl: %w", err)
		}
	}
	return setUp("lo")
}

// Name returns the name that the host was made with.
func (h *Host) Name() string { return h.name }

// Namespace returns the name for "ip netns exec".
func (h *Host) Namespace() string { return h.full }

// Addr returns the host's IPv4 address on its first wire; invalid before that.
func (h *Host) Addr() netip.Addr { return h.addr4 }

// Addr6 returns the host's IPv6 address on its first wire; invalid before that.
func (h *Host) Addr6() netip.Addr { return h.addr6 }

// Do runs fn on the calling goroutine with its thread inside the host, and
// returns fn's error. What fn opens (sockets, netlink handles, /proc/sys/net)
// belongs to the host and may be used anywhere afterwards. Goroutines that fn
// starts are not inside; nor are /proc/net and /sys/class/net, which show the
// program's own namespace: /proc/thread-self/net shows the host's.
func (h *Host) Do(fn func() error) error {
	return onOwnThread(func() error {
		if err := enter(h.ns); err != nil {
			return fmt.Errorf("host %s: %w", h.name, err)
		}
		return fn()
	})
}

// RouteDevice returns the name of the interface by which the host would send to
// the address.
func (h *Host) RouteDevice(to netip.Addr) (string, error) {
	var name string
	err := h.Do(func() error {
		routes, err := netlink.RouteGet(net.IP(to.AsSlice()))
		if err != nil || len(routes) == 0 {
			return fmt.Errorf("find route to %s on %s: %w", to, h.name, err)
		}
		link, err := netlink.LinkByIndex(routes[0].LinkIndex)
		if err != nil {
			return fmt.Errorf("find route to %s on %s: %w", to, h.name, err)
		}
		name = link.Attrs().Name
		return nil
	})
	return name, err
}
