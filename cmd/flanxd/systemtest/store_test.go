package systemtest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"flanx/perf/gen"
	"flanx/perf/lab"
	"flanx/perf/lab/labtest"
)

// otherEtcd is an etcd of its own kind in a host of its own, as an operator runs it.
type otherEtcd struct {
	*testing.T
	program string
	host    *lab.Host
	dir     string
	process *lab.Process
}

func newOtherEtcd(w *world, h *lab.Host) *otherEtcd {
	w.Helper()
	program := os.Getenv("FLANX_ETCD")
	if program == "" {
		program = "etcd"
	}
	program, err := exec.LookPath(program)
	if err != nil {
		labtest.Skip(w.T, "no etcd in PATH or FLANX_ETCD: apt-get install etcd-server")
	}
	e := &otherEtcd{T: w.T, program: program, host: h, dir: w.dir(h)}
	e.start()
	return e
}

func (e *otherEtcd) url() string { return fmt.Sprintf("http://%s:2379", e.host.Addr()) }

func (e *otherEtcd) start() {
	e.Helper()
	peer := fmt.Sprintf("http://%s:2380", e.host.Addr())
	log, err := os.Create(filepath.Join(e.dir, "etcd.log"))
	if err != nil {
		e.Fatal(err)
	}
	defer log.Close()
	e.process, err = e.host.Start(e.Context(), lab.Spec{
		Path: e.program, Stdout: log, Stderr: log, Env: []string{"ETCD_UNSUPPORTED_ARCH=arm64"},
		Args: []string{
			"--name=test", "--data-dir=" + filepath.Join(e.dir, "data"), "--logger=zap",
			"--listen-client-urls=" + e.url(), "--advertise-client-urls=" + e.url(),
			"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=test=" + peer,
		},
	})
	if err != nil {
		e.Fatal(err)
	}
}

// stop ends it without a word.
func (e *otherEtcd) stop() {
	e.Helper()
	if err := e.process.Signal(os.Kill); err != nil {
		e.Fatal(err)
	}
	_ = e.process.Wait() // "signal: killed"
}

// connect gives the world a client of that etcd.
func (w *world) connect(e *otherEtcd) {
	w.Helper()
	var err error
	if w.etcd, err = connectVia(e.host, e.url()); err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = w.etcd.Close() }) // says only that it was under way
}

// configure puts the network configuration, as soon as the etcd is there.
func (w *world) configure(config string) {
	w.Helper()
	eventually(w.T, patience, func() error {
		ctx, cancel := context.WithTimeout(w.Context(), 2*time.Second)
		defer cancel()
		_, err := w.etcd.Put(ctx, w.prefix+"/config", config)
		return err
	})
}

// An etcd in another process, of another version, on the other side of the wire;
// it goes away for longer than its clients' patience and comes back. No packet is
// lost by that, and what it learns afterwards reaches the nodes.
func TestSeparateEtcd(t *testing.T) {
	parallel(t)
	l, hosts := labtest.Hosts(t, lab.Wire{}, "ours", "peer", "store", "late")
	w := &world{T: t, lab: l, hosts: hosts, prefix: "/coreos.com/network"}
	store := newOtherEtcd(w, hosts[2])
	w.endpoint = store.url()
	w.connect(store)
	w.configure(vxlan)
	a, b := w.start(hosts[0]), w.start(hosts[1])
	reach(t, a.host, a.addr(), b.addr())
	if value, life := w.lease(a.subnet); value != vxlanLease(a.host.Addr(), vtepOf(w, value)) || life != ttl {
		t.Errorf("lease %s for %d s", value, life)
	}

	const count, interval = 80, 100 * time.Millisecond
	done := make(chan error, 1)
	go func() {
		res, err := gen.Ping(t.Context(), a.host.Do, gen.PingConfig{
			From: a.addr(), To: b.addr(), Count: count, Interval: interval, Timeout: 3 * time.Second,
		})
		if err == nil && !res.OK() {
			err = fmt.Errorf("%d of %d pings came back while etcd was away", res.Received, res.Sent)
		}
		done <- err
	}()
	time.Sleep(500 * time.Millisecond)
	store.stop()
	time.Sleep(count * interval * 3 / 4)
	store.start()
	if err := <-done; err != nil {
		t.Error(err)
	}

	c := w.start(hosts[3])
	reach(t, a.host, a.addr(), c.addr())
	for _, d := range []*daemon{a, b, c} {
		d.stop()
	}
}

// A node that starts while etcd is away waits for it, and says so.
func TestEtcdComesLate(t *testing.T) {
	parallel(t)
	l, hosts := labtest.Hosts(t, lab.Wire{}, "ours", "store")
	w := &world{T: t, lab: l, hosts: hosts, prefix: "/coreos.com/network", endpoint: "http://10.99.0.2:2379"}
	before := inspect(t, hosts[0])
	d := w.launch(hosts[0])
	eventually(t, patience, func() error { return says(d, "etcd at http://10.99.0.2:2379") })
	if now := inspect(t, hosts[0]); now != before {
		t.Errorf("without a lease the host became\n%s, it was\n%s", now, before)
	}
	d.stop()
	if now := inspect(t, hosts[0]); now != before {
		t.Errorf("left behind:\n%s, it was\n%s", now, before)
	}
	d = w.launch(hosts[0])
	store := newOtherEtcd(w, hosts[1])
	w.connect(store)
	eventually(t, patience, func() error { return says(d, w.prefix+"/config") })
	w.configure(udp)
	d.ready()
	d.stop()
}

// Without a store a restart goes on with what was known, and the overlay works.
func TestRestartWithoutStore(t *testing.T) {
	parallel(t)
	l, hosts := labtest.Hosts(t, lab.Wire{}, "ours", "peer", "store")
	w := &world{T: t, lab: l, hosts: hosts, prefix: "/coreos.com/network"}
	store := newOtherEtcd(w, hosts[2])
	w.endpoint = store.url()
	w.connect(store)
	w.configure(vxlan)
	a, b := w.start(hosts[0]), w.start(hosts[1])
	reach(t, a.host, a.addr(), b.addr())
	subnet := a.subnet
	store.stop()
	a.stop()
	a = w.launch(hosts[0]) // subnet.env stays: it and the state file must agree
	eventually(t, patience, func() error { return says(a, "way on the wire") })
	reach(t, a.host, node(subnet), b.addr())
	ping(t, b.host, b.addr(), node(subnet), 56)
	a.stop()
	b.stop()
}

func says(d *daemon, words string) error {
	if log := d.log(); !strings.Contains(log, words) {
		return fmt.Errorf("no %q in the log", words)
	}
	return nil
}
