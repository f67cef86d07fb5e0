package control

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"flanx/control/lease"
)

// world is a store that does what the test says, in fake time. It is Source and
// Leaser at once.
type world struct {
	mu      sync.Mutex
	config  lease.NetworkConfig
	down    error // what every call answers, if set
	full    bool
	known   lease.Lease // what Find finds
	updates chan lease.Update
	lost    chan error // ends Keep
	renew   chan lease.Lease
	last    lease.Lease // what Acquire was told
	calls   int
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return &world{
		config:  testState(t).Config,
		updates: make(chan lease.Update), lost: make(chan error), renew: make(chan lease.Lease),
	}
}

func (w *world) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

func (w *world) Config(context.Context) (lease.NetworkConfig, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls++
	return w.config, w.down
}

func (w *world) Watch(ctx context.Context, apply func(lease.Update) error) error {
	for {
		select {
		case u := <-w.updates:
			if err := apply(u); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (w *world) Find(context.Context, lease.NetworkConfig, netip.Addr, lease.Lease) (lease.Lease, bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.known, !w.known.Subnets.IsZero(), w.down
}

func (w *world) Acquire(_ context.Context, _ lease.NetworkConfig, attrs lease.Attrs, last lease.Lease) (lease.Lease, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = last
	if w.full {
		return lease.Lease{}, fmt.Errorf("%w: all taken", ErrOutOfSubnets)
	}
	l := testLease(100)
	l.Attrs, l.ID, l.Expires = attrs, 77, time.Now().Add(24*time.Hour)
	return l, w.down
}

func (w *world) Keep(ctx context.Context, _ lease.Lease, changed func(lease.Lease)) error {
	for {
		select {
		case err := <-w.lost:
			return err
		case l := <-w.renew:
			changed(l)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// running is an agent in a bubble of fake time.
type running struct {
	*testing.T
	*Agent
	*world
	mu     sync.Mutex
	order  []string // of the hooks
	states []State
	prev   lease.Attrs
	log    bytes.Buffer
	ended  chan error
	stop   context.CancelFunc
}

// runAgent starts an agent; change may alter it before.
func runAgent(t *testing.T, w *world, change func(*Agent)) *running {
	t.Helper()
	r := &running{T: t, world: w, ended: make(chan error, 1)}
	r.Agent = &Agent{
		Source: w, Leaser: w, PublicIP: testLease(100).Attrs.PublicIP, Origin: "test",
		Log: slog.New(slog.NewTextHandler(&r.log, nil)),
		Attrs: func(_ lease.NetworkConfig, prev lease.Attrs) (lease.Attrs, error) {
			r.prev = prev
			if prev.BackendData != nil {
				return prev, nil
			}
			a := testLease(100).Attrs
			a.BackendType, a.BackendData = "vxlan", lease.VXLANData{VNI: 7, VtepMAC: lease.MAC{2}}.Encode()
			return a, nil
		},
		OnLease: func(_ context.Context, _ lease.NetworkConfig, own lease.Lease) error {
			r.note("lease " + own.Subnets.String())
			return nil
		},
		Apply: func(u lease.Update) error { r.note(formatUpdate(u)); return nil },
		OnStatus: func(st Status) {
			r.mu.Lock()
			defer r.mu.Unlock()
			if len(r.states) == 0 || r.states[len(r.states)-1] != st.State {
				r.states = append(r.states, st.State)
			}
		},
	}
	if change != nil {
		change(r.Agent)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r.stop = cancel
	go func() { r.ended <- r.Agent.Run(ctx) }()
	t.Cleanup(cancel)
	return r
}

func (r *running) note(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.order = append(r.order, what)
}

// saw compares what the hooks were called with since the last time.
func (r *running) saw(want ...string) {
	r.Helper()
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Equal(r.order, want) {
		r.Errorf("hooks saw %q, want %q", r.order, want)
	}
	r.order = nil
}

func (r *running) is(want State) {
	r.Helper()
	synctest.Wait()
	st := r.Status()
	if st.State != want || (st.Reason == "") != (want == Starting || want == Running) {
		r.Errorf("state is %s (%q), want %s", st.State, st.Reason, want)
	}
}

func (r *running) say(text string) {
	r.Helper()
	r.updates <- parseUpdate(r.T, text)
}

// finish stops the agent and returns what Run did.
func (r *running) finish() error {
	r.stop()
	return <-r.ended
}

func (r *running) logged(text string, want int) {
	r.Helper()
	synctest.Wait()
	if n := strings.Count(r.log.String(), text); n != want {
		r.Errorf("%q logged %d times, want %d:\n%s", text, n, want, r.log.String())
	}
}

func TestAgentStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := runAgent(t, newWorld(t), nil)
		r.saw("lease 10.5.100.0/24")
		r.is(Starting)
		r.say("all: +1 +100")
		r.saw("all: +1")
		r.is(Running)
		r.say("+2")
		r.say("-1")
		r.saw("+2", "-1")
		if st := r.Status(); st.Peers != 1 || st.Lease.ID != 77 || st.Config.BackendType != "vxlan" || st.Updated.IsZero() {
			t.Errorf("status is %+v", st)
		}
		renewed := r.Status().Lease
		renewed.Expires = renewed.Expires.Add(time.Hour)
		r.renew <- renewed
		synctest.Wait()
		if !r.Status().Lease.Expires.Equal(renewed.Expires) {
			t.Error("renewal is not in the status")
		}
		if err := r.finish(); err != nil {
			t.Errorf("Run returned %v", err)
		}
	})
}

func TestAgentWaitsForTheStore(t *testing.T) {
	for _, c := range []struct {
		name  string
		err   error
		state State
		calls [2]int // in a minute, at least and at most
	}{
		{"no store", fmt.Errorf("dial: %w", ErrUnavailable), NoStore, [2]int{12, 40}},
		{"no configuration", fmt.Errorf("key: %w", ErrNoConfig), NoConfig, [2]int{59, 62}},
		{"bad configuration", fmt.Errorf("key: %w", ErrBadConfig), BadConfig, [2]int{59, 62}},
		{"refused", errors.New("no"), NoSubnet, [2]int{12, 40}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.down = c.err
				r := runAgent(t, w, nil)
				time.Sleep(time.Minute)
				r.is(c.state)
				r.saw()
				r.logged("agent is degraded", 1)
				if w.calls < c.calls[0] || w.calls > c.calls[1] {
					t.Errorf("%d questions in a minute, want %d to %d", w.calls, c.calls[0], c.calls[1])
				}
				w.set(func() { w.down = nil })
				time.Sleep(6 * time.Second)
				r.saw("lease 10.5.100.0/24")
				r.say("all:")
				r.is(Running)
				if err := r.finish(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestAgentTellsEachBadConfigOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		r := runAgent(t, w, nil)
		_ = r.finish()
		w.down = fmt.Errorf("first: %w", ErrBadConfig)
		r = runAgent(t, w, nil)
		time.Sleep(10 * time.Second)
		w.set(func() { w.down = fmt.Errorf("second: %w", ErrBadConfig) })
		time.Sleep(10 * time.Second)
		synctest.Wait()
		r.logged("first", 1)
		r.logged("second", 1)
		if err := r.finish(); err != nil {
			t.Error(err)
		}
	})
}

func TestAgentWaitsForASubnet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.full = true
		r := runAgent(t, w, nil)
		time.Sleep(time.Minute)
		r.is(NoSubnet)
		r.logged("out of subnets", 1)
		w.set(func() { w.full = false })
		time.Sleep(6 * time.Second)
		r.saw("lease 10.5.100.0/24")
	})
}

func TestAgentKeepsWhatItSaidBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.known = testLease(100)
		w.known.Attrs.BackendData = lease.VXLANData{VNI: 7, VtepMAC: lease.MAC{2, 3, 4}}.Encode()
		r := runAgent(t, w, func(a *Agent) { a.Prefer = testLease(42).Subnets })
		synctest.Wait()
		if !r.prev.Equal(w.known.Attrs) || !r.Status().Lease.Attrs.Equal(w.known.Attrs) {
			t.Errorf("Attrs was told %+v, want the store's %+v", r.prev, w.known.Attrs)
		}
		if w.last.Subnets != testLease(42).Subnets {
			t.Errorf("Acquire was told %s, want the subnet file's", w.last.Subnets)
		}
	})
}

func TestAgentEndsWithItsHooks(t *testing.T) {
	refusal := errors.New("no")
	for _, c := range []struct {
		name   string
		change func(*Agent)
		say    string
	}{
		{"Attrs", func(a *Agent) {
			a.Attrs = func(lease.NetworkConfig, lease.Attrs) (lease.Attrs, error) { return lease.Attrs{}, refusal }
		}, ""},
		{"OnLease", func(a *Agent) {
			a.OnLease = func(context.Context, lease.NetworkConfig, lease.Lease) error { return refusal }
		}, ""},
		{"Apply", func(a *Agent) { a.Apply = func(lease.Update) error { return refusal } }, "all: +1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := runAgent(t, newWorld(t), c.change)
				if c.say != "" {
					r.say(c.say)
				}
				if err := <-r.ended; !errors.Is(err, refusal) {
					t.Errorf("Run returned %v", err)
				}
			})
		})
	}
}

func TestAgentStopsWhenTheLeaseIsLost(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(dir, "state.json")
		r := runAgent(t, newWorld(t), func(a *Agent) { a.StateFile = file })
		r.say("all: +1")
		time.Sleep(2 * time.Second)
		if s, err := loadState(file, "test"); err != nil || s.Own.Subnets != testLease(100).Subnets {
			t.Errorf("state file before: %+v, %v", s.Own, err)
		}
		r.lost <- fmt.Errorf("%w: node 2 has it", ErrLeaseLost)
		if err := <-r.ended; !errors.Is(err, ErrLeaseLost) {
			t.Errorf("Run returned %v", err)
		}
		r.is(Lost)
		s, err := loadState(file, "test")
		if err != nil || !s.Own.Subnets.IsZero() || len(s.Peers) != 1 {
			t.Errorf("state file after: own %s, %d peers, %v", s.Own.Subnets, len(s.Peers), err)
		}
	})
}

func TestAgentOutageWhileRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := runAgent(t, newWorld(t), nil)
		r.say("all: +1 +2")
		r.saw("lease 10.5.100.0/24", "all: +1 +2")
		r.say("lost")
		r.is(Stale)
		time.Sleep(25 * time.Hour)
		r.saw() // nothing is removed
		r.say("all: +1")
		r.is(Running)
		r.saw("all: +1 +2")
		if st := r.Status(); st.Peers != 2 || st.Held != 1 {
			t.Errorf("%d peers, %d held, want 2 and 1", st.Peers, st.Held)
		}
		time.Sleep(DefaultGrace + 2*time.Second)
		r.saw("-2")
		if st := r.Status(); st.Peers != 1 || st.Held != 0 {
			t.Errorf("%d peers, %d held, want 1 and 0", st.Peers, st.Held)
		}
	})
}

func TestAgentStoreLostBeforeTheFirstSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := runAgent(t, newWorld(t), nil)
		r.say("lost")
		r.is(NoStore)
		r.say("all: +1")
		r.is(Running)
		r.saw("lease 10.5.100.0/24", "all: +1")
	})
}

func TestAgentRefusedReleaseEndsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refusal := errors.New("no")
		r := runAgent(t, newWorld(t), func(a *Agent) {
			a.Apply = func(u lease.Update) error {
				if len(u.Removed) > 0 {
					return refusal
				}
				return nil
			}
		})
		r.say("all: +1")
		r.say("lost")
		r.say("all:")
		if err := <-r.ended; !errors.Is(err, refusal) {
			t.Errorf("Run returned %v", err)
		}
	})
}

// withState runs an agent that learns, stops it, and gives its state file.
func withState(t *testing.T, dir string) (file string) {
	t.Helper()
	file = filepath.Join(dir, "state.json")
	r := runAgent(t, newWorld(t), func(a *Agent) { a.StateFile = file })
	r.say("all: +1 +2")
	synctest.Wait()
	if err := r.finish(); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestAgentStartsWithoutTheStore(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		file := withState(t, dir)
		w := newWorld(t)
		w.down = fmt.Errorf("dial: %w", ErrUnavailable)
		r := runAgent(t, w, func(a *Agent) { a.StateFile = file })
		synctest.Wait()
		if len(r.order) != 2 || r.order[0] != "lease 10.5.100.0/24" || r.order[1] != "all: +1 +2" {
			t.Errorf("hooks saw %q", r.order)
		}
		r.order = nil
		r.is(Stale)
		r.logged("state file of", 1)
		if !r.prev.PublicIP.IsValid() || r.prev.BackendData == nil {
			t.Errorf("Attrs was told %+v, want what the state file says", r.prev)
		}
		time.Sleep(time.Hour)
		r.say("all: +1 +3") // the store is back; node 2 ran out
		r.is(Running)
		r.saw("all: +1 +2 +3")
		time.Sleep(DefaultGrace + 2*time.Second)
		r.saw("-2")
		if err := r.finish(); err != nil {
			t.Error(err)
		}
	})
}

func TestAgentDoesNotUseAStateThatDoesNotFit(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Agent)
		says   string
	}{
		{"other store", func(a *Agent) { a.Origin = "other" }, "state file not used"},
		{"subnet file says another subnet", func(a *Agent) { a.Prefer = testLease(42).Subnets }, "10.5.42.0/24"},
		{"subnet file agrees", func(a *Agent) { a.Prefer = testLease(100).Subnets }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				file := withState(t, dir)
				w := newWorld(t)
				w.down = ErrUnavailable
				r := runAgent(t, w, func(a *Agent) { a.StateFile = file; c.change(a) })
				time.Sleep(time.Minute)
				if c.says == "" {
					r.is(Stale)
					return
				}
				r.is(NoStore)
				r.saw()
				if !strings.Contains(r.log.String(), c.says) {
					t.Errorf("log does not say %q:\n%s", c.says, r.log.String())
				}
				if n := strings.Count(r.log.String(), "\n"); n > 4 {
					t.Errorf("%d log lines in a minute", n)
				}
			})
		})
	}
}

func TestAgentProvesItsFormerLease(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		file := withState(t, dir)
		w := newWorld(t)
		runAgent(t, w, func(a *Agent) { a.StateFile = file })
		synctest.Wait()
		if w.last.ID != 77 || w.last.Subnets != testLease(100).Subnets {
			t.Errorf("Acquire was told %+v, want the state file's lease", w.last)
		}
	})
}

func TestAgentStateFileThatCannotBeWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := runAgent(t, newWorld(t), func(a *Agent) { a.StateFile = "/nonexistent/state.json" })
		r.say("all: +1")
		time.Sleep(time.Minute)
		r.is(Running)
		r.logged("state file not written", 1)
	})
}

func TestAgentReportsChangedConfig(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		r := runAgent(t, w, nil)
		r.say("all:")
		time.Sleep(10 * time.Minute)
		r.logged("configuration changed", 0)
		w.set(func() { w.config.SubnetLen = 26 })
		time.Sleep(10 * time.Minute)
		r.logged("configuration changed", 1)
		w.set(func() { w.down = ErrUnavailable })
		time.Sleep(10 * time.Minute)
		w.set(func() { w.down = fmt.Errorf("deleted: %w", ErrNoConfig) })
		time.Sleep(10 * time.Minute)
		r.logged("configuration changed", 2)
		r.is(Running)
		if r.Status().Config.SubnetLen != 24 {
			t.Error("the configuration in use changed")
		}
	})
}

func TestAgentWithoutALeaserLooksOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := runAgent(t, newWorld(t), func(a *Agent) { a.Leaser, a.Attrs, a.PublicIP = nil, nil, netip.Addr{} })
		r.say("all: +1 +100")
		r.saw("all: +1 +100")
		r.is(Running)
	})
}

func TestAgentStopsQuickly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.down = ErrUnavailable
		r := runAgent(t, w, nil)
		time.Sleep(time.Minute)
		began := time.Now()
		if err := r.finish(); err != nil || time.Since(began) > time.Second {
			t.Errorf("Run returned %v after %s", err, time.Since(began))
		}
	})
}

func TestStateNames(t *testing.T) {
	for s := Starting; s <= Lost; s++ {
		if s.String() == "" || s.Ready() != (s == Running || s == Stale) {
			t.Errorf("state %d is %q, ready %v", s, s, s.Ready())
		}
	}
}
