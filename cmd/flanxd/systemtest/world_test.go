package systemtest

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"flanx/perf/gen"
	"flanx/perf/lab"
	"flanx/perf/lab/labtest"
)

// The overlay of every world.
const (
	network = "10.244.0.0/16"
	vxlan   = `{"Network":"10.244.0.0/16","Backend":{"Type":"vxlan"}}`
	udp     = `{"Network":"10.244.0.0/16","Backend":{"Type":"udp"}}`
)

// patience bounds every wait for something that must come, on a machine that
// does much else.
const patience = 20 * time.Second

// slots are for the tests that run side by side.
var slots = make(chan struct{}, 2)

// parallel lets the test run beside one other.
func parallel(t *testing.T) {
	t.Helper()
	labtest.NeedRoot(t)
	t.Parallel()
	slots <- struct{}{}
	t.Cleanup(func() { <-slots })
}

// world is hosts on one wire and a prefix of the store.
type world struct {
	*testing.T
	lab      *lab.Lab
	hosts    []*lab.Host
	prefix   string
	endpoint string
	etcd     *clientv3.Client
}

var worlds atomic.Int64

// newWorld makes hosts and puts the network configuration.
func newWorld(t *testing.T, w lab.Wire, config string, names ...string) *world {
	t.Helper()
	l, hosts := labtest.Hosts(t, w, names...)
	s := &world{
		T: t, lab: l, hosts: hosts, endpoint: endpoint, etcd: etcd,
		prefix: fmt.Sprintf("/world-%d/network", worlds.Add(1)),
	}
	s.put("config", config)
	return s
}

// within is the context of one request.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// put writes a key below the prefix, without an etcd lease.
func (w *world) put(key, value string, opts ...clientv3.OpOption) {
	w.Helper()
	if _, err := w.etcd.Put(within(w.T), w.prefix+"/"+key, value, opts...); err != nil {
		w.Fatalf("put %s: %v", key, err)
	}
}

// putLease writes a node's lease as flannel does, with 24 hours to live.
func (w *world) putLease(subnet netip.Prefix, value string) {
	w.Helper()
	grant, err := w.etcd.Grant(within(w.T), 24*60*60)
	if err != nil {
		w.Fatalf("grant lease: %v", err)
	}
	w.put("subnets/"+key(subnet), value, clientv3.WithLease(grant.ID))
}

// key is the last element of a lease's key: 10.5.72.0-24.
func key(subnet netip.Prefix) string { return strings.Replace(subnet.String(), "/", "-", 1) }

// leases returns all leases' keys and values as they stand in the store.
func (w *world) leases() map[string]string {
	w.Helper()
	resp, err := w.etcd.Get(within(w.T), w.prefix+"/subnets/", clientv3.WithPrefix())
	if err != nil {
		w.Fatalf("list leases: %v", err)
	}
	all := map[string]string{}
	for _, kv := range resp.Kvs {
		all[filepath.Base(string(kv.Key))] = string(kv.Value)
	}
	return all
}

// lease returns the value of one lease, and how many seconds it was granted.
func (w *world) lease(subnet netip.Prefix) (value string, ttl int64) {
	w.Helper()
	resp, err := w.etcd.Get(within(w.T), w.prefix+"/subnets/"+key(subnet))
	if err != nil || len(resp.Kvs) != 1 {
		w.Fatalf("read lease of %s: %v, %v", subnet, resp, err)
	}
	kv := resp.Kvs[0]
	if kv.Lease == 0 {
		return string(kv.Value), 0
	}
	life, err := w.etcd.TimeToLive(within(w.T), clientv3.LeaseID(kv.Lease))
	if err != nil {
		w.Fatalf("read time to live of %s: %v", subnet, err)
	}
	return string(kv.Value), life.GrantedTTL
}

// dir makes a folder for a host.
func (w *world) dir(h *lab.Host) string {
	w.Helper()
	dir := filepath.Join(w.lab.Dir(), h.Name())
	if err := os.MkdirAll(dir, 0o755); err != nil {
		w.Fatal(err)
	}
	return dir
}

// eventually waits until check is content.
func eventually(t *testing.T, limit time.Duration, check func() error) {
	t.Helper()
	for deadline := time.Now().Add(limit); ; time.Sleep(20 * time.Millisecond) {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not after %s: %v", limit, err)
		}
	}
}

// ip runs iproute2 commands inside a host, one per line.
func ip(t *testing.T, h *lab.Host, lines ...string) { t.Helper(); batch(t, h, "ip", lines) }

// bridge is the same for forwarding entries.
func bridge(t *testing.T, h *lab.Host, lines ...string) { t.Helper(); batch(t, h, "bridge", lines) }

func batch(t *testing.T, h *lab.Host, program string, lines []string) {
	t.Helper()
	var out strings.Builder
	p, err := h.Start(within(t), lab.Spec{
		Path: program, Args: []string{"-batch", "-"},
		Stdin: strings.NewReader(strings.Join(lines, "\n") + "\n"), Stdout: &out, Stderr: &out,
	})
	if err == nil {
		err = p.Wait()
	}
	if err != nil {
		t.Fatalf("%s on %s: %v\n%s\n%s", program, h.Name(), err, strings.Join(lines, "\n"), &out)
	}
}

// show runs a command inside a host and returns what it prints.
func show(t *testing.T, h *lab.Host, path string, args ...string) string {
	t.Helper()
	out, err := h.Output(within(t), path, args...)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// ping sends some requests and wants every one answered.
func ping(t *testing.T, h *lab.Host, from, to netip.Addr, size int) {
	t.Helper()
	res, err := gen.Ping(within(t), h.Do, gen.PingConfig{From: from, To: to, Count: 5, Size: size, Timeout: 3 * time.Second})
	if err != nil || !res.OK() {
		t.Errorf("ping from %s to %s with %d bytes: %d of %d came back, %d twice, %v", from, to, size, res.Received, res.Sent, res.Duplicates, err)
	}
}

// reach waits until a ping gets through.
func reach(t *testing.T, h *lab.Host, from, to netip.Addr) {
	t.Helper()
	eventually(t, patience, func() error {
		res, err := gen.Ping(within(t), h.Do, gen.PingConfig{From: from, To: to, Timeout: 200 * time.Millisecond})
		if err == nil && !res.OK() {
			err = fmt.Errorf("no answer to pings from %s to %s", from, to)
		}
		return err
	})
}

// transfer moves random bytes by TCP and wants them unchanged.
func transfer(t *testing.T, from, to *lab.Host, src, dst netip.Addr, bytes int) {
	t.Helper()
	res, err := gen.Transfer(within(t), from.Do, to.Do, gen.TransferConfig{
		From: netip.AddrPortFrom(src, 0), To: netip.AddrPortFrom(dst, 0), Bytes: bytes, Seed: uint64(time.Now().UnixNano()),
	})
	if err != nil || !res.Intact() {
		t.Errorf("transfer from %s to %s: %d of %d bytes, intact: %v, %v", src, dst, res.Bytes, bytes, res.Intact(), err)
	}
}

// node is the address that a node has on the overlay.
func node(subnet netip.Prefix) netip.Addr { return subnet.Masked().Addr() }

// podAddrs are the gateway's and the first pod's address of a subnet.
func podAddrs(subnet netip.Prefix) (gateway, pod netip.Addr) {
	gateway = node(subnet).Next()
	return gateway, gateway.Next()
}

// newPod adds a pod behind a host, with an address out of its subnet.
func newPod(t *testing.T, h *lab.Host, subnet netip.Prefix, mtu int) *lab.Pod {
	t.Helper()
	p, err := h.Pod("pod")
	if err == nil {
		gateway, pod := podAddrs(subnet)
		err = p.SetPodAddr(pod, gateway, mtu)
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}
