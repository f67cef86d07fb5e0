package main

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"time"

	"flanx/perf/lab"
)

// trial counts what was held.
type trial struct {
	ctx            context.Context
	lab            *lab.Lab
	nodes          []*node
	passed, failed int
}

// node is one host with its card, and the flanxd on it.
type node struct {
	host    *lab.Host
	card    string
	overlay netip.Addr // the host's own address in the overlay
	daemon  *lab.Process
	log     safeBuffer
}

// safeBuffer is a log that is read while it is written.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func (s *safeBuffer) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.b.Reset()
}

// check prints and counts one verdict.
func (t *trial) check(what string, err error) bool {
	if err != nil {
		t.failed++
		fmt.Printf("FAIL %s: %v\n", what, err)
		return false
	}
	t.passed++
	fmt.Printf("PASS %s\n", what)
	return true
}

// run makes the hosts and holds what is expected of them.
func (t *trial) run(refusal bool) {
	if !t.check("two hosts, each with a virtio card", t.build()) {
		return
	}
	defer func() { _ = t.lab.Close() }()
	if refusal {
		t.refusal()
		return
	}
	for _, encap := range []string{"vxlan", "udp"} {
		t.zeroCopy(encap)
	}
}

func (t *trial) build() (err error) {
	if t.lab, err = lab.New(t.ctx, lab.Options{}); err != nil {
		return err
	}
	for i, name := range []string{"a", "b"} {
		h, err := t.lab.Host(name)
		if err != nil {
			return err
		}
		n := &node{host: h, card: fmt.Sprintf("eth%d", i), overlay: netip.AddrFrom4([4]byte{10, 5, byte(i + 1), 0})}
		underlay := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 99, 0, byte(i + 1)}), 24)
		if err := h.Adopt(n.card, underlay); err != nil {
			return err
		}
		t.nodes = append(t.nodes, n)
	}
	return nil
}

// clusters are the static configuration of both nodes, by encapsulation.
var clusters = map[string]string{
	"udp": `{
  "network": {"Network": "10.5.0.0/16", "Backend": {"Type": "udp"}},
  "nodes": [
    {"subnet": "10.5.1.0/24", "publicIP": "10.99.0.1"},
    {"subnet": "10.5.2.0/24", "publicIP": "10.99.0.2"}
  ]
}`,
	"vxlan": `{
  "network": {"Network": "10.5.0.0/16", "Backend": {"Type": "vxlan"}},
  "nodes": [
    {"subnet": "10.5.1.0/24", "publicIP": "10.99.0.1", "vtepMAC": "02:00:00:00:05:01"},
    {"subnet": "10.5.2.0/24", "publicIP": "10.99.0.2", "vtepMAC": "02:00:00:00:05:02"}
  ]
}`,
}

// start runs a flanxd on each node and waits until all are ready.
func (t *trial) start(encap, io string) error {
	file := filepath.Join(t.lab.Dir(), encap+".json")
	if err := os.WriteFile(file, []byte(clusters[encap]), 0o600); err != nil {
		return err
	}
	for _, n := range t.nodes {
		n.log.Reset()
		subnetFile := t.subnetFile(n)
		_ = os.Remove(subnetFile)
		args := []string{
			"-static-config", file, "-io", io, "-iface", n.card, "-subnet-file", subnetFile,
			"-state-file", "none", "-iptables-forward-rules=false",
		}
		var err error
		if n.daemon, err = n.host.Start(t.ctx, lab.Spec{Path: "/bin/flanxd", Args: args, Stderr: &n.log}); err != nil {
			return err
		}
	}
	for _, n := range t.nodes {
		if err := t.waitFor(n); err != nil {
			return err
		}
	}
	return nil
}

func (t *trial) subnetFile(n *node) string {
	return filepath.Join(t.lab.Dir(), n.host.Name()+".env")
}

// waitFor waits until a node has written its subnet file.
func (t *trial) waitFor(n *node) error {
	for {
		if _, err := os.Stat(t.subnetFile(n)); err == nil {
			return nil
		}
		select {
		case <-n.daemon.Done():
			return fmt.Errorf("flanxd on %s ended: %w\n%s", n.host.Name(), n.daemon.Wait(), n.log.String())
		case <-t.ctx.Done():
			return fmt.Errorf("flanxd on %s is not ready\n%s", n.host.Name(), n.log.String())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// stop ends all daemons; each must end well.
func (t *trial) stop() error {
	for _, n := range t.nodes {
		if err := n.daemon.Stop(20 * time.Second); err != nil {
			return fmt.Errorf("stop flanxd on %s: %w\n%s", n.host.Name(), err, n.log.String())
		}
	}
	return nil
}
