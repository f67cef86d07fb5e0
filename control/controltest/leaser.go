package controltest

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"flanx/control"
	"flanx/control/lease"
)

// shortTTL is the shortest that the stores of the tests grant.
const shortTTL = 2 * time.Second

// Leasers runs the suite for leasers; open makes an empty store.
func Leasers(t *testing.T, open func(t *testing.T) LeaserWorld) {
	for _, c := range []struct {
		name string
		run  func(*testing.T, LeaserWorld)
	}{
		{"acquire writes flannel's bytes", testAcquire},
		{"dual stack", testDualStack},
		{"find nothing", testFindNothing},
		{"reuse by public address", testReuse},
		{"reuse by proof under a new public address", testReuseByID},
		{"prefer", testPrefer},
		{"unfit lease is replaced", testUnfit},
		{"twelve at once in room for twelve", testRace},
		{"out of subnets", testOutOfSubnets},
		{"bad keys stay taken", testBadKeysTaken},
		{"reservation is used and stays one", testReservation},
		{"keep outlives the ttl", testKeepRenews},
		{"unkept lease runs out", testUnkept},
		{"deleted lease is made again", testDeleted},
		{"foreign overwrite is not fought", testOverwritten},
		{"garbage on our key is not fought", testGarbage},
		{"deleted and taken is lost", testTaken},
		{"covered by a wider lease is lost", testCovered},
		{"two nodes with one public address", testDuplicate},
		{"lease made a reservation stays one", testMadeReservation},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(t, open(t))
		})
	}
}

func network(t *testing.T, value string) lease.NetworkConfig {
	t.Helper()
	cfg, err := lease.ParseConfig([]byte(value))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func acquire(t *testing.T, l control.Leaser, cfg lease.NetworkConfig, attrs lease.Attrs, last lease.Lease) lease.Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	got, err := l.Acquire(ctx, cfg, attrs, last)
	if err != nil {
		t.Fatal(err)
	}
	if err := cfg.Fits(got.Subnets); err != nil {
		t.Fatal(err)
	}
	return got
}

// keep runs Keep until the test ends, and tells how it ended before.
func keep(t *testing.T, l control.Leaser, own lease.Lease) (ended <-chan error, changes func() []lease.Lease) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done, out := make(chan struct{}), make(chan error, 1)
	var mu sync.Mutex
	var seen []lease.Lease
	go func() {
		defer close(done)
		out <- l.Keep(ctx, own, func(l lease.Lease) {
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, l)
		})
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return out, func() []lease.Lease {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(seen)
	}
}

// expectLost waits for Keep to give up.
func expectLost(t *testing.T, ended <-chan error) {
	t.Helper()
	select {
	case err := <-ended:
		if !errors.Is(err, control.ErrLeaseLost) {
			t.Fatalf("Keep ended with %v, want %v", err, control.ErrLeaseLost)
		}
	case <-time.After(patience):
		t.Fatal("Keep goes on with a lost lease")
	}
}

func testAcquire(t *testing.T, w LeaserWorld) {
	attrs := Node(1).Attrs
	got := acquire(t, w.Open(0), network(t, Config), attrs, lease.Lease{})
	value, found, reserved := w.Get(Key(got))
	want := `{"PublicIP":"10.99.0.1","PublicIPv6":null,"BackendType":"vxlan","BackendData":{"VNI":1,"VtepMAC":"02:00:00:00:00:01"}}`
	if !found || reserved || value != want {
		t.Errorf("store has %s (found %v, reserved %v), want %s", value, found, reserved, want)
	}
	if left := time.Until(got.Expires); left < 23*time.Hour || left > 24*time.Hour {
		t.Errorf("lease ends in %s, want 24h", left)
	}
	if got.ID == 0 || got.Revision == 0 || got.Reserved || !got.Attrs.Equal(attrs) {
		t.Errorf("lease is %+v", got)
	}
	if keys := w.Keys(); len(keys) != 1 {
		t.Errorf("keys are %q, want one", keys)
	}
}

func testDualStack(t *testing.T, w LeaserWorld) {
	cfg := network(t, `{"Network":"10.5.0.0/16","EnableIPv6":true,"IPv6Network":"fd05::/48"}`)
	var all []lease.Subnets
	for n := range 3 {
		attrs := Node(n + 1).Attrs
		attrs.PublicIPv6 = netip.MustParseAddr(fmt.Sprintf("fd99::%d", n+1))
		got := acquire(t, w.Open(0), cfg, attrs, lease.Lease{})
		if key := Key(got); !strings.Contains(key, "&fd05:0:0:") || !strings.HasSuffix(key, "::-64") {
			t.Errorf("key is %s", key)
		}
		for _, other := range all {
			if other.Overlaps(got.Subnets) {
				t.Errorf("%s overlaps %s", got.Subnets, other)
			}
		}
		all = append(all, got.Subnets)
	}
}

func testFindNothing(t *testing.T, w LeaserWorld) {
	w.PutFor(Key(Node(7)), Value(Node(7)), time.Hour)
	_, found, err := w.Open(0).Find(t.Context(), network(t, Config), Node(1).Attrs.PublicIP, lease.Lease{})
	if err != nil || found {
		t.Errorf("Find says %v, %v about an unknown node", found, err)
	}
}

func testReuse(t *testing.T, w LeaserWorld) {
	cfg := network(t, Config)
	w.PutFor(Key(Node(7)), Value(Node(7)), time.Hour)
	w.PutFor(Key(Node(8)), Value(Node(8)), time.Hour)
	l := w.Open(0)
	prev, found, err := l.Find(t.Context(), cfg, Node(8).Attrs.PublicIP, lease.Lease{})
	if err != nil || !found || !prev.Equal(Node(8)) {
		t.Fatalf("Find = %+v, %v, %v, want node 8's", prev, found, err)
	}
	attrs := prev.Attrs
	attrs.BackendData = lease.VXLANData{VNI: 1, VtepMAC: lease.MAC{2, 9, 9, 9, 9, 9}}.Encode()
	got := acquire(t, l, cfg, attrs, lease.Lease{Subnets: Node(3).Subnets})
	if got.Subnets != Node(8).Subnets {
		t.Errorf("acquired %s, want the subnet from before", got.Subnets)
	}
	if value, _, _ := w.Get(Key(got)); !strings.Contains(value, "02:09:09:09:09:09") {
		t.Errorf("store has %s: not the new MAC", value)
	}
	if keys := w.Keys(); len(keys) != 2 {
		t.Errorf("keys are %q, want two", keys)
	}
}

func testReuseByID(t *testing.T, w LeaserWorld) {
	cfg := network(t, Config)
	first := acquire(t, w.Open(0), cfg, Node(1).Attrs, lease.Lease{})
	l := w.Open(0)
	last := lease.Lease{Subnets: first.Subnets, ID: first.ID}
	prev, found, err := l.Find(t.Context(), cfg, Node(2).Attrs.PublicIP, last)
	if err != nil || !found || prev.Subnets != first.Subnets {
		t.Fatalf("Find = %+v, %v, %v", prev, found, err)
	}
	got := acquire(t, l, cfg, Node(2).Attrs, last)
	if got.Subnets != first.Subnets {
		t.Errorf("acquired %s, want %s from before the address changed", got.Subnets, first.Subnets)
	}
	if value, _, _ := w.Get(Key(got)); value != Value(Node(2)) {
		t.Errorf("store has %s", value)
	}
}

func testPrefer(t *testing.T, w LeaserWorld) {
	cfg := network(t, Config)
	want := lease.Lease{Subnets: Node(77).Subnets}
	if got := acquire(t, w.Open(0), cfg, Node(1).Attrs, want); got.Subnets != want.Subnets {
		t.Errorf("acquired %s, want the free %s", got.Subnets, want.Subnets)
	}
	if got := acquire(t, w.Open(0), cfg, Node(2).Attrs, want); got.Subnets == want.Subnets {
		t.Errorf("acquired %s, which another node holds", got.Subnets)
	}
	outside := lease.Lease{Subnets: lease.Subnets{V4: netip.MustParsePrefix("10.6.1.0/24")}}
	acquire(t, w.Open(0), cfg, Node(3).Attrs, outside) // checks that it fits
}

func testUnfit(t *testing.T, w LeaserWorld) {
	old := Node(1)
	old.Subnets.V4 = netip.MustParsePrefix("10.9.1.0/24")
	w.PutFor(Key(old), Value(old), time.Hour)
	got := acquire(t, w.Open(0), network(t, Config), old.Attrs, lease.Lease{Subnets: old.Subnets})
	if keys := w.Keys(); len(keys) != 1 || keys[0] != Key(got) {
		t.Errorf("keys are %q, want only %s", keys, Key(got))
	}
}

func testRace(t *testing.T, w LeaserWorld) {
	const nodes = 12
	cfg := network(t, `{"Network":"10.5.0.0/16","SubnetMin":"10.5.1.0","SubnetMax":"10.5.12.0"}`)
	var wg sync.WaitGroup
	var got [nodes]lease.Lease
	var errs [nodes]error
	for n := range nodes {
		l := w.Open(0)
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			got[n], errs[n] = l.Acquire(ctx, cfg, Node(n+1).Attrs, lease.Lease{})
		})
	}
	wg.Wait()
	owner := map[lease.Subnets]int{}
	for n := range nodes {
		if errs[n] != nil {
			t.Errorf("node %d: %v", n+1, errs[n])
			continue
		}
		if other, taken := owner[got[n].Subnets]; taken {
			t.Errorf("nodes %d and %d share %s", other, n+1, got[n].Subnets)
		}
		owner[got[n].Subnets] = n + 1
		if value, _, _ := w.Get(Key(got[n])); value != Value(Node(n+1)) {
			t.Errorf("node %d holds %s, but the store says %s", n+1, got[n].Subnets, value)
		}
	}
	if keys := w.Keys(); len(keys) != nodes {
		t.Errorf("%d keys, want %d", len(keys), nodes)
	}
}

func testOutOfSubnets(t *testing.T, w LeaserWorld) {
	cfg := network(t, `{"Network":"10.5.0.0/27"}`) // /29: three to give out
	l := w.Open(0)
	var last lease.Lease
	for n := range 3 {
		last = acquire(t, l, cfg, Node(n+1).Attrs, lease.Lease{})
	}
	_, err := l.Acquire(t.Context(), cfg, Node(4).Attrs, lease.Lease{Subnets: last.Subnets})
	if !errors.Is(err, control.ErrOutOfSubnets) || !strings.Contains(err.Error(), "10.5.0.0/27") {
		t.Fatalf("a full network says %v", err)
	}
	w.Delete(Key(last))
	if got := acquire(t, l, cfg, Node(4).Attrs, lease.Lease{}); got.Subnets != last.Subnets {
		t.Errorf("acquired %s, want the one set free", got.Subnets)
	}
}

func testBadKeysTaken(t *testing.T, w LeaserWorld) {
	cfg := network(t, `{"Network":"10.5.0.0/16","SubnetMin":"10.5.1.0","SubnetMax":"10.5.6.0"}`)
	w.Put("10.5.1.0-33", "garbage")
	w.Put("10.5.2.9-24", Value(Node(2)))
	w.PutFor("10.5.3.0-24", "{", time.Hour)
	w.PutFor("10.5.4.0-25", Value(Node(4)), time.Hour)
	w.Put("garbage", "garbage")
	l := w.Open(0)
	got := map[string]bool{}
	for n := range 2 {
		got[Key(acquire(t, l, cfg, Node(n+21).Attrs, lease.Lease{Subnets: Node(3).Subnets}))] = true
	}
	if !got["10.5.5.0-24"] || !got["10.5.6.0-24"] {
		t.Errorf("acquired %v, want the two that no key stands on", got)
	}
	if _, err := l.Acquire(t.Context(), cfg, Node(23).Attrs, lease.Lease{}); !errors.Is(err, control.ErrOutOfSubnets) {
		t.Errorf("a third node got %v", err)
	}
}

func testReservation(t *testing.T, w LeaserWorld) {
	cfg := network(t, Config)
	w.Put(Key(Node(9)), `{"PublicIP":"10.99.0.9"}`)
	w.Put(Key(Node(10)), Value(Node(10)))
	l := w.Open(0)
	got := acquire(t, l, cfg, Node(9).Attrs, lease.Lease{})
	if got.Subnets != Node(9).Subnets || !got.Reserved || !got.Expires.IsZero() {
		t.Errorf("acquired %+v, want what was reserved for us, without an end", got)
	}
	ended, _ := keep(t, l, got)
	other := acquire(t, w.Open(0), cfg, Node(1).Attrs, lease.Lease{Subnets: Node(10).Subnets})
	if other.Subnets == Node(10).Subnets {
		t.Error("acquired what is reserved for another node")
	}
	time.Sleep(300 * time.Millisecond)
	for _, n := range []int{9, 10} {
		value, found, reserved := w.Get(Key(Node(n)))
		if !found || !reserved || value != Value(Node(n)) {
			t.Errorf("reservation %d is %s (found %v, reserved %v)", n, value, found, reserved)
		}
	}
	w.Put(Key(Node(9)), `{"PublicIP":"10.99.0.9"}`) // the operator, again
	eventually(t, "our attributes are put back", func() bool {
		value, _, reserved := w.Get(Key(Node(9)))
		return reserved && value == Value(Node(9))
	})
	w.Put(Key(Node(9)), `{"PublicIP":"10.99.0.99"}`)
	expectLost(t, ended)
}

func testKeepRenews(t *testing.T, w LeaserWorld) {
	l := w.Open(shortTTL)
	got := acquire(t, l, network(t, Config), Node(1).Attrs, lease.Lease{})
	before, _, _ := w.Get(Key(got))
	ended, changes := keep(t, l, got)
	eventually(t, "two renewals", func() bool { return len(changes()) >= 2 })
	time.Sleep(shortTTL)
	select {
	case err := <-ended:
		t.Fatal(err)
	default:
	}
	after, found, _ := w.Get(Key(got))
	if !found || after != before {
		t.Errorf("after its first end the lease is %s (found %v)", after, found)
	}
	for _, c := range changes() {
		if c.ID != got.ID || c.Revision != got.Revision {
			t.Errorf("renewal wrote the key: %+v, was %+v", c, got)
		}
		if !c.Expires.After(got.Expires) {
			t.Errorf("renewal left the end at %s", c.Expires)
		}
	}
}

func testUnkept(t *testing.T, w LeaserWorld) {
	got := acquire(t, w.Open(shortTTL), network(t, Config), Node(1).Attrs, lease.Lease{})
	eventually(t, "an unkept lease ends", func() bool { _, found, _ := w.Get(Key(got)); return !found })
}

func testDeleted(t *testing.T, w LeaserWorld) {
	l := w.Open(0)
	got := acquire(t, l, network(t, Config), Node(1).Attrs, lease.Lease{})
	ended, changes := keep(t, l, got)
	for i := range 3 {
		w.Delete(Key(got))
		eventually(t, "the lease is back", func() bool { return len(changes()) > i })
		value, found, reserved := w.Get(Key(got))
		if !found || reserved || value != Value(Node(1)) {
			t.Errorf("deleted lease came back as %s (found %v, reserved %v)", value, found, reserved)
		}
	}
	select {
	case err := <-ended:
		t.Error(err)
	default:
	}
}

func testOverwritten(t *testing.T, w LeaserWorld) {
	l := w.Open(0)
	got := acquire(t, l, network(t, Config), Node(1).Attrs, lease.Lease{})
	ended, _ := keep(t, l, got)
	w.PutFor(Key(got), Value(Node(2)), time.Hour)
	expectLost(t, ended)
	if value, _, _ := w.Get(Key(got)); value != Value(Node(2)) {
		t.Errorf("the other node's lease became %s", value)
	}
}

func testGarbage(t *testing.T, w LeaserWorld) {
	l := w.Open(0)
	got := acquire(t, l, network(t, Config), Node(1).Attrs, lease.Lease{})
	ended, _ := keep(t, l, got)
	w.Put(Key(got), "{")
	expectLost(t, ended)
	if value, _, _ := w.Get(Key(got)); value != "{" {
		t.Errorf("the key became %s", value)
	}
}

func testTaken(t *testing.T, w LeaserWorld) {
	l := w.Open(0)
	got := acquire(t, l, network(t, Config), Node(1).Attrs, lease.Lease{})
	w.Delete(Key(got)) // while nobody keeps it: we were away
	w.PutFor(Key(got), Value(Node(2)), time.Hour)
	w.Compact()
	ended, _ := keep(t, l, got)
	expectLost(t, ended)
	if value, _, _ := w.Get(Key(got)); value != Value(Node(2)) {
		t.Errorf("the other node's lease became %s", value)
	}
}

func testCovered(t *testing.T, w LeaserWorld) {
	l := w.Open(0)
	got := acquire(t, l, network(t, Config), Node(1).Attrs, lease.Lease{Subnets: Node(4).Subnets})
	w.Delete(Key(got))
	w.PutFor("10.5.4.0-23", Value(Node(2)), time.Hour)
	ended, _ := keep(t, l, got)
	expectLost(t, ended)
	if keys := w.Keys(); len(keys) != 1 {
		t.Errorf("keys are %q, want the other node's alone", keys)
	}
}

func testDuplicate(t *testing.T, w LeaserWorld) {
	cfg := network(t, Config)
	first := w.Open(0)
	got := acquire(t, first, cfg, Node(1).Attrs, lease.Lease{})
	ended, _ := keep(t, first, got)
	second := w.Open(0)
	again := acquire(t, second, cfg, Node(1).Attrs, lease.Lease{})
	if again.Subnets != got.Subnets {
		t.Fatalf("acquired %s, want %s of the same address", again.Subnets, got.Subnets)
	}
	expectLost(t, ended)
}

func testMadeReservation(t *testing.T, w LeaserWorld) {
	l := w.Open(shortTTL)
	got := acquire(t, l, network(t, Config), Node(1).Attrs, lease.Lease{})
	ended, changes := keep(t, l, got)
	w.Put(Key(got), Value(Node(1)))
	eventually(t, "the lease is known to be a reservation", func() bool {
		c := changes()
		return len(c) > 0 && c[len(c)-1].Reserved
	})
	time.Sleep(shortTTL + time.Second)
	select {
	case err := <-ended:
		t.Fatal(err)
	default:
	}
	if _, found, reserved := w.Get(Key(got)); !found || !reserved {
		t.Errorf("found %v, reserved %v, want both", found, reserved)
	}
}
