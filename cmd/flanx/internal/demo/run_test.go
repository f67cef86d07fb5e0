package demo_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"flanx/cmd/flanx/internal/demo"
	"flanx/perf/lab"
	"flanx/perf/lab/labtest"
)

// recorder is a demo.Progress.
type recorder struct {
	mu    sync.Mutex
	plan  int
	steps []string
	rows  []demo.Row
	hook  func(step string)
}

func (r *recorder) Plan(n int) { r.plan = n }

func (r *recorder) Step(text string) {
	r.mu.Lock()
	r.steps = append(r.steps, text)
	r.mu.Unlock()
	if r.hook != nil {
		r.hook(text)
	}
}

func (r *recorder) Row(row demo.Row) { r.rows = append(r.rows, row) }

func fake(t *testing.T, fault string) demo.Config {
	t.Helper()
	labtest.NeedRoot(t)
	t.Setenv(partEnv, "yes")
	t.Setenv(faultEnv, fault)
	program := standIn(t)
	return demo.Config{Bytes: 1 << 20, Flanxd: program, Etcd: []string{program, "etcd"}}
}

// mine lists what labs of this process are there.
func mine(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, dir := range []string{"/run/netns", "/run/flanx-lab"} {
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), fmt.Sprintf("flanx-%d-", os.Getpid())) {
				names = append(names, e.Name())
			}
		}
	}
	return names
}

func TestRunAllWell(t *testing.T) {
	c := fake(t, "")
	var p recorder
	rep, err := demo.Run(t.Context(), c, &p, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	if !rep.OK() || len(rep.Rows) != 6 || !slices.EqualFunc(rep.Rows, p.rows, func(a, b demo.Row) bool { return a.Encap+a.Asked == b.Encap+b.Asked }) {
		t.Errorf("%+v, told %+v", rep, p.rows)
	}
	for _, r := range rep.Rows {
		if r.Pings != 6 || r.PingsOK != 6 || !r.Intact || len(r.SHA256) != 64 || r.BitsPerSecond <= 0 || r.Granted == "" || r.Why != "fake" || r.Logs != nil {
			t.Errorf("%+v", r)
		}
	}
	if len(p.steps) != p.plan {
		t.Errorf("%d steps planned, %d told: %q", p.plan, len(p.steps), p.steps)
	}
	if left := mine(t); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestRunFailures(t *testing.T) {
	tests := []struct{ fault, failure, log string }{
		{"exit", "ended", "no such luck"},
		{"no lease", "gave up", "no lease"},
		{"late exit", "host2", "late exit"},
		{"bad file", "FLANNEL_SUBNET", "bad file"},
		{"deaf", "ping", "deaf"},
		{"other way", "asked for native, granted udp socket", "way on the wire"},
		{"mute", "", ""}, // the others told
		{"leaves device", "flannel0", "leaves device"},
	}
	for _, tt := range tests {
		t.Run(tt.fault, func(t *testing.T) {
			c := fake(t, tt.fault)
			c.Encaps, c.IOs, c.Hosts = []string{"udp"}, []string{"native"}, 2
			if tt.fault == "no lease" || tt.fault == "deaf" {
				c.Patience = time.Second
			}
			ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
			defer cancel()
			rep, err := demo.Run(ctx, c, &recorder{}, t.Output())
			if err != nil || len(rep.Rows) != 1 {
				t.Fatalf("%+v, %v", rep, err)
			}
			row := rep.Rows[0]
			if !strings.Contains(strings.ToLower(row.Failure), strings.ToLower(tt.failure)) || row.OK() != (tt.failure == "") {
				t.Errorf("failure %q, want one that names %q", row.Failure, tt.failure)
			}
			if log := strings.Join(row.Logs["host2"], "\n"); !strings.Contains(log, tt.log) {
				t.Errorf("log of host2 %q, want one with %q", log, tt.log)
			}
			if left := mine(t); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

func TestRunNoEtcd(t *testing.T) {
	c := fake(t, "etcd")
	rep, err := demo.Run(t.Context(), c, &recorder{}, t.Output())
	if err == nil || !strings.Contains(err.Error(), "on fire") || len(rep.Rows) != 0 {
		t.Errorf("%+v, %v; want etcd's last words", rep, err)
	}
	if left := mine(t); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// The context may end at any step; nothing may stay.
func TestRunInterrupted(t *testing.T) {
	for _, at := range []string{"building", "starting flanxd", "waiting for leases", "pinging", "moving", "stopping"} {
		t.Run(at, func(t *testing.T) {
			c := fake(t, "")
			c.Encaps, c.IOs, c.Hosts = []string{"udp"}, []string{"native", "udp"}, 2
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			begin := time.Now()
			rep, err := demo.Run(ctx, c, &recorder{hook: func(step string) {
				if strings.Contains(step, at) {
					cancel()
				}
			}}, t.Output())
			if !errors.Is(err, context.Canceled) || len(rep.Rows) > 0 {
				t.Errorf("%+v, %v", rep, err)
			}
			if left := mine(t); len(left) > 0 || time.Since(begin) > 20*time.Second {
				t.Errorf("left behind after %s: %v", time.Since(begin), left)
			}
		})
	}
}

func TestKeepAndClean(t *testing.T) {
	c := fake(t, "")
	c.Encaps, c.IOs, c.Hosts, c.Keep = []string{"udp"}, []string{"udp"}, 2, true
	var tour bytes.Buffer
	rep, err := demo.Run(t.Context(), c, &recorder{}, &tour)
	if errors.Is(err, lab.ErrExists) {
		t.Skip("somebody keeps a demo on this machine: ", err)
	}
	t.Cleanup(func() { _, _ = demo.Clean() })
	if err != nil || !rep.OK() {
		t.Fatalf("%+v, %v", rep, err)
	}
	for _, want := range []string{"ip netns exec flanx-demo-host1 ping 10.244.2.0", "flanx demo --clean"} {
		if !strings.Contains(tour.String(), want) {
			t.Errorf("no %q in the tour:\n%s", want, &tour)
		}
	}
	if _, err := os.Stat("/run/netns/flanx-demo-host1"); err != nil {
		t.Error(err)
	}
	if _, err := demo.Run(t.Context(), c, &recorder{}, &tour); !errors.Is(err, lab.ErrExists) || !strings.Contains(err.Error(), "--clean") {
		t.Errorf("a second one: %v", err)
	}
	if found, err := demo.Clean(); !found || err != nil {
		t.Errorf("clean: %v, %v", found, err)
	}
	if found, err := demo.Clean(); found || err != nil {
		t.Errorf("clean again: %v, %v", found, err)
	}
}

func TestRunConfigErrors(t *testing.T) {
	for _, tt := range []struct {
		want string
		c    demo.Config
	}{
		{"gre", demo.Config{Encaps: []string{"gre"}}},
		{"dpdk", demo.Config{IOs: []string{"dpdk"}}},
		{"1 hosts", demo.Config{Hosts: 1}},
		{"17 hosts", demo.Config{Hosts: 17}},
		{"-1 bytes", demo.Config{Bytes: -1}},
	} {
		_, err := demo.Run(t.Context(), tt.c, &recorder{}, t.Output())
		if !errors.Is(err, demo.ErrConfig) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("error %v, want one that names %q", err, tt.want)
		}
	}
	_, err := demo.Run(t.Context(), demo.Config{Flanxd: "/nonexistent/flanxd"}, &recorder{}, t.Output())
	if err == nil || !strings.Contains(err.Error(), "/nonexistent/flanxd") {
		t.Errorf("no daemon: %v", err)
	}
	_, err = demo.Run(t.Context(), demo.Config{}, &recorder{}, t.Output()) // none beside this test
	if err == nil || !strings.Contains(err.Error(), "make build") {
		t.Logf("a daemon is in PATH: %v", err)
	}
}

func TestReportTable(t *testing.T) {
	rep := demo.Report{Hosts: 3, Bytes: 1, Rows: []demo.Row{
		{Encap: "vxlan", Asked: "native", Granted: "native copy", Pings: 6, PingsOK: 6, BitsPerSecond: 4.567e9, Intact: true},
		{Encap: "udp", Asked: "udp", Granted: "UDP socket", Pings: 6, PingsOK: 6, BitsPerSecond: 312.3e6, Intact: true},
		{
			Encap: "udp", Asked: "generic", Pings: 6, PingsOK: 5, Failure: "it is broken",
			Logs: map[string][]string{"host2": {"one", "two"}, "host1": {"three"}},
		},
	}}
	var got bytes.Buffer
	if err := rep.WriteTable(&got); err != nil {
		t.Fatal(err)
	}
	want := `ENCAPSULATION   ASKED FOR   GRANTED       PINGS OK   THROUGHPUT    VERDICT
vxlan           native      native copy   6/6        4.57 Gbit/s   ok, SHA-256 equal
udp             udp         UDP socket    6/6        312 Mbit/s    ok, SHA-256 equal
udp             generic     -             5/6        -             FAILED: it is broken

udp, generic: flanxd on host1 said last:
  three

udp, generic: flanxd on host2 said last:
  one
  two
`
	if got.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &got, want)
	}
	if rep.OK() || (demo.Report{}).OK() || !(demo.Report{Rows: rep.Rows[:2]}).OK() {
		t.Error("verdict over all rows is wrong")
	}
	b, err := json.Marshal(rep.Rows[0])
	if err != nil || !bytes.Contains(b, []byte(`"granted":"native copy"`)) || bytes.Contains(b, []byte("failure")) {
		t.Errorf("%s, %v", b, err)
	}
}
