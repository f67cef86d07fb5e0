package etcd_test

import (
	"bytes"
	"context"
	"flag"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"flanx/control"
	"flanx/control/controltest"
	"flanx/control/embedetcd"
	"flanx/control/etcd"
)

// TestMain lets more tests run at once than there are processors: they wait most
// of the time, for leases to run out and lines to be missed.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", parallel); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

const prefix = etcd.DefaultPrefix

// embedded starts an etcd for one test.
func embedded(t *testing.T) *embedetcd.Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	s, err := embedetcd.Start(ctx, embedetcd.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// raw is a client that knows nothing of leases.
type raw struct {
	t *testing.T
	*clientv3.Client
}

func dial(t *testing.T, url string) raw {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{url}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return raw{t, c}
}

// ctx bounds one raw request.
func (r raw) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	r.t.Cleanup(cancel)
	return ctx
}

func subnetKey(key string) string { return prefix + "/subnets/" + key }

func (r raw) put(key, value string, opts ...clientv3.OpOption) {
	r.t.Helper()
	if _, err := r.Put(r.ctx(), key, value, opts...); err != nil {
		r.t.Fatal(err)
	}
}

func (r raw) delete(key string, opts ...clientv3.OpOption) {
	r.t.Helper()
	if _, err := r.Delete(r.ctx(), key, opts...); err != nil {
		r.t.Fatal(err)
	}
}

func (r raw) get(key string, opts ...clientv3.OpOption) *clientv3.GetResponse {
	r.t.Helper()
	resp, err := r.Get(r.ctx(), key, opts...)
	if err != nil {
		r.t.Fatal(err)
	}
	return resp
}

func (r raw) putFor(key, value string, ttl time.Duration) {
	r.t.Helper()
	l, err := r.Grant(r.ctx(), int64(ttl.Seconds()))
	if err != nil {
		r.t.Fatal(err)
	}
	r.put(key, value, clientv3.WithLease(l.ID))
}

// compact makes every old revision unusable.
func (r raw) compact() {
	r.t.Helper()
	rev := r.get("x").Header.Revision
	if _, err := r.Compact(r.ctx(), rev, clientv3.WithCompactPhysical()); err != nil {
		r.t.Fatal(err)
	}
}

// logs collects what a Store says.
type logs struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// count is how many lines hold the text.
func (l *logs) count(text string) (n int) {
	for line := range strings.Lines(l.String()) {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// lines is how many lines there are.
func (l *logs) lines() int { return l.count("") }

// open makes a Store with quick times; change may alter the configuration.
func open(t *testing.T, url string, change func(*etcd.Config)) (*etcd.Store, *logs) {
	t.Helper()
	l := &logs{}
	cfg := etcd.Config{
		Endpoints: []string{url},
		Log:       slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Heartbeat: 200 * time.Millisecond,
		Verify:    500 * time.Millisecond,
	}
	if change != nil {
		change(&cfg)
	}
	s, err := etcd.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s, l
}

// sourceWorld lets the suite work on the etcd at url.
func sourceWorld(t *testing.T, url string) controltest.World {
	r := dial(t, url)
	p := controltest.NewProxy(t, url)
	s, _ := open(t, p.URL(), nil)
	return controltest.World{
		Source:    s,
		SetConfig: func(value string) { r.put(prefix+"/config", value) },
		Put:       func(key, value string) { r.put(subnetKey(key), value) },
		Delete:    func(key string) { r.delete(subnetKey(key)) },
		Interrupt: func(during func()) {
			p.Cut()
			during()
			r.compact()
			p.Heal()
		},
	}
}

func leaserWorld(t *testing.T, url string) controltest.LeaserWorld {
	r := dial(t, url)
	return controltest.LeaserWorld{
		Open: func(ttl time.Duration) control.Leaser {
			s, _ := open(t, url, func(c *etcd.Config) { c.TTL = ttl })
			return s
		},
		Put:    func(key, value string) { r.put(subnetKey(key), value) },
		PutFor: func(key, value string, ttl time.Duration) { r.putFor(subnetKey(key), value, ttl) },
		Delete: func(key string) { r.delete(subnetKey(key)) },
		Get: func(key string) (value string, found, reserved bool) {
			resp := r.get(subnetKey(key))
			if len(resp.Kvs) == 0 {
				return "", false, false
			}
			return string(resp.Kvs[0].Value), true, resp.Kvs[0].Lease == 0
		},
		Keys: func() (keys []string) {
			for _, kv := range r.get(subnetKey(""), clientv3.WithPrefix()).Kvs {
				keys = append(keys, strings.TrimPrefix(string(kv.Key), subnetKey("")))
			}
			return keys
		},
		Compact: r.compact,
	}
}

func TestSourceEmbedded(t *testing.T) {
	t.Parallel()
	controltest.Sources(t, func(t *testing.T) controltest.World { return sourceWorld(t, embedded(t).URL()) })
}

func TestLeaserEmbedded(t *testing.T) {
	t.Parallel()
	controltest.Leasers(t, func(t *testing.T) controltest.LeaserWorld { return leaserWorld(t, embedded(t).URL()) })
}

func TestSourceProcess(t *testing.T) {
	t.Parallel()
	p := controltest.StartProcess(t)
	controltest.Sources(t, func(t *testing.T) controltest.World {
		dial(t, p.URL).delete(prefix, clientv3.WithPrefix())
		return sourceWorld(t, p.URL)
	})
}

func TestLeaserProcess(t *testing.T) {
	t.Parallel()
	controltest.StartProcess(t).Kill() // skips once, here
	controltest.Leasers(t, func(t *testing.T) controltest.LeaserWorld {
		return leaserWorld(t, controltest.StartProcess(t).URL)
	})
}

// eventually waits for what comes in milliseconds.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("not seen: %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// node is the n-th node's key and value.
func node(n int) (key, value string) {
	l := controltest.Node(n)
	return subnetKey(controltest.Key(l)), controltest.Value(l)
}
