package host

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"go.uber.org/goleak"

	"flanx/dataplane/fib"
	"flanx/encap"
	"flanx/perf/lab"
)

// followed is a NextHops that runs on a host of a lab, and what it told.
type followed struct {
	*NextHops
	tb   testing.TB
	host *lab.Host

	mu   sync.Mutex
	told map[netip.Addr]int
}

// promise is how soon a change must be known; the aim is a tenth of it.
const promise = time.Second

// follow starts a NextHops on the host's eth0 and checks at the end that it
// leaves no goroutine.
func follow(tb testing.TB, h *lab.Host) *followed {
	tb.Helper()
	ifIndex := linkIndex(tb, h, "eth0")
	before := goleak.IgnoreCurrent()
	f := &followed{tb: tb, host: h, told: map[netip.Addr]int{}}
	err := h.Do(func() (err error) {
		f.NextHops, err = NewNextHops(NextHopsConfig{IfIndex: ifIndex, Local4: h.Addr(), Local6: h.Addr6()})
		return err
	})
	if err != nil {
		tb.Fatalf("NewNextHops: %v", err)
	}
	f.Watch(f.hear)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	tb.Cleanup(func() {
		cancel()
		select {
		case err := <-done:
			if !errors.Is(err, context.Canceled) {
				tb.Errorf("Run ended with %v", err)
			}
		case <-time.After(5 * time.Second):
			tb.Error("Run did not end with its context")
		}
		if err := goleak.Find(before); err != nil {
			tb.Errorf("goroutines left: %v", err)
		}
	})
	return f
}

func (f *followed) hear(remotes []netip.Addr) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, a := range remotes {
		f.told[a]++
	}
}

func (f *followed) heard(a netip.Addr) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.told[a]
}

// within waits until the remote's NextHop is as wanted, and that it was told.
func (f *followed) within(limit time.Duration, remote netip.Addr, what string, ok func(fib.NextHop) bool) {
	f.tb.Helper()
	began := time.Now()
	for !ok(f.NextHop(remote)) {
		if time.Since(began) > limit {
			f.tb.Fatalf("%v is not %s after %v: %+v\n%s", remote, what, limit, f.NextHop(remote), f.show())
		}
		time.Sleep(time.Millisecond)
	}
	took := time.Since(began)
	for f.heard(remote) == 0 {
		if time.Since(began) > limit {
			f.tb.Fatalf("%v is %s, but nobody was told", remote, what)
		}
		time.Sleep(time.Millisecond)
	}
	f.tb.Logf("%v %s after %v", remote, what, took.Round(time.Millisecond))
}

// change runs a step and forgets what was told before it.
func (f *followed) change(step func()) {
	f.mu.Lock()
	clear(f.told)
	f.mu.Unlock()
	step()
}

// show returns the host's tables, for a failure's message.
func (f *followed) show() string {
	var out strings.Builder
	for _, what := range []string{"link", "neigh", "route", "-6 route"} {
		text, _ := f.host.Output(context.Background(), "ip", strings.Fields(what)...)
		fmt.Fprintf(&out, "ip %s:\n%s", what, text)
	}
	return out.String()
}

func known(mac encap.MAC) func(fib.NextHop) bool {
	return func(nh fib.NextHop) bool { return nh.Known && nh.MAC == mac && !nh.LocalMAC.IsZero() }
}

func unknown(nh fib.NextHop) bool { return !nh.Known && nh.MAC.IsZero() && nh.LocalMAC.IsZero() }

// ip runs ip(8) on a host.
func ip(tb testing.TB, h *lab.Host, args string) {
	tb.Helper()
	if out, err := h.Output(context.Background(), "ip", strings.Fields(args)...); err != nil {
		tb.Fatalf("ip %s on %s: %v\n%s", args, h.Name(), err, out)
	}
}

// sysctl sets a value under /proc/sys/net on a host.
func sysctl(tb testing.TB, h *lab.Host, name, value string) {
	tb.Helper()
	if err := h.Do(func() error { return os.WriteFile("/proc/sys/net/"+name, []byte(value), 0) }); err != nil {
		tb.Fatalf("sysctl on %s: %v", h.Name(), err)
	}
}

// talk sends a datagram, as the fallback does, so that the kernel resolves.
func talk(tb testing.TB, h *lab.Host, to netip.Addr) {
	tb.Helper()
	err := h.Do(func() error {
		conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(to, 9)))
		if err != nil {
			return err
		}
		defer conn.Close()
		_, err = conn.Write([]byte("x"))
		return err
	})
	if err != nil {
		tb.Fatalf("send from %s to %v: %v", h.Name(), to, err)
	}
}

func linkIndex(tb testing.TB, h *lab.Host, dev string) (index int) {
	tb.Helper()
	link(tb, h, dev, func(l netlink.Link) { index = l.Attrs().Index })
	return index
}

func macOfLink(tb testing.TB, h *lab.Host, dev string) (mac encap.MAC) {
	tb.Helper()
	link(tb, h, dev, func(l netlink.Link) { mac = encap.MAC(l.Attrs().HardwareAddr) })
	return mac
}

func link(tb testing.TB, h *lab.Host, dev string, fn func(netlink.Link)) {
	tb.Helper()
	err := h.Do(func() error {
		l, err := netlink.LinkByName(dev)
		if err == nil {
			fn(l)
		}
		return err
	})
	if err != nil {
		tb.Fatalf("find %s on %s: %v", dev, h.Name(), err)
	}
}

// quick makes neighbours of a host's eth0 stale after reachable/2 to
// reachable*3/2 without use, as the kernel's 30 s do, and has it probe them
// delay seconds after they are used then, thrice at most, 0.1 s apart.
func quick(tb testing.TB, h *lab.Host, reachable time.Duration, delay string) {
	tb.Helper()
	for _, family := range []string{"ipv4", "ipv6"} {
		dir := family + "/neigh/eth0/"
		sysctl(tb, h, dir+"base_reachable_time_ms", fmt.Sprint(reachable.Milliseconds()))
		sysctl(tb, h, dir+"delay_first_probe_time", delay)
		sysctl(tb, h, dir+"retrans_time_ms", "100")
	}
}

func macString(m encap.MAC) string { return net.HardwareAddr(m[:]).String() }

// batchFile runs many ip(8) commands in one process.
func batchFile(tb testing.TB, h *lab.Host, commands string) {
	tb.Helper()
	file := tb.TempDir() + "/batch"
	if err := os.WriteFile(file, []byte(commands), 0o600); err != nil {
		tb.Fatal(err)
	}
	ip(tb, h, "-force -batch "+file)
}
