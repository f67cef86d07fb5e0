package controltest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"flanx/control"
	"flanx/control/lease"
)

// Config is the network of the suites.
const Config = `{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan"}}`

// Sources runs the suite for sources; open makes an empty store.
func Sources(t *testing.T, open func(t *testing.T) World) {
	for _, c := range []struct {
		name string
		run  func(*testing.T, World)
	}{
		{"config", testConfig},
		{"first update is a snapshot", testFirstSnapshot},
		{"changes follow", testChanges},
		{"bad entries cost only themselves", testBadEntries},
		{"a lease goes bad and good again", testGoesBad},
		{"continuity lost", testInterrupt},
		{"context ends it", testContextEnds},
		{"apply ends it", testApplyEnds},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, open(t)) })
	}
}

// Node is the n-th node's lease: 10.5.n.0/24 at 10.99.0.n.
func Node(n int) lease.Lease {
	return lease.Lease{
		Subnets: lease.Subnets{V4: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 5, byte(n), 0}), 24)},
		Attrs: lease.Attrs{
			PublicIP:    netip.AddrFrom4([4]byte{10, 99, 0, byte(n)}),
			BackendType: "vxlan",
			BackendData: lease.VXLANData{VNI: 1, VtepMAC: lease.MAC{2, 0, 0, 0, 0, byte(n)}}.Encode(),
		},
	}
}

// Key is the key of a lease of the suite.
func Key(l lease.Lease) string {
	key, err := l.Subnets.Key()
	if err != nil {
		panic(err)
	}
	return key
}

// Value is the value of a lease of the suite.
func Value(l lease.Lease) string {
	b, err := json.Marshal(l.Attrs)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func (w World) put(leases ...lease.Lease) {
	for _, l := range leases {
		w.Put(Key(l), Value(l))
	}
}

func testConfig(t *testing.T, w World) {
	expect := func(value string, want error) {
		t.Helper()
		if value != "" {
			w.SetConfig(value)
		}
		_, err := w.Source.Config(t.Context())
		if !errors.Is(err, want) {
			t.Errorf("Config() of %.60q says %v, want %v", value, err, want)
		}
	}
	expect("", control.ErrNoConfig)
	expect(`{`, control.ErrBadConfig)
	expect(`{"Network":"10.5.0.0/16","Backend":{}}`, control.ErrBadConfig)
	expect(`{"Network":"10.5.0.0/16","x":"`+strings.Repeat("x", lease.MaxConfig)+`"}`, control.ErrBadConfig)
	expect(Config, nil)
	c, err := w.Source.Config(t.Context())
	if err != nil || c.BackendType != "vxlan" || c.Network.String() != "10.5.0.0/16" {
		t.Errorf("Config() = %+v, %v", c, err)
	}
}

func testFirstSnapshot(t *testing.T, w World) {
	w.SetConfig(Config)
	w.put(Node(1), Node(2))
	Observe(t, w.Source).Sees(t, Node(1), Node(2))
}

func testChanges(t *testing.T, w World) {
	w.SetConfig(Config)
	o := Observe(t, w.Source)
	o.Sees(t)
	w.put(Node(1))
	o.Sees(t, Node(1))
	w.put(Node(2), Node(3))
	o.Sees(t, Node(1), Node(2), Node(3))
	moved := Node(2)
	moved.Attrs = Node(22).Attrs
	w.put(moved)
	o.Sees(t, Node(1), moved, Node(3))
	w.Delete(Key(Node(1)))
	o.Sees(t, moved, Node(3))
	w.Delete(Key(Node(3)))
	w.Delete(Key(Node(2)))
	o.Sees(t)
	w.put(Node(1))
	o.Sees(t, Node(1))
}

// BadEntries are keys and values that are no leases.
var BadEntries = []struct{ Key, Value string }{
	{"garbage", "garbage"},
	{"10.5.101.0-24", `{`},
	{"10.5.102.0-24", `null`},
	{"10.5.103.0-24", `""`},
	{"10.5.104.0-24", ``},
	{"10.5.105.0-24", `{"PublicIP":7}`},
	{"10.5.106.0-24", `{"PublicIP":"0.0.0.0"}`},
	{"10.5.107.0-24", `{"PublicIP":"239.1.1.1"}`},
	{"10.5.108.0-33", `{"PublicIP":"10.99.0.8"}`},
	{"10.5.109.7-24", `{"PublicIP":"10.99.0.9"}`},
	{"10.5.110.0-24/sub", `{"PublicIP":"10.99.0.10"}`},
	{"10.5.111.0-24&what", `{"PublicIP":"10.99.0.11"}`},
	{"10.5.112.0-24", `{"PublicIP":"10.99.0.12","x":"` + strings.Repeat("x", lease.MaxValue) + `"}`},
	{"10.5.113.0-24", "{\"PublicIP\":\"10.99.0.13\n\x00\xff\"}"},
	{"foo\n\x1b[31m", `{"PublicIP":"10.99.0.14"}`},
}

func testBadEntries(t *testing.T, w World) {
	w.SetConfig(Config)
	half := len(BadEntries) / 2
	for _, e := range BadEntries[:half] {
		w.Put(e.Key, e.Value)
	}
	w.put(Node(1))
	o := Observe(t, w.Source)
	o.Sees(t, Node(1))
	for _, e := range BadEntries[half:] {
		w.Put(e.Key, e.Value)
	}
	w.put(Node(2))
	o.Sees(t, Node(1), Node(2))
	for _, e := range BadEntries {
		w.Delete(e.Key)
	}
	w.Delete(Key(Node(1)))
	o.Sees(t, Node(2))
}

func testGoesBad(t *testing.T, w World) {
	w.SetConfig(Config)
	w.put(Node(1), Node(2))
	o := Observe(t, w.Source)
	o.Sees(t, Node(1), Node(2))
	w.Put(Key(Node(1)), `{"PublicIP":"224.0.0.1"}`)
	o.Sees(t, Node(2))
	w.put(Node(1))
	o.Sees(t, Node(1), Node(2))
}

func testInterrupt(t *testing.T, w World) {
	if w.Interrupt == nil {
		t.Skip("this store does not lose continuity")
	}
	w.SetConfig(Config)
	w.put(Node(1), Node(2), Node(3))
	o := Observe(t, w.Source)
	o.Sees(t, Node(1), Node(2), Node(3))
	snapshots := o.Snapshots()
	moved := Node(2)
	moved.Attrs = Node(22).Attrs
	w.Interrupt(func() {
		w.Delete(Key(Node(1)))
		w.put(moved, Node(4))
	})
	o.Sees(t, moved, Node(3), Node(4))
	if o.Snapshots() == snapshots {
		t.Error("no snapshot after continuity was lost")
	}
	w.put(Node(5))
	o.Sees(t, moved, Node(3), Node(4), Node(5))
}

func testContextEnds(t *testing.T, w World) {
	w.SetConfig(Config)
	ctx, cancel := context.WithCancel(t.Context())
	seen := make(chan struct{}, 16)
	done := make(chan error, 1)
	go func() {
		done <- w.Source.Watch(ctx, func(lease.Update) error { seen <- struct{}{}; return nil })
	}()
	<-seen
	cancel()
	select {
	case err := <-done:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("Watch returned %v, want %v", err, context.Canceled)
		}
	case <-time.After(2 * time.Second):
		t.Error("Watch goes on for 2s after its context ended")
	}
}

func testApplyEnds(t *testing.T, w World) {
	w.SetConfig(Config)
	refusal := errors.New("no more room")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err := w.Source.Watch(ctx, func(lease.Update) error { return refusal })
	if !errors.Is(err, refusal) {
		t.Errorf("Watch returned %v, want the error of apply", err)
	}
}

// Observer follows a source and holds the table that its updates amount to.
type Observer struct {
	mu        sync.Mutex
	table     map[lease.Subnets]lease.Lease
	began     bool
	lost      bool
	snapshots int
	losses    int
	updates   int
	wrong     []string // against the contract of Watch
}

// Observe watches until the test ends, and fails it if Watch ends before, or
// breaks its contract.
func Observe(t *testing.T, s control.Source) *Observer {
	t.Helper()
	o := &Observer{table: map[lease.Subnets]lease.Lease{}}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Watch(ctx, o.apply) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Watch ended with %v", err)
		}
		for _, w := range o.wrong {
			t.Error(w)
		}
	})
	return o
}

func (o *Observer) apply(u lease.Update) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.updates++
	if u.Lost {
		if u.Snapshot || len(u.Leases)+len(u.Removed) > 0 {
			o.wrong = append(o.wrong, "an update with Lost carries leases")
		}
		o.lost = true
		o.losses++
		return nil
	}
	if !u.Snapshot && (o.lost || !o.began) {
		o.wrong = append(o.wrong, "changes came without a snapshot before them")
	}
	if u.Snapshot {
		o.began, o.lost = true, false
		o.snapshots++
		o.table = map[lease.Subnets]lease.Lease{}
	}
	for _, s := range u.Removed {
		delete(o.table, s)
	}
	for _, l := range u.Leases {
		o.table[l.Subnets] = l
	}
	return nil
}

// Snapshots is how many came so far.
func (o *Observer) Snapshots() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.snapshots
}

// Updates is how many came so far, of every kind.
func (o *Observer) Updates() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.updates
}

// Losses is how often the source said that the store is away.
func (o *Observer) Losses() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.losses
}

// Lost waits until the source says that the store is away.
func (o *Observer) Lost(t *testing.T) {
	t.Helper()
	eventually(t, "the store is told to be away", func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		return o.lost
	})
}

// Sees waits until the table is exactly these leases.
func (o *Observer) Sees(t *testing.T, want ...lease.Lease) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		missing := o.compare(want)
		if missing == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("in %s: %s", patience, missing)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func (o *Observer) compare(want []lease.Lease) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.began {
		return "no snapshot"
	}
	if o.lost {
		return "the store is away"
	}
	for _, l := range want {
		got, ok := o.table[l.Subnets]
		if !ok {
			return fmt.Sprintf("lease %s is missing", l.Subnets)
		}
		if !got.Attrs.Equal(l.Attrs) {
			return fmt.Sprintf("lease %s says %s at %s, want %s at %s",
				l.Subnets, got.Attrs.BackendData, got.Attrs.PublicIP, l.Attrs.BackendData, l.Attrs.PublicIP)
		}
	}
	if len(o.table) != len(want) {
		return fmt.Sprintf("%d leases, want %d", len(o.table), len(want))
	}
	return ""
}
