package hostnet

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/vishvananda/netlink"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// namespace is a network namespace without a name: it lives as long as its
// descriptor and what is in it, so nothing is left behind, also after SIGKILL.
type namespace struct {
	t    testing.TB
	file *os.File
}

func needRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() == 0 {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("needs root, and under CI nothing is skipped")
	}
	t.Skip("needs root")
}

func newNamespace(t testing.TB) *namespace {
	t.Helper()
	needRoot(t)
	n := &namespace{t: t}
	onOwnThread(t, func() {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			t.Errorf("make a network namespace: %v", err)
			return
		}
		n.file = openNetns(t)
	})
	if n.file == nil {
		t.FailNow()
	}
	t.Cleanup(func() { _ = n.file.Close() })
	n.sysctl("net/ipv6/conf/default/accept_dad", "0")
	n.sysctl("net/ipv6/conf/default/router_solicitations", "0")
	n.do(func() error {
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		return netlink.LinkSetUp(lo)
	})
	return n
}

func openNetns(t testing.TB) *os.File {
	f, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		t.Errorf("open the network namespace: %v", err)
	}
	return f
}

// onOwnThread runs f on a thread that may change its namespace. Were the way
// back barred, the thread would stay locked and end with the goroutine.
func onOwnThread(t testing.TB, f func()) {
	t.Helper()
	runtime.LockOSThread()
	home := openNetns(t)
	defer func() {
		defer home.Close()
		if err := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); err != nil {
			t.Errorf("return from the network namespace: %v", err)
			return
		}
		runtime.UnlockOSThread()
	}()
	f()
}

// in runs f in the namespace. Sockets that f opens stay there.
func (n *namespace) in(f func()) {
	n.t.Helper()
	onOwnThread(n.t, func() {
		if err := unix.Setns(int(n.file.Fd()), unix.CLONE_NEWNET); err != nil {
			n.t.Errorf("enter the network namespace: %v", err)
			return
		}
		f()
	})
}

// do is in for what must succeed.
func (n *namespace) do(f func() error) {
	n.t.Helper()
	var err error
	n.in(func() { err = f() })
	if err != nil {
		n.t.Fatal(err)
	}
}

func (n *namespace) sysctl(name, value string) {
	n.t.Helper()
	n.do(func() error { return os.WriteFile(filepath.Join(sysctlRoot, name), []byte(value), 0) })
}

// wire joins two namespaces with a veth pair, both ends up.
func wire(a *namespace, nameA string, b *namespace, nameB string) {
	a.t.Helper()
	a.do(func() error {
		return netlink.LinkAdd(&netlink.Veth{
			LinkAttrs: netlink.LinkAttrs{Name: nameA, MTU: 1500},
			PeerName:  nameB, PeerNamespace: netlink.NsFd(b.file.Fd()),
		})
	})
	a.up(nameA)
	b.up(nameB)
}

func (n *namespace) up(name string) {
	n.t.Helper()
	n.withLink(name, netlink.LinkSetUp)
}

func (n *namespace) withLink(name string, f func(netlink.Link) error) {
	n.t.Helper()
	n.do(func() error {
		l, err := netlink.LinkByName(name)
		if err != nil {
			return fmt.Errorf("find %s: %w", name, err)
		}
		return f(l)
	})
}

// addr gives an interface an address with a prefix length.
func (n *namespace) addr(name, prefix string) {
	n.t.Helper()
	p := netip.MustParsePrefix(prefix)
	n.withLink(name, func(l netlink.Link) error {
		return netlink.AddrAdd(l, &netlink.Addr{IPNet: ipNet(p), Flags: nodad(p)})
	})
}

// route adds a route; dst "default4" and "default6" are the default routes.
func (n *namespace) route(dst, via, dev string, metric int) {
	n.t.Helper()
	n.withLink(dev, func(l netlink.Link) error {
		r := &netlink.Route{LinkIndex: l.Attrs().Index, Priority: metric}
		switch dst {
		case "default4":
			dst = "0.0.0.0/0"
		case "default6":
			dst = "::/0"
		}
		r.Dst = ipNet(netip.MustParsePrefix(dst))
		if via != "" {
			r.Gw = net.IP(netip.MustParseAddr(via).AsSlice())
		} else if r.Dst.IP.To4() != nil {
			r.Scope = netlink.SCOPE_LINK
		}
		return netlink.RouteAppend(r)
	})
}

// tun makes a TUN device that lives until the test ends, and returns its index.
func (n *namespace) tun(name string, persist bool) int {
	n.t.Helper()
	link := &netlink.Tuntap{
		LinkAttrs: netlink.LinkAttrs{Name: name},
		Mode:      netlink.TUNTAP_MODE_TUN, Flags: netlink.TUNTAP_NO_PI, NonPersist: !persist, Queues: 1,
	}
	n.do(func() error { return netlink.LinkAdd(link) })
	n.t.Cleanup(func() {
		for _, f := range link.Fds {
			_ = f.Close()
		}
	})
	return link.Index
}

func prefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }
func addr(s string) netip.Addr     { return netip.MustParseAddr(s) }
