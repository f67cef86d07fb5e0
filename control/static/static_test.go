package static

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"flanx/control"
	"flanx/control/controltest"
	"flanx/control/lease"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// editor writes the file from keys and values of flannel's form.
type editor struct {
	t       *testing.T
	path    string
	network string
	nodes   map[string]string // by key
}

func (e *editor) save() {
	e.t.Helper()
	var doc struct {
		Network json.RawMessage   `json:"network,omitempty"`
		Nodes   []json.RawMessage `json:"nodes"`
	}
	for _, key := range slices.Sorted(mapKeys(e.nodes)) {
		doc.Nodes = append(doc.Nodes, json.RawMessage(e.nodes[key]))
	}
	data, err := json.Marshal(doc)
	if err != nil {
		e.t.Fatal(err)
	}
	if e.network != "" { // raw: it may be no JSON at all
		data = append([]byte(`{"network":`+e.network+`,`), data[1:]...)
	}
	write(e.t, e.path, string(data))
}

func mapKeys(m map[string]string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// write replaces the file in one step, as good editors do.
func write(t *testing.T, path, data string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// entry is a lease as a node of the file; what is no lease becomes a text.
func entry(key, value string) string {
	var attrs struct {
		PublicIP    string
		BackendData struct{ VtepMAC string }
	}
	if json.Unmarshal([]byte(value), &attrs) != nil || attrs.PublicIP == "" || strings.Contains(value, `"x"`) {
		b, _ := json.Marshal(value)
		return string(b)
	}
	n := map[string]string{
		"subnet":   strings.Replace(key, "-", "/", 1),
		"publicIP": attrs.PublicIP,
	}
	if attrs.BackendData.VtepMAC != "" {
		n["vtepMAC"] = attrs.BackendData.VtepMAC
	}
	b, _ := json.Marshal(n)
	return string(b)
}

func TestSource(t *testing.T) {
	controltest.Sources(t, func(t *testing.T) controltest.World {
		e := &editor{t: t, path: filepath.Join(t.TempDir(), "cluster.json"), nodes: map[string]string{}}
		e.save()
		return controltest.World{
			Source:    New(e.path, nil),
			SetConfig: func(value string) { e.network = value; e.save() },
			Put:       func(key, value string) { e.nodes[key] = entry(key, value); e.save() },
			Delete:    func(key string) { delete(e.nodes, key); e.save() },
		}
	})
}

const (
	network = `"network":{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan","VNI":7}}`
	node1   = `{"subnet":"10.5.1.0/24","publicIP":"10.99.0.1","vtepMAC":"02:00:00:00:00:01"}`
	node2   = `{"subnet":"10.5.2.0/24","publicIP":"10.99.0.2","vtepMAC":"02:00:00:00:00:02"}`
)

func file(nodes ...string) string {
	return "{" + network + `,"nodes":[` + strings.Join(nodes, ",") + "]}"
}

func TestParse(t *testing.T) {
	c, err := parse([]byte(file(node1, node2)))
	if err != nil || len(c.bad) != 0 || len(c.leases) != 2 {
		t.Fatalf("parse: %d leases, %v, %v", len(c.leases), c.bad, err)
	}
	value, err := json.Marshal(c.leases[0].Attrs)
	want := `{"PublicIP":"10.99.0.1","PublicIPv6":null,"BackendType":"vxlan","BackendData":{"VNI":7,"VtepMAC":"02:00:00:00:00:01"}}`
	if err != nil || string(value) != want {
		t.Errorf("node 1 is %s, %v, want %s", value, err, want)
	}
}

func TestParseBackends(t *testing.T) {
	for _, c := range []struct{ name, network, node, want string }{
		{
			"udp says nothing", `{"Network":"10.5.0.0/16"}`, `{"subnet":"10.5.1.0/24","publicIP":"10.99.0.1"}`,
			`{"PublicIP":"10.99.0.1","PublicIPv6":null}`,
		},
		{
			"another backend", `{"Network":"10.5.0.0/16","Backend":{"Type":"host-gw"}}`,
			`{"subnet":"10.5.1.0/24","publicIP":"10.99.0.1","backendType":"wireguard","backendData":{"PublicKey":"k"}}`,
			`{"PublicIP":"10.99.0.1","PublicIPv6":null,"BackendType":"wireguard","BackendData":{"PublicKey":"k"}}`,
		},
		{
			"dual stack", `{"Network":"10.5.0.0/16","EnableIPv6":true,"IPv6Network":"fd05::/48","Backend":{"Type":"vxlan"}}`,
			`{"subnet":"10.5.1.0/24","ipv6Subnet":"fd05:0:0:1::/64","publicIP":"10.99.0.1","publicIPv6":"fd99::1","vtepMAC":"02:00:00:00:00:01","vtepMACv6":"02:00:00:00:00:11"}`,
			`{"PublicIP":"10.99.0.1","PublicIPv6":"fd99::1","BackendType":"vxlan","BackendData":{"VNI":1,"VtepMAC":"02:00:00:00:00:01"},"BackendV6Data":{"VNI":1,"VtepMAC":"02:00:00:00:00:11"}}`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := parse([]byte(`{"network":` + c.network + `,"nodes":[` + c.node + `]}`))
			if err != nil || len(got.leases) != 1 {
				t.Fatalf("parse: %v, %v", got.bad, err)
			}
			if value, err := json.Marshal(got.leases[0].Attrs); err != nil || string(value) != c.want {
				t.Errorf("node is %s, %v, want %s", value, err, c.want)
			}
		})
	}
}

func TestParseLeavesBadNodesOut(t *testing.T) {
	for _, c := range []struct{ name, node, says string }{
		{"text", `"node"`, "node 1"},
		{"unknown field", `{"subnet":"10.5.1.0/24","publicIP":"10.99.0.1","vtepMac2":"x"}`, "vtepMac2"},
		{"no subnet", `{"publicIP":"10.99.0.1"}`, "families"},
		{"host bits", `{"subnet":"10.5.1.7/24","publicIP":"10.99.0.1"}`, "host bits"},
		{"length", `{"subnet":"10.5.1.0/25","publicIP":"10.99.0.1"}`, "/24"},
		{"outside", `{"subnet":"10.6.1.0/24","publicIP":"10.99.0.1"}`, "between"},
		{"no address", `{"subnet":"10.5.1.0/24"}`, "PublicIP"},
		{"bad MAC", `{"subnet":"10.5.1.0/24","publicIP":"10.99.0.1","vtepMAC":"02"}`, "invalid MAC"},
		{"group MAC", `{"subnet":"10.5.1.0/24","publicIP":"10.99.0.1","vtepMAC":"ff:ff:ff:ff:ff:ff"}`, "one device"},
		{"both", `{"subnet":"10.5.1.0/24","publicIP":"10.99.0.1","vtepMAC":"02:00:00:00:00:01","backendData":{}}`, "give one"},
		{"MAC for another backend", `{"subnet":"10.5.1.0/24","publicIP":"10.99.0.1","vtepMAC":"02:00:00:00:00:01","backendType":"ipip"}`, "vxlan alone"},
		{"long", `{"subnet":"10.5.1.0/24","publicIP":"` + strings.Repeat("1", lease.MaxValue) + `"}`, "more than"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := parse([]byte(file(c.node, node2)))
			if err != nil || len(got.leases) != 1 || len(got.bad) != 1 {
				t.Fatalf("parse: %d leases, %v, %v", len(got.leases), got.bad, err)
			}
			if msg := got.bad[0].Error(); !strings.Contains(msg, c.says) || !strings.Contains(msg, "node 1") {
				t.Errorf("message %q does not say %q and node 1", msg, c.says)
			}
		})
	}
	got, err := parse([]byte(file(node1, node1)))
	if err != nil || len(got.leases) != 1 || len(got.bad) != 1 {
		t.Errorf("a subnet twice: %d leases, %v, %v", len(got.leases), got.bad, err)
	}
}

func TestConfigErrors(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "cluster.json")
	f := New(path, nil)
	check := func(name string, want error) {
		t.Helper()
		if _, err := f.Config(t.Context()); !errors.Is(err, want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: error is %v, want %v that names the file", name, err, want)
		}
	}
	check("absent", control.ErrUnavailable)
	for name, c := range map[string]struct {
		data string
		want error
	}{
		"empty":         {"", control.ErrBadConfig},
		"no network":    {`{"nodes":[]}`, control.ErrNoConfig},
		"unknown field": {`{` + network + `,"node":[]}`, control.ErrBadConfig},
		"trailing text": {file() + "x", control.ErrBadConfig},
		"bad network":   {`{"network":{"Network":"10.5.0.0/31"}}`, control.ErrBadConfig},
	} {
		write(t, path, c.data)
		check(name, c.want)
	}
	os.Remove(path)
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	check("named pipe", control.ErrUnavailable)
	os.Remove(path)
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	check("directory", control.ErrUnavailable)
}

// logs is a place for log lines.
type logs struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logs) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.buf.String(), text)
}

func (l *logs) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// watching runs Watch in a bubble of fake time and collects what it tells.
func watching(t *testing.T, f *File) (said func() string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var mu sync.Mutex
	var told []string
	done := make(chan error, 1)
	go func() {
		done <- f.Watch(ctx, func(u lease.Update) error {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, fmt.Sprintf("snapshot=%v lost=%v +%d -%d", u.Snapshot, u.Lost, len(u.Leases), len(u.Removed)))
			return nil
		})
	}()
	t.Cleanup(func() { cancel(); <-done })
	return func() string {
		time.Sleep(3 * time.Second)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		defer func() { told = nil }()
		return strings.Join(told, "; ")
	}
}

func TestWatchKeepsTheLastGoodContent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cluster.json")
	synctest.Test(t, func(t *testing.T) {
		l := &logs{}
		said := watching(t, New(path, l.logger()))
		step := func(want string) {
			t.Helper()
			if got := said(); got != want {
				t.Errorf("told %q, want %q", got, want)
			}
		}
		step("snapshot=false lost=true +0 -0") // there is no file
		write(t, path, file(node1))
		step("snapshot=true lost=false +1 -0")
		write(t, path, file(node1)+"oops")
		step("")
		if n := l.count("last good content"); n != 2 { // the start, and now
			t.Errorf("%d warnings, want 2", n)
		}
		os.Remove(path)
		step("")
		write(t, path, file(node1, node2))
		step("snapshot=false lost=false +1 -0")
		write(t, path, file(`"broken"`, node2))
		step("snapshot=false lost=false +0 -1")
		if l.count("entry ignored") != 1 {
			t.Error("no warning about the broken node")
		}
		write(t, path, file(`"broken"`, node2)+" ") // other bytes, same meaning
		step("")
	})
}

// A change in the same tick of the file system's clock, of the same length, in
// place: nothing of its stamp need differ.
func TestWatchSeesWhatTheStampHides(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cluster.json")
	now := time.Now()
	edit := func(data string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, now, now); err != nil {
			t.Fatal(err)
		}
	}
	edit(file(node1))
	r := New(path, nil).reader()
	if !r.look() || r.look() {
		t.Fatal("one content is not seen once")
	}
	edit(file(strings.Replace(node1, "10.99.0.1", "10.99.0.9", 1)))
	if !r.look() || r.good.leases[0].Attrs.PublicIP.String() != "10.99.0.9" {
		t.Error("change not seen")
	}
}

func networkConfig(t *testing.T, f *File) lease.NetworkConfig {
	t.Helper()
	cfg, err := f.Config(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func TestLeaser(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cluster.json")
	write(t, path, file(node1, node2, `{"subnet":"10.5.3.0/24","publicIP":"10.99.0.1"}`))
	f := New(path, nil)
	cfg := networkConfig(t, f)
	ip := netip.MustParseAddr("10.99.0.1")

	l, found, err := f.Find(t.Context(), cfg, ip, lease.Lease{})
	if err != nil || !found || l.Subnets.String() != "10.5.1.0/24" || !l.Reserved {
		t.Fatalf("Find = %+v, %v, %v", l, found, err)
	}
	third, found, err := f.Find(t.Context(), cfg, ip, lease.Lease{Subnets: lease.Subnets{V4: netip.MustParsePrefix("10.5.3.0/24")}})
	if err != nil || !found || third.Subnets.String() != "10.5.3.0/24" {
		t.Errorf("Find with a wish = %+v, %v, %v", third, found, err)
	}
	if got, err := f.Acquire(t.Context(), cfg, l.Attrs, lease.Lease{}); err != nil || got.Subnets != l.Subnets {
		t.Errorf("Acquire = %+v, %v", got, err)
	}
	attrs := l.Attrs
	attrs.BackendData = lease.VXLANData{VNI: 7, VtepMAC: lease.MAC{2, 9}}.Encode()
	if got, err := f.Acquire(t.Context(), cfg, attrs, lease.Lease{}); err == nil {
		t.Errorf("Acquire with another MAC than the file's = %+v", got)
	}
	got, err := f.Acquire(t.Context(), cfg, attrs, third) // the file leaves the MAC open there
	if err != nil || !got.Attrs.Equal(attrs) {
		t.Errorf("Acquire = %+v, %v, want our attributes", got, err)
	}
	attrs.PublicIP = netip.MustParseAddr("10.99.0.77")
	if _, err := f.Acquire(t.Context(), cfg, attrs, lease.Lease{}); err == nil || !strings.Contains(err.Error(), "10.99.0.77") {
		t.Errorf("Acquire of an unknown node says %v", err)
	}
}

func TestKeep(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cluster.json")
	write(t, path, file(node1, node2))
	synctest.Test(t, func(t *testing.T) {
		log := &logs{}
		f := New(path, log.logger())
		l, _, err := f.Find(t.Context(), networkConfig(t, f), netip.MustParseAddr("10.99.0.1"), lease.Lease{})
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- f.Keep(t.Context(), l, nil) }()
		step := func(data, line string) {
			t.Helper()
			write(t, path, data)
			time.Sleep(3 * time.Second)
			synctest.Wait()
			if log.count(line) != 1 {
				t.Errorf("%q logged %d times", line, log.count(line))
			}
			select {
			case err := <-ended:
				t.Fatal(err)
			default:
			}
		}
		step(file(node2), "our subnet is not in the file any more")
		step(file(node2, node1), "our subnet is in the file again")
		write(t, path, file(strings.Replace(node1, "10.99.0.1", "10.99.0.5", 1)))
		if err := <-ended; !errors.Is(err, control.ErrLeaseLost) || !strings.Contains(err.Error(), "10.99.0.5") {
			t.Errorf("Keep ended with %v", err)
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(file(node1, node2)))
	f.Add([]byte(file(`"broken"`)))
	f.Add([]byte(`{"network":{"EnableIPv4":false,"EnableIPv6":true,"IPv6Network":"fd05::/48"},"nodes":[{"ipv6Subnet":"fd05:0:0:1::/64","publicIPv6":"fd99::1"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := parse(data)
		if err != nil {
			return
		}
		for _, l := range c.leases {
			if err := c.network.Fits(l.Subnets); err != nil {
				t.Error(err)
			}
			if _, err := json.Marshal(l.Attrs); err != nil {
				t.Error(err)
			}
		}
	})
}
