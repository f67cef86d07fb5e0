package xsk

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"flanx/dataplane/packet"
	"flanx/dataplane/xdpprog"
)

func errorsIsGone(err error) bool         { return errors.Is(err, packet.ErrPortGone) }
func errorsIsNotSupported(err error) bool { return errors.Is(err, ErrNotSupported) }

// TestReopenWithoutPause: the kernel lets go of a queue a little after close.
func TestReopenWithoutPause(t *testing.T) {
	r := newRig(t, "")
	prog := r.attach("va", addrA, xdpprog.Native)
	before := descriptors(t)
	for i := range 100 {
		pool, err := packet.NewPool(64, packet.FrameSize2K)
		if err != nil {
			t.Fatal(err)
		}
		p, err := r.try("va", Config{}, pool)
		if err != nil {
			t.Fatalf("open %d: %v", i, err)
		}
		if err := errors.Join(prog.Register(0, p.FD()), p.Close(), pool.Close()); err != nil {
			t.Fatal(err)
		}
	}
	expectDescriptors(t, before)
}

func TestQueueHeldByAnother(t *testing.T) {
	r := newRig(t, "")
	r.open("va", Config{}, newTestPool(t, 64, packet.FrameSize2K), nil)
	start := time.Now()
	_, err := r.try("va", Config{}, newTestPool(t, 64, packet.FrameSize2K))
	if !errors.Is(err, ErrQueueBusy) {
		t.Errorf("second socket: %v, want ErrQueueBusy", err)
	}
	if took := time.Since(start); took < bindPatience || took > 2*bindPatience {
		t.Errorf("gave up after %v, want about %v", took, bindPatience)
	}
}

// descriptors returns what this process has open, and how many ring mappings.
func descriptors(t *testing.T) map[string]bool {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	open := map[string]bool{}
	for _, e := range entries {
		if target, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && !strings.HasPrefix(target, "/proc/") {
			open[e.Name()+" "+target] = true
		}
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	open[fmt.Sprintf("%d socket mappings", strings.Count(string(maps), "socket:"))] = true
	return open
}

func expectDescriptors(t *testing.T, before map[string]bool) {
	t.Helper()
	for d := range descriptors(t) {
		if !before[d] {
			t.Errorf("left behind: %s", d)
		}
	}
}

// TestOpenUndoes fails each step of Open in turn: no descriptor, mapping or
// frame may be missing afterwards, and the queue is free.
func TestOpenUndoes(t *testing.T) {
	r := newRig(t, "")
	pool := newTestPool(t, 64, packet.FrameSize2K)
	cfg := Config{IfIndex: r.device("va").Index}
	b, err := newBudget(cfg, pool.Frames())
	if err != nil {
		t.Fatal(err)
	}
	var steps []string
	collect := func(step string) error { steps = append(steps, step); return nil }
	r.ns.Do(func() {
		p, err := open(&opener{cfg: cfg, budget: b, sizes: b.sizes(), pool: newTestPool(t, 64, packet.FrameSize2K), before: collect})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
	})
	if len(steps) < 7 {
		t.Fatalf("only the steps %q", steps)
	}
	injected := errors.New("injected")
	for _, bad := range steps {
		t.Run(bad, func(t *testing.T) {
			before := descriptors(t)
			r.ns.Do(func() {
				_, err := open(&opener{cfg: cfg, budget: b, sizes: b.sizes(), pool: pool, before: func(step string) error {
					if step == bad {
						return injected
					}
					return nil
				}})
				if !errors.Is(err, injected) || !strings.Contains(err.Error(), bad) {
					t.Errorf("open = %v, want the injected error with its step", err)
				}
			})
			expectDescriptors(t, before)
			if pool.Free() != pool.Frames() {
				t.Errorf("%d of %d frames free", pool.Free(), pool.Frames())
			}
		})
	}
	r.open("va", Config{}, pool, nil)
}

// TestOpenRefuses: what the kernel itself refuses is said in words that help.
func TestOpenRefuses(t *testing.T) {
	r := newRig(t, "")
	small := newTestPool(t, 64, packet.FrameSize2K)
	cases := map[string]struct {
		pool *packet.Pool
		cfg  Config
		is   error
		says string
	}{
		"no such queue":       {small, Config{IfIndex: r.device("va").Index, Queue: 5}, unix.EINVAL, "queue 5"},
		"no such interface":   {small, Config{IfIndex: 4711}, unix.ENODEV, "interface 4711"},
		"frames too large":    {newTestPool(t, 64, packet.FrameSize16K), Config{IfIndex: r.device("va").Index}, ErrConfig, "16384"},
		"nothing for batches": {small, Config{IfIndex: 1, FillTarget: 64}, ErrConfig, "64"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			before := descriptors(t)
			r.ns.Do(func() {
				if _, err := Open(c.cfg, c.pool); !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) {
					t.Errorf("Open = %v, want %v naming %q", err, c.is, c.says)
				}
			})
			expectDescriptors(t, before)
			if c.pool.Free() != c.pool.Frames() {
				t.Errorf("%d of %d frames free", c.pool.Free(), c.pool.Frames())
			}
		})
	}
}

// TestOpenWithoutPrivilege runs on a thread that gave its capabilities up.
func TestOpenWithoutPrivilege(t *testing.T) {
	r := newRig(t, "")
	index := r.device("va").Index
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit); err != nil {
		t.Fatal(err)
	}
	t.Run("no CAP_NET_RAW", func(t *testing.T) {
		err := r.openWithCaps(t, Config{IfIndex: index}, newTestPool(t, 64, packet.FrameSize2K))
		if !errors.Is(err, unix.EPERM) || !strings.Contains(err.Error(), "CAP_NET_RAW") {
			t.Errorf("Open = %v, want EPERM naming CAP_NET_RAW", err)
		}
	})
	t.Run("memory limit", func(t *testing.T) {
		frames := int(limit.Cur/packet.FrameSize2K) + 64
		if limit.Cur > 64<<20 {
			t.Skipf("RLIMIT_MEMLOCK is %d MiB here", limit.Cur>>20)
		}
		err := r.openWithCaps(t, Config{IfIndex: index}, newTestPool(t, frames, packet.FrameSize2K), unix.CAP_NET_RAW)
		if !errors.Is(err, unix.ENOBUFS) || !strings.Contains(err.Error(), "RLIMIT_MEMLOCK") {
			t.Errorf("Open = %v, want ENOBUFS naming RLIMIT_MEMLOCK", err)
		}
	})
	t.Run("CAP_NET_RAW is enough", func(t *testing.T) {
		err := r.openWithCaps(t, Config{IfIndex: index}, newTestPool(t, 64, packet.FrameSize2K), unix.CAP_NET_RAW)
		if err != nil {
			t.Errorf("Open = %v", err)
		}
	})
}

// openWithCaps opens and closes a port with only these capabilities.
func (r *rig) openWithCaps(t *testing.T, cfg Config, pool *packet.Pool, caps ...uint) error {
	t.Helper()
	ns, err := os.Open(r.ns.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET)
		if err == nil {
			err = dropTo(caps)
		}
		if err == nil {
			var p *Port
			if p, err = Open(cfg, pool); err == nil {
				err = p.Close()
			}
		}
		done <- err
	}()
	return <-done
}

func dropTo(caps []uint) error {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	for _, c := range caps {
		data[c/32].Effective |= 1 << (c % 32)
		data[c/32].Permitted |= 1 << (c % 32)
	}
	return unix.Capset(&hdr, &data[0])
}

func TestCloseTwice(t *testing.T) {
	_, a, _ := ends(t, xdpprog.Native, 64, Config{})
	if err := errors.Join(a.Close(), a.Close()); err != nil {
		t.Error(err)
	}
	if a.FD() != -1 {
		t.Errorf("FD = %d after Close", a.FD())
	}
}
