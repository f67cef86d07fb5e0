package systemtest

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"flanx/perf/gen"
	"flanx/perf/lab"
)

// load keeps packets coming both ways until the test's part is over.
func load(t *testing.T, a, b *daemon) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for _, way := range [][2]*daemon{{a, b}, {b, a}} {
		wg.Go(func() {
			_, err := gen.Flood(ctx, way[0].host.Do, way[1].host.Do, gen.FloodConfig{
				From: netip.AddrPortFrom(way[0].addr(), 0), To: netip.AddrPortFrom(way[1].addr(), 0),
				Size: 200, Duration: time.Minute,
			})
			if err != nil && !errors.Is(err, context.Canceled) && !strings.Contains(err.Error(), "network is unreachable") {
				t.Logf("flood: %v", err) // the device may go under it
			}
		})
	}
	return func() { cancel(); wg.Wait() }
}

// SIGTERM under load: the daemon is gone in two seconds and the host is as it was,
// but for the lease and the files, which are kept.
func TestTerminate(t *testing.T) {
	parallel(t)
	for _, io := range []string{"native", "generic", "udp"} {
		t.Run(io, func(t *testing.T) {
			w := newWorld(t, lab.Wire{}, vxlan, "ours", "other")
			before := inspect(t, w.hosts[0])
			a, b := w.start(w.hosts[0], "-io", io, "-ip-masq"), w.start(w.hosts[1], "-io", io)
			reach(t, a.host, a.addr(), b.addr())
			value, _ := w.lease(a.subnet)
			stopLoad := load(t, a, b)
			time.Sleep(300 * time.Millisecond)
			a.stop()
			stopLoad()
			if after := inspect(t, a.host); after != before {
				t.Errorf("left behind:\n%s\nbefore:\n%s", after, before)
			}
			if now, life := w.lease(a.subnet); now != value || life != ttl {
				t.Errorf("lease %s for %d s, want %s kept", now, life, value)
			}
			if _, err := w.readEnv(a.host); err != nil {
				t.Errorf("subnet file not kept: %v", err)
			}
			b.stop()
		})
	}
}

// SIGKILL: the kernel takes the program and the device away, the host is reachable
// as before, and the next start gets the same subnet and cleans up the rest.
func TestKill(t *testing.T) {
	parallel(t)
	for _, io := range []string{"native", "generic"} {
		w := newWorld(t, lab.Wire{}, vxlan, "ours", "other")
		before := inspect(t, w.hosts[0])
		a, b := w.start(w.hosts[0], "-io", io), w.start(w.hosts[1], "-io", io)
		reach(t, a.host, a.addr(), b.addr())
		if !strings.Contains(show(t, a.host, "ip", "link", "show", "eth0"), "prog/xdp") {
			t.Error("ip link shows no XDP program while one is there: the test is blind")
		}
		stopLoad := load(t, a, b)
		time.Sleep(200 * time.Millisecond)
		a.kill()
		stopLoad()
		eventually(t, 5*time.Second, func() error {
			if link := show(t, a.host, "ip", "link"); strings.Contains(link, "xdp") || strings.Contains(link, "flannel0") {
				return fmt.Errorf("left behind:\n%s", link)
			}
			return nil
		})
		ping(t, a.host, a.host.Addr(), b.host.Addr(), 1472)
		old := a.subnet
		// In the other mode: a program left behind would be in its way.
		a = w.start(w.hosts[0], "-io", map[string]string{"native": "generic", "generic": "native"}[io])
		if a.subnet != old {
			t.Errorf("subnet %s after the kill, %s before", a.subnet, old)
		}
		reach(t, b.host, b.addr(), a.addr())
		a.stop()
		b.stop()
		if after := inspect(t, a.host); after != before {
			t.Errorf("left behind:\n%s\nbefore:\n%s", after, before)
		}
	}
}

// Twenty starts, one right after the other: each is granted the same way and the
// same subnet. (The kernel frees a queue of AF_XDP some time after it was closed.)
func TestRestarts(t *testing.T) {
	parallel(t)
	w := newWorld(t, lab.Wire{}, vxlan, "ours", "other")
	b := w.start(w.hosts[1])
	defer b.stop()
	var subnet netip.Prefix
	for i := range 20 {
		a := w.start(w.hosts[0])
		if way, why := a.granted(); way != "native copy" {
			t.Errorf("start %d: granted %s (%s)", i+1, way, why)
		}
		if subnet.IsValid() && a.subnet != subnet {
			t.Errorf("start %d: subnet %s, before %s", i+1, a.subnet, subnet)
		}
		subnet = a.subnet
		if i%2 == 0 {
			a.stop()
		} else {
			a.kill()
		}
	}
	a := w.start(w.hosts[0])
	reach(t, a.host, a.addr(), b.addr())
	a.stop()
}

// SIGHUP, which kills flanneld, is nothing to us.
func TestHangup(t *testing.T) {
	parallel(t)
	w := newWorld(t, lab.Wire{}, vxlan, "ours", "other")
	a, b := w.start(w.hosts[0]), w.start(w.hosts[1])
	hangUp(t, a)
	time.Sleep(200 * time.Millisecond)
	reach(t, a.host, a.addr(), b.addr())
	a.stop()
	b.stop()
}
