package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"flanx/control"
	"flanx/control/controltest"
	"flanx/control/embedetcd"
	"flanx/control/etcd"
	"flanx/control/lease"
)

// quick makes a Store notice a dead etcd soon.
func quick(c *etcd.Config) {
	c.RequestTimeout = time.Second
	c.Heartbeat = 100 * time.Millisecond
}

func acquire(t *testing.T, s *etcd.Store, n int) lease.Lease {
	t.Helper()
	cfg, err := lease.ParseConfig([]byte(controltest.Config))
	if err != nil {
		t.Fatal(err)
	}
	want := controltest.Node(n)
	got, err := s.Acquire(t.Context(), cfg, want.Attrs, lease.Lease{Subnets: want.Subnets})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// keep runs Keep until the test ends and returns how it ended before.
func keep(t *testing.T, s *etcd.Store, l lease.Lease, changed func(lease.Lease)) <-chan error {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	out, done := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(done)
		out <- s.Keep(ctx, l, changed)
	}()
	t.Cleanup(func() { cancel(); <-done })
	return out
}

// deadURL is where nobody listens.
func deadURL(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return "http://" + l.Addr().String()
}

func TestUnreachableAtStart(t *testing.T) {
	t.Parallel()
	url := deadURL(t)
	s, l := open(t, url, quick)
	_, err := s.Config(t.Context())
	if !errors.Is(err, control.ErrUnavailable) || !strings.Contains(err.Error(), url) {
		t.Errorf("Config says %v, want %v at %s", err, control.ErrUnavailable, url)
	}
	o := controltest.Observe(t, s)
	o.Lost(t)
	time.Sleep(2 * time.Second)
	if n := l.lines(); n != 1 || o.Losses() != 1 {
		t.Errorf("%d log lines and %d losses for one outage, want one each:\n%s", n, o.Losses(), l)
	}
	srv, err := embedetcd.Start(t.Context(), embedetcd.Config{Listen: url})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(); srv.Close() })
	r := dial(t, url)
	key, value := node(1)
	r.put(key, value)
	o.Sees(t, controltest.Node(1))
	if n := l.count("is back"); n != 1 {
		t.Errorf("return of etcd logged %d times:\n%s", n, l)
	}
}

func TestSecondEndpointServes(t *testing.T) {
	t.Parallel()
	srv := embedded(t)
	key, value := node(1)
	dial(t, srv.URL()).put(key, value)
	s, l := open(t, deadURL(t), func(c *etcd.Config) { c.Endpoints = append(c.Endpoints, srv.URL()) })
	controltest.Observe(t, s).Sees(t, controltest.Node(1))
	if l.lines() != 0 {
		t.Errorf("a dead endpoint beside a live one was logged:\n%s", l)
	}
}

func TestFrozenLine(t *testing.T) {
	t.Parallel()
	srv := embedded(t)
	r := dial(t, srv.URL())
	p := controltest.NewProxy(t, srv.URL())
	s, l := open(t, p.URL(), quick)
	o := controltest.Observe(t, s)
	o.Sees(t)
	p.Freeze()
	o.Lost(t)
	key, value := node(1)
	r.put(key, value)
	p.Heal()
	o.Sees(t, controltest.Node(1))
	if n := l.lines(); n > 4 {
		t.Errorf("one outage made %d log lines:\n%s", n, l)
	}
}

func TestCompactionCostsOneList(t *testing.T) {
	t.Parallel()
	srv := embedded(t)
	r := dial(t, srv.URL())
	p := controltest.NewProxy(t, srv.URL())
	s, l := open(t, p.URL(), func(c *etcd.Config) { c.Heartbeat = time.Hour })
	o := controltest.Observe(t, s)
	o.Sees(t)
	p.Freeze() // the client goes on believing in its watch
	for n := range 200 {
		r.put(subnetKey("x"), fmt.Sprint(n))
	}
	key, value := node(1)
	r.put(key, value)
	r.compact()
	p.Cut()
	p.Heal()
	o.Sees(t, controltest.Node(1))
	snapshots := o.Snapshots()
	time.Sleep(time.Second)
	if snapshots > 3 || o.Snapshots() != snapshots {
		t.Errorf("%d snapshots, and %d a second later", snapshots, o.Snapshots())
	}
	if n := l.lines(); n > 6 {
		t.Errorf("%d log lines:\n%s", n, l)
	}
}

func TestWipedStore(t *testing.T) {
	t.Parallel()
	old, fresh := embedded(t), embedded(t)
	r := dial(t, old.URL())
	for n := range 50 { // the revision is far ahead of the new store's
		r.put("elsewhere", fmt.Sprint(n))
	}
	p := controltest.NewProxy(t, old.URL())
	s, l := open(t, p.URL(), quick)
	own := acquire(t, s, 1)
	ended := keep(t, s, own, nil)
	key2, value2 := node(2)
	r.put(key2, value2)
	o := controltest.Observe(t, s)
	o.Sees(t, controltest.Node(1), controltest.Node(2))

	p.Lead(fresh.URL())
	p.Cut()
	p.Heal()
	key3, value3 := node(3)
	f := dial(t, fresh.URL())
	f.put(key3, value3)
	o.Sees(t, controltest.Node(1), controltest.Node(3)) // ours came back by itself
	f.delete(key3)
	o.Sees(t, controltest.Node(1))
	if o.Losses() == 0 {
		t.Error("a wiped store was not told as a loss")
	}
	if l.count("wiped") > 2 {
		t.Errorf("log:\n%s", l)
	}
	select {
	case err := <-ended:
		t.Errorf("Keep ended: %v", err)
	default:
	}
}

func TestRestoredFromOlderRevision(t *testing.T) {
	t.Parallel()
	p := controltest.StartProcess(t)
	r := dial(t, p.URL)
	key, value := node(1)
	r.put(key, value)
	for n := range 50 {
		r.put("elsewhere", fmt.Sprint(n))
	}
	s, _ := open(t, p.URL, quick)
	o := controltest.Observe(t, s)
	o.Sees(t, controltest.Node(1))
	p.Kill()
	p.Wipe(t)
	p.Start(t)
	key, value = node(2)
	r.put(key, value) // a revision that the old watch will never reach
	o.Sees(t, controltest.Node(2))
}

func TestHungProcess(t *testing.T) {
	t.Parallel()
	p := controltest.StartProcess(t)
	r := dial(t, p.URL)
	s, _ := open(t, p.URL, func(c *etcd.Config) {
		quick(c)
		c.TTL = 2 * time.Second
	})
	key, value := node(2)
	r.put(key, value)
	own := acquire(t, s, 1)
	ended := keep(t, s, own, nil)
	o := controltest.Observe(t, s)
	o.Sees(t, controltest.Node(1), controltest.Node(2))
	p.Pause()
	o.Lost(t)
	time.Sleep(3 * time.Second) // our lease runs out
	p.Continue()
	o.Sees(t, controltest.Node(1), controltest.Node(2))
	time.Sleep(time.Second)
	o.Sees(t, controltest.Node(1), controltest.Node(2))
	select {
	case err := <-ended:
		t.Errorf("Keep ended: %v", err)
	default:
	}
}

func TestOutageLongerThanTTL(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		taken bool
	}{{"subnet still free", false}, {"subnet taken meanwhile", true}} {
		t.Run(c.name, func(t *testing.T) {
			srv := embedded(t)
			r := dial(t, srv.URL())
			p := controltest.NewProxy(t, srv.URL())
			s, l := open(t, p.URL(), func(c *etcd.Config) {
				quick(c)
				c.TTL = time.Second
			})
			own := acquire(t, s, 1)
			ended := keep(t, s, own, nil)
			key, value := node(1)
			_, other := node(2)
			p.Cut()
			eventually(t, "our lease runs out", func() bool { return len(r.get(key).Kvs) == 0 })
			if c.taken {
				r.putFor(key, other, time.Hour)
			}
			p.Heal()
			if c.taken {
				if err := <-ended; !errors.Is(err, control.ErrLeaseLost) || !strings.Contains(err.Error(), "10.99.0.2") {
					t.Errorf("Keep ended with %v", err)
				}
				if got := r.get(key); string(got.Kvs[0].Value) != other {
					t.Errorf("the other node's lease became %s", got.Kvs[0].Value)
				}
				return
			}
			eventually(t, "our lease is made again", func() bool {
				got := r.get(key)
				return len(got.Kvs) == 1 && string(got.Kvs[0].Value) == value && got.Kvs[0].Lease != 0
			})
			if n := l.count("cannot be renewed"); n != 1 {
				t.Errorf("the outage was logged %d times:\n%s", n, l)
			}
		})
	}
}

func TestFloodOfBadKeys(t *testing.T) {
	t.Parallel()
	srv := embedded(t)
	r := dial(t, srv.URL())
	for n := range 500 {
		r.put(subnetKey(fmt.Sprintf("bad-%d", n)), "garbage")
	}
	key, value := node(1)
	r.put(key, value)
	s, l := open(t, srv.URL(), func(c *etcd.Config) { c.Resync = 200 * time.Millisecond })
	o := controltest.Observe(t, s)
	o.Sees(t, controltest.Node(1))
	for n := range 500 {
		r.put(subnetKey("bad-0"), fmt.Sprint(n))
	}
	time.Sleep(time.Second)
	if n := l.lines(); n > 15 {
		t.Errorf("%d log lines", n)
	}
	if o.Updates() != 1 {
		t.Errorf("%d updates, want the snapshot alone", o.Updates())
	}
}

func TestBadKeyIsWarnedAboutOncePerRevision(t *testing.T) {
	t.Parallel()
	srv := embedded(t)
	r := dial(t, srv.URL())
	r.put(subnetKey("garbage"), "1")
	s, l := open(t, srv.URL(), func(c *etcd.Config) { c.Resync = 100 * time.Millisecond })
	controltest.Observe(t, s).Sees(t)
	time.Sleep(time.Second)
	if n := l.count("key ignored"); n != 1 {
		t.Errorf("%d warnings for one revision:\n%s", n, l)
	}
	r.put(subnetKey("garbage"), "2")
	eventually(t, "a warning for the next revision", func() bool { return l.count("key ignored") == 2 })
}

func TestNeighboursOfThePrefix(t *testing.T) {
	t.Parallel()
	srv := embedded(t)
	r := dial(t, srv.URL())
	s, l := open(t, srv.URL(), nil)
	o := controltest.Observe(t, s)
	o.Sees(t)
	_, value := node(1)
	r.put(prefix+"/subnets-old/10.5.1.0-24", value)
	r.put(prefix+"/subnets", value)
	r.put(prefix+"/subnet/10.5.1.0-24", value)
	key, value := node(2)
	r.put(key, value)
	o.Sees(t, controltest.Node(2))
	if o.Updates() != 2 || l.lines() != 0 {
		t.Errorf("%d updates, want two; log:\n%s", o.Updates(), l)
	}
}

func TestHugeValues(t *testing.T) {
	t.Parallel()
	srv := embedded(t)
	r := dial(t, srv.URL())
	huge := strings.Repeat("x", 1<<20)
	for n := range 20 { // more than one answer may hold
		r.put(subnetKey(fmt.Sprintf("10.5.%d.0-24", 100+n)), huge)
	}
	key, value := node(1)
	r.put(key, value)
	s, _ := open(t, srv.URL(), nil)
	o := controltest.Observe(t, s)
	o.Sees(t, controltest.Node(1))
	r.put(subnetKey("10.5.99.0-24"), huge)
	key, value = node(2)
	r.put(key, value)
	o.Sees(t, controltest.Node(1), controltest.Node(2))
}

func TestManyLeasesInPages(t *testing.T) {
	t.Parallel()
	srv := embedded(t)
	r := dial(t, srv.URL())
	_, value := node(1)
	var ops []clientv3.Op
	const count = 2500
	for n := range count {
		ops = append(ops, clientv3.OpPut(subnetKey(fmt.Sprintf("10.%d.%d.0-24", n/250, n%250)), value))
		if len(ops) == 125 {
			if _, err := r.Txn(r.ctx()).Then(ops...).Commit(); err != nil {
				t.Fatal(err)
			}
			ops = nil
		}
	}
	s, _ := open(t, srv.URL(), nil)
	var got lease.Update
	enough := errors.New("enough")
	err := s.Watch(t.Context(), func(u lease.Update) error { got = u; return enough })
	if !errors.Is(err, enough) || len(got.Leases) != count {
		t.Errorf("%d leases, %v, want %d", len(got.Leases), err, count)
	}
}

func TestNoConfigTellsWhatToDo(t *testing.T) {
	t.Parallel()
	srv := embedded(t)
	s, _ := open(t, srv.URL(), func(c *etcd.Config) { c.Prefix = "/other/net/" })
	_, err := s.Config(t.Context())
	for _, part := range []string{srv.URL(), "/other/net/config", "ETCDCTL_API=3 etcdctl put /other/net/config", "v3"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("message %q does not say %q", err, part)
		}
	}
}

func TestIPv6OnlyIsRefused(t *testing.T) {
	t.Parallel()
	srv := embedded(t)
	s, _ := open(t, srv.URL(), nil)
	cfg, err := lease.ParseConfig([]byte(`{"EnableIPv4":false,"EnableIPv6":true,"IPv6Network":"fd05::/48"}`))
	if err != nil {
		t.Fatal(err)
	}
	if l, err := s.Acquire(t.Context(), cfg, controltest.Node(1).Attrs, lease.Lease{}); !errors.Is(err, control.ErrBadConfig) {
		t.Errorf("acquired %+v, %v", l, err)
	}
}

func TestClosedStore(t *testing.T) {
	t.Parallel()
	srv := embedded(t)
	s, _ := open(t, srv.URL(), nil)
	s.Config(t.Context())
	for range 2 {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := s.Config(t.Context()); !errors.Is(err, etcd.ErrClosed) {
		t.Errorf("a closed store says %v", err)
	}
}

func TestLeaderLoss(t *testing.T) {
	t.Parallel()
	members := controltest.StartCluster(t, 3)
	leaderOf(t, members) // there is one
	s, _ := open(t, members[0].URL, func(c *etcd.Config) {
		quick(c)
		c.RequestTimeout = 2 * time.Second
		c.Endpoints = []string{members[0].URL, members[1].URL, members[2].URL}
		c.TTL = 10 * time.Second
		c.Margin = 9 * time.Second // a renewal each second
	})
	own := acquire(t, s, 1)
	renewed := make(chan struct{}, 100)
	ended := keep(t, s, own, func(lease.Lease) { renewed <- struct{}{} })
	o := controltest.Observe(t, s)
	o.Sees(t, controltest.Node(1))

	leader := leaderOf(t, members)
	leader.Kill()
	died := time.Now()
	other := members[0]
	if other == leader {
		other = members[1]
	}
	r := dial(t, other.URL)
	key, value := node(2)
	eventually(t, "a new leader takes writes", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		_, err := r.Put(ctx, key, value)
		return err == nil
	})
	written := time.Since(died)
	o.Sees(t, controltest.Node(1), controltest.Node(2))
	seen := time.Since(died)
	for len(renewed) > 0 {
		<-renewed
	}
	<-renewed
	if took := time.Since(died); took > 5*time.Second {
		t.Errorf("renewal %s after the leader died", took)
	}
	t.Logf("after the leader died: change written %s, seen %s, renewal %s", written, seen, time.Since(died))
	select {
	case err := <-ended:
		t.Errorf("Keep ended: %v", err)
	default:
	}
}

func leaderOf(t *testing.T, members []*controltest.Process) (leader *controltest.Process) {
	t.Helper()
	r := dial(t, members[0].URL)
	eventually(t, "a leader", func() bool {
		for _, m := range members {
			st, err := r.Status(r.ctx(), m.URL)
			if err == nil && st.Leader != 0 && st.Leader == st.Header.MemberId {
				leader = m
				return true
			}
		}
		return false
	})
	return leader
}
