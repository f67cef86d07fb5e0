package lab_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"flanx/perf/lab"
	"flanx/perf/lab/labtest"
)

// traces lists what a lab could leave on the machine: namespaces, scratch
// folders, and devices in the test's own namespace.
func traces(t *testing.T, prefix string) []string {
	t.Helper()
	var found []string
	for _, dir := range []string{"/run/netns", "/run/flanx-lab"} {
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), prefix) {
				found = append(found, filepath.Join(dir, e.Name()))
			}
		}
	}
	links, err := netlink.LinkList()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		found = append(found, "device "+l.Attrs().Name)
	}
	return found
}

func TestCloseLeavesNothing(t *testing.T) {
	labtest.NeedRoot(t)
	prefix := fmt.Sprintf("flanx-%d-", os.Getpid())
	before := traces(t, prefix)
	l, hosts := labtest.Hosts(t, lab.Wire{}, "a", "b", "c")
	if _, err := hosts[0].Pod("web"); err != nil {
		t.Fatal(err)
	}
	p, err := hosts[1].Start(t.Context(), lab.Spec{Path: "sleep", Args: []string{"60"}})
	if err != nil {
		t.Fatal(err)
	}
	// A grandchild in a session of its own escapes the process group.
	stray, err := hosts[2].Output(t.Context(), "sh", "-c", "setsid sleep 60 >/dev/null 2>&1 & echo $!")
	if err != nil {
		t.Fatal(err)
	}
	if got := len(traces(t, prefix)) - len(before); got != 6 { // 3 hosts, switch, pod, folder
		t.Errorf("lab shows as %d names, want 6: %v", got, traces(t, prefix))
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if after := traces(t, prefix); !slices.Equal(before, after) {
		t.Errorf("left behind: %v, before: %v", after, before)
	}
	select {
	case <-p.Done():
	case <-time.After(2 * time.Second):
		t.Error("the process outlived the lab")
	}
	if _, err := os.Stat("/proc/" + strings.TrimSpace(string(stray)) + "/ns/net"); err == nil {
		t.Error("the stray grandchild outlived the lab")
	}
	if err := l.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
	if _, err := l.Host("late"); !errors.Is(err, lab.ErrClosed) {
		t.Errorf("host on a closed lab: %v, want ErrClosed", err)
	}
	if err := hosts[0].Do(func() error { return nil }); !errors.Is(err, lab.ErrClosed) {
		t.Errorf("do on a closed lab: %v, want ErrClosed", err)
	}
	if _, err := hosts[0].Output(t.Context(), "true"); !errors.Is(err, lab.ErrClosed) {
		t.Errorf("start on a closed lab: %v, want ErrClosed", err)
	}
}

// The device list that "ip" would show must be only this test's business.
func TestCloseSeenByIP(t *testing.T) {
	labtest.NeedRoot(t)
	list := func() string {
		out, err := exec.Command("ip", "netns").CombinedOutput()
		if err != nil {
			labtest.Skip(t, "no iproute2: "+err.Error())
		}
		return string(out)
	}
	l := labtest.New(t)
	h, err := l.Host("seen")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(list(), h.Namespace()) {
		t.Errorf("ip netns does not list %s", h.Namespace())
	}
	if out, err := exec.Command("ip", "netns", "exec", h.Namespace(), "true").CombinedOutput(); err != nil {
		t.Errorf("ip netns exec: %v: %s", err, out)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(list(), h.Namespace()) {
		t.Errorf("ip netns still lists %s", h.Namespace())
	}
}

func TestContextClosesLab(t *testing.T) {
	labtest.NeedRoot(t)
	ctx, cancel := context.WithCancel(t.Context())
	l, err := lab.New(ctx, lab.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Host("a"); err != nil {
		t.Fatal(err)
	}
	cancel()
	deadline := time.Now().Add(5 * time.Second)
	for len(tracesOf(t, l.Prefix())) > 0 {
		if time.Now().After(deadline) {
			t.Fatalf("still there: %v", tracesOf(t, l.Prefix()))
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// tracesOf leaves out the machine's own devices.
func tracesOf(t *testing.T, prefix string) []string {
	t.Helper()
	return slices.DeleteFunc(traces(t, prefix), func(s string) bool { return strings.HasPrefix(s, "device ") })
}

func TestCloseAfterFailedConstruction(t *testing.T) {
	labtest.NeedRoot(t)
	tests := []struct {
		name string
		fail func(l *lab.Lab, a, b *lab.Host) error
	}{
		{"same host twice", func(l *lab.Lab, a, _ *lab.Host) error { _, err := l.Host(a.Name()); return err }},
		{"bad name", func(l *lab.Lab, _, _ *lab.Host) error { _, err := l.Host("No-Good"); return err }},
		{"long name", func(l *lab.Lab, _, _ *lab.Host) error { _, err := l.Host("abcdefghijkl"); return err }},
		{"wire with one end", func(l *lab.Lab, a, _ *lab.Host) error { return l.Connect(lab.Wire{}, a) }},
		{"wire to itself", func(l *lab.Lab, a, _ *lab.Host) error { return l.Connect(lab.Wire{}, a, a, a) }},
		{"mtu out of range", func(l *lab.Lab, a, b *lab.Host) error { return l.Connect(lab.Wire{MTU: 7}, a, b) }},
		{"queues out of range", func(l *lab.Lab, a, b *lab.Host) error { return l.Connect(lab.Wire{Queues: 1 << 20}, a, b) }},
		{"pod twice", func(_ *lab.Lab, a, _ *lab.Host) error {
			if _, err := a.Pod("p"); err != nil {
				return nil // the first must work: shown by the missing error
			}
			_, err := a.Pod("p")
			return err
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := labtest.New(t)
			a, err := l.Host("a")
			if err != nil {
				t.Fatal(err)
			}
			b, err := l.Host("b")
			if err != nil {
				t.Fatal(err)
			}
			if err := tt.fail(l, a, b); err == nil {
				t.Error("no error")
			} else {
				t.Log(err)
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
			if left := tracesOf(t, l.Prefix()+"-"); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

func TestDoIsolation(t *testing.T) {
	_, hosts := labtest.Hosts(t, lab.Wire{}, "a", "b")
	home := namespaceOfThread(t)
	addrs := func() (s string, err error) {
		list, err := netlink.AddrList(nil, netlink.FAMILY_V4)
		for _, a := range list {
			s += a.IP.String() + " "
		}
		return s, err
	}
	for i, h := range hosts {
		var got, nested string
		err := h.Do(func() (err error) {
			if got, err = addrs(); err != nil {
				return err
			}
			err = hosts[1-i].Do(func() (err error) { nested, err = addrs(); return err })
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(got, h.Addr().String()) || strings.Contains(got, hosts[1-i].Addr().String()) {
			t.Errorf("host %s has addresses %s", h.Name(), got)
		}
		if !strings.Contains(nested, hosts[1-i].Addr().String()) {
			t.Errorf("host %s, from inside %s, has addresses %s", hosts[1-i].Name(), h.Name(), nested)
		}
	}
	if now := namespaceOfThread(t); now != home {
		t.Errorf("thread is in %s after Do, was in %s", now, home)
	}
	boom := errors.New("boom")
	if err := hosts[0].Do(func() error { return boom }); !errors.Is(err, boom) {
		t.Errorf("Do returned %v, want fn's error", err)
	}
}

func TestDoComesBackAfterPanic(t *testing.T) {
	_, hosts := labtest.Hosts(t, lab.Wire{}, "a", "b")
	home := namespaceOfThread(t)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		_ = hosts[0].Do(func() error { panic("inside") })
	}()
	if now := namespaceOfThread(t); now != home {
		t.Errorf("thread is in %s after a panic, was in %s", now, home)
	}
}

func namespaceOfThread(t *testing.T) string {
	t.Helper()
	s, err := os.Readlink("/proc/thread-self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// talk sends one UDP datagram from a host to another.
func talk(t *testing.T, from, to *lab.Host, dst netip.Addr) error {
	t.Helper()
	var sink net.PacketConn
	err := to.Do(func() (err error) {
		sink, err = (&net.ListenConfig{}).ListenPacket(t.Context(), "udp", netip.AddrPortFrom(dst, 0).String())
		return err
	})
	if err != nil {
		return err
	}
	defer sink.Close()
	var src net.Conn
	err = from.Do(func() (err error) {
		src, err = (&net.Dialer{}).DialContext(t.Context(), "udp", sink.LocalAddr().String())
		return err
	})
	if err != nil {
		return err
	}
	defer src.Close()
	if _, err := src.Write([]byte("hello")); err != nil {
		return err
	}
	if err := sink.SetReadDeadline(time.Now().Add(3 * time.Second)); err != nil {
		return err
	}
	buf := make([]byte, 16)
	n, _, err := sink.ReadFrom(buf)
	if err == nil && string(buf[:n]) != "hello" {
		err = fmt.Errorf("got %q", buf[:n])
	}
	return err
}

func TestHostsReachEachOther(t *testing.T) {
	for _, names := range [][]string{{"a", "b"}, {"a", "b", "c"}} {
		t.Run(fmt.Sprintf("%d hosts", len(names)), func(t *testing.T) {
			_, hosts := labtest.Hosts(t, lab.Wire{}, names...)
			for _, from := range hosts {
				for _, to := range hosts {
					for _, dst := range []netip.Addr{to.Addr(), to.Addr6()} {
						if err := talk(t, from, to, dst); err != nil {
							t.Errorf("%s to %s: %v", from.Name(), dst, err)
						}
					}
				}
			}
		})
	}
}

func TestPodReachesOtherHost(t *testing.T) {
	l, hosts := labtest.Hosts(t, lab.Wire{}, "a", "b")
	pod, err := hosts[0].Pod("web")
	if err != nil {
		t.Fatal(err)
	}
	a := netip.MustParseAddr
	steps := []struct{ pod, gateway, subnet, via string }{
		{"10.244.1.2", "10.244.1.1", "10.244.1.0/24", hosts[0].Addr().String()},
		{"10.244.7.9", "10.244.7.1", "10.244.7.0/24", hosts[0].Addr().String()}, // again: the old one is gone
		{"fd44::2", "fd44::1", "fd44::/64", hosts[0].Addr6().String()},
	}
	for _, s := range steps {
		if err := pod.SetPodAddr(a(s.pod), a(s.gateway), 1400); err != nil {
			t.Fatal(err)
		}
		if out, err := hosts[1].Output(t.Context(), "ip", "route", "replace", s.subnet, "via", s.via); err != nil {
			t.Fatal(err, string(out))
		}
		if err := talk(t, hosts[1], pod.Host, a(s.pod)); err != nil {
			t.Errorf("host b to pod %s: %v", s.pod, err)
		}
		if dev, err := hosts[0].RouteDevice(a(s.pod)); err != nil || dev != "pod-web" {
			t.Errorf("route to pod %s leads to %q, %v", s.pod, dev, err)
		}
	}
	if dev, err := hosts[0].RouteDevice(a("10.244.1.2")); err == nil {
		t.Errorf("route to the pod's first address is still there: %s", dev)
	}
	if _, err := hosts[0].RouteDevice(hosts[1].Addr()); err != nil {
		t.Error(err)
	}
	if err := l.Connect(lab.Wire{}, pod.Host, hosts[1]); err == nil {
		t.Error("a pod was connected as a host")
	}
}

func TestSecondWire(t *testing.T) {
	l, hosts := labtest.Hosts(t, lab.Wire{MTU: 1600, Queues: 2}, "a", "b")
	if err := l.Connect(lab.Wire{MTU: 9000}, hosts...); err != nil {
		t.Fatal(err)
	}
	for dev, want := range map[string]struct{ mtu, queues int }{"eth0": {1600, 2}, "eth1": {9000, 1}} {
		for _, h := range hosts {
			err := h.Do(func() error {
				link, err := netlink.LinkByName(dev)
				if err != nil {
					return err
				}
				a := link.Attrs()
				if a.MTU != want.mtu || a.NumRxQueues != want.queues || a.NumTxQueues != want.queues {
					t.Errorf("%s %s: mtu %d, %d/%d queues, want %v", h.Name(), dev, a.MTU, a.NumRxQueues, a.NumTxQueues, want)
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		}
	}
	if err := talk(t, hosts[0], hosts[1], netip.MustParseAddr("10.99.1.2")); err != nil {
		t.Error(err)
	}
}
