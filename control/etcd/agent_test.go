package etcd_test

import (
	"context"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"flanx/control"
	"flanx/control/controltest"
	"flanx/control/etcd"
	"flanx/control/lease"
)

// host is one node with an agent, a line to etcd that can be cut, and a table in
// place of the packet half.
type host struct {
	t     *testing.T
	n     int
	line  *controltest.Proxy
	state string

	agent *control.Agent
	store *etcd.Store
	stop  context.CancelFunc
	ended chan error

	mu      sync.Mutex
	peers   map[lease.Subnets]lease.Lease
	removed int
}

func newHost(t *testing.T, n int, url string) *host {
	h := &host{t: t, n: n, line: controltest.NewProxy(t, url), state: filepath.Join(t.TempDir(), "state.json")}
	h.start()
	t.Cleanup(func() { h.halt() })
	return h
}

func (h *host) start() {
	h.t.Helper()
	h.peers, h.removed = map[lease.Subnets]lease.Lease{}, 0
	h.store, _ = open(h.t, h.line.URL(), func(c *etcd.Config) {
		quick(c)
		c.TTL = 2 * time.Second
	})
	attrs := controltest.Node(h.n).Attrs
	h.agent = &control.Agent{
		Source: h.store, Leaser: h.store, PublicIP: attrs.PublicIP,
		Attrs: func(_ lease.NetworkConfig, prev lease.Attrs) (lease.Attrs, error) {
			if prev.BackendData != nil {
				return prev, nil
			}
			return attrs, nil
		},
		Apply:     h.apply,
		StateFile: h.state, Origin: "test", Grace: 10 * time.Second,
	}
	ctx, cancel := context.WithCancel(context.Background())
	h.stop, h.ended = cancel, make(chan error, 1)
	go func() { h.ended <- h.agent.Run(ctx) }()
}

// halt stops the agent and returns what Run did; a second call does nothing.
func (h *host) halt() (err error) {
	if h.agent == nil {
		return nil
	}
	h.stop()
	err = <-h.ended
	h.store.Close()
	h.agent = nil
	return err
}

func (h *host) apply(u lease.Update) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if u.Snapshot {
		for s := range h.peers {
			if !slices.ContainsFunc(u.Leases, func(l lease.Lease) bool { return l.Subnets == s }) {
				h.removed++
			}
		}
		h.peers = map[lease.Subnets]lease.Lease{}
	}
	for _, s := range u.Removed {
		delete(h.peers, s)
		h.removed++
	}
	for _, l := range u.Leases {
		h.peers[l.Subnets] = l
	}
	return nil
}

func (h *host) is(want control.State, peers int) {
	h.t.Helper()
	eventually(h.t, "node "+controltest.Node(h.n).Attrs.PublicIP.String()+" is "+want.String(), func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.agent.Status().State == want && len(h.peers) == peers
	})
}

func (h *host) subnets() lease.Subnets { return h.agent.Status().Lease.Subnets }

func TestAgentsThroughOutages(t *testing.T) {
	t.Parallel()
	srv := embedded(t)
	r := dial(t, srv.URL())
	r.put(prefix+"/config", controltest.Config)
	hosts := make([]*host, 3)
	for i := range hosts {
		hosts[i] = newHost(t, i+1, srv.URL())
	}
	var subnets []lease.Subnets
	for _, h := range hosts {
		h.is(control.Running, 2)
		subnets = append(subnets, h.subnets())
	}

	// Nobody reaches etcd for longer than the leases last.
	for _, h := range hosts {
		h.line.Cut()
	}
	for _, h := range hosts {
		h.is(control.Stale, 2)
	}
	eventually(t, "all leases run out", func() bool { return r.get(subnetKey(""), clientv3.WithPrefix()).Count == 0 })

	// One of them restarts meanwhile.
	time.Sleep(1100 * time.Millisecond) // the state file is written each second
	if err := hosts[1].halt(); err != nil {
		t.Fatal(err)
	}
	hosts[1].start()
	hosts[1].is(control.Stale, 2)
	if got := hosts[1].subnets(); got != subnets[1] {
		t.Errorf("without etcd node 2 started with %s, had %s", got, subnets[1])
	}

	for _, h := range hosts {
		h.line.Heal()
	}
	for i, h := range hosts {
		h.is(control.Running, 2)
		if got := h.subnets(); got != subnets[i] {
			t.Errorf("node %d has %s after the outage, had %s", i+1, got, subnets[i])
		}
	}
	eventually(t, "all leases are back", func() bool { return r.get(subnetKey(""), clientv3.WithPrefix()).Count == 3 })
	for i, h := range hosts {
		h.is(control.Running, 2)
		h.mu.Lock()
		if h.removed != 0 {
			t.Errorf("node %d removed %d peers over a common outage", i+1, h.removed)
		}
		h.mu.Unlock()
	}

	// The address in etcd decides: a foreign claim ends the node's agent.
	key, err := subnets[0].Key()
	if err != nil {
		t.Fatal(err)
	}
	r.putFor(subnetKey(key), controltest.Value(controltest.Node(9)), time.Hour)
	eventually(t, "the robbed node gives up", func() bool { return hosts[0].agent.Status().State == control.Lost })
	if s := hosts[0].agent.Status(); s.Reason == "" {
		t.Error("it does not say why")
	}
	hosts[1].is(control.Running, 2)
}
