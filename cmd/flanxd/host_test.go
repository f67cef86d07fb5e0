package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/nftables"

	"flanx/control/hostnet"
	"flanx/perf/lab"
	"flanx/perf/lab/labtest"
)

// hosts are two machines on one wire, and a cluster file with both.
type hosts struct {
	t    *testing.T
	a, b *lab.Host
	dir  string
}

// patience is how long something may take that takes a second or two.
const patience = 20 * time.Second

func newHosts(t *testing.T) *hosts { return newHostsOn(t, lab.Wire{MTU: 1500}) }

func newHostsOn(t *testing.T, w lab.Wire) *hosts {
	_, h := labtest.Hosts(t, w, "a", "b")
	c := &hosts{t: t, a: h[0], b: h[1], dir: t.TempDir()}
	file := fmt.Sprintf(`{
		"network": {"Network": "10.5.0.0/16", "Backend": {"Type": "vxlan"}},
		"nodes": [
			{"subnet": "10.5.1.0/24", "publicIP": %q, "vtepMAC": "02:00:00:00:00:01"},
			{"subnet": "10.5.2.0/24", "publicIP": %q, "vtepMAC": "02:00:00:00:00:02"}
		]}`, c.a.Addr(), c.b.Addr())
	if err := os.WriteFile(c.path("cluster.json"), []byte(file), 0o644); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *hosts) path(parts ...string) string {
	return filepath.Join(append([]string{c.dir}, parts...)...)
}

// daemon is a flanxd process on a host.
type daemon struct {
	*lab.Process
	log *output
}

// start starts flanxd on a host, with the flags that every test wants.
func (c *hosts) start(h *lab.Host, flags ...string) *daemon {
	c.t.Helper()
	d := &daemon{log: &output{}}
	var err error
	d.Process, err = h.Start(context.Background(), lab.Spec{
		Path: os.Args[0],
		Args: append([]string{
			"-static-config", c.path("cluster.json"), "-subnet-file", c.path(h.Name(), "subnet.env"),
			"-iface", "eth0", "-io", "udp", "-ip-masq", "-iptables-resync", "1", "-healthz-port", "8080",
		}, flags...),
		Env: []string{asDaemon + "=1"}, Stdout: d.log, Stderr: d.log,
	})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		if c.t.Failed() {
			c.t.Logf("flanxd on %s said:\n%s", h.Name(), d.log)
		}
		_ = d.Stop(2 * time.Second)
	})
	return d
}

// startReady starts flanxd and waits until it serves.
func (c *hosts) startReady(h *lab.Host, flags ...string) *daemon {
	c.t.Helper()
	d := c.start(h, flags...)
	c.wait("node ready", func() error { return c.ready(h) })
	return d
}

// code waits for the end and returns the exit code.
func (d *daemon) code(t *testing.T) exitCode {
	t.Helper()
	select {
	case <-d.Done():
	case <-time.After(patience):
		t.Fatal("flanxd did not end")
	}
	var exit *exec.ExitError
	if err := d.Wait(); errors.As(err, &exit) {
		return exitCode(exit.ExitCode())
	}
	return exitOK
}

// wait repeats f until it succeeds.
func (c *hosts) wait(what string, f func() error) {
	c.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("%s: %v", what, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// ready asks a node's own health check.
func (c *hosts) ready(h *lab.Host) error {
	return h.Do(func() error {
		conn, err := net.DialTimeout("tcp", "127.0.0.1:8080", time.Second)
		if err != nil {
			return err
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(time.Second))
		if _, err := conn.Write([]byte("GET /readyz HTTP/1.0\r\n\r\n")); err != nil {
			return err
		}
		b := make([]byte, 1024)
		n, err := conn.Read(b)
		if err != nil {
			return err
		}
		if !strings.Contains(string(b[:n]), " 200 ") {
			return errors.New(string(b[:n]))
		}
		return nil
	})
}

// ip runs the ip command on a host.
func (c *hosts) ip(h *lab.Host, args string) string {
	c.t.Helper()
	out, err := h.Output(context.Background(), "ip", strings.Fields(args)...)
	if err != nil {
		c.t.Fatal(err)
	}
	return string(out)
}

// reach sends a datagram from a's overlay address to b's.
func (c *hosts) reach() error {
	var to, from *net.UDPConn
	listen := func(h *lab.Host, addr string, conn **net.UDPConn) error {
		return h.Do(func() (err error) {
			*conn, err = net.ListenUDP("udp4", &net.UDPAddr{IP: net.ParseIP(addr)})
			return err
		})
	}
	if err := listen(c.b, "10.5.2.0", &to); err != nil {
		return err
	}
	defer to.Close()
	if err := listen(c.a, "10.5.1.0", &from); err != nil {
		return err
	}
	defer from.Close()
	if _, err := from.WriteToUDP([]byte("hello"), to.LocalAddr().(*net.UDPAddr)); err != nil {
		return err
	}
	_ = to.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
	_, src, err := to.ReadFromUDPAddrPort(make([]byte, 16))
	if err == nil && src.Addr() != netip.MustParseAddr("10.5.1.0") {
		err = fmt.Errorf("came from %v", src)
	}
	return err
}

// tables counts the nftables tables of a host.
func (c *hosts) tables(h *lab.Host) (n int) {
	c.nft(h, func(conn *nftables.Conn) error {
		tables, err := conn.ListTables()
		n = len(tables)
		return err
	})
	return n
}

func (c *hosts) nft(h *lab.Host, f func(*nftables.Conn) error) {
	c.t.Helper()
	err := h.Do(func() error {
		conn, err := nftables.New()
		if err != nil {
			return err
		}
		return errors.Join(f(conn), conn.Flush())
	})
	if err != nil {
		c.t.Fatal(err)
	}
}

// TestNodeSurvivesItsHost does to a running node what hosts do to it.
func TestNodeSurvivesItsHost(t *testing.T) {
	c := newHosts(t)
	a := c.startReady(c.a)
	c.startReady(c.b)
	c.wait("packets flow", c.reach)
	subnetFile := c.path("a", "subnet.env")
	const env = "FLANNEL_NETWORK=10.5.0.0/16\nFLANNEL_SUBNET=10.5.1.1/24\nFLANNEL_MTU=1450\nFLANNEL_IPMASQ=true\n"

	if b, err := os.ReadFile(subnetFile); string(b) != env {
		t.Errorf("subnet file holds %q, %v", b, err)
	}

	t.Run("second instance", func(t *testing.T) {
		second := c.start(c.a)
		if code := second.code(t); code != exitInUse {
			t.Errorf("code %d, want %d", code, exitInUse)
		}
		if !strings.Contains(second.log.String(), fmt.Sprintf("pid %d", a.PID())) {
			t.Errorf("it said %s", second.log)
		}
		c.wait("first instance untouched", c.reach)
	})
	t.Run("SIGHUP", func(t *testing.T) {
		if err := a.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		a.log.waitFor(t, "SIGHUP ignored")
		c.wait("packets flow", c.reach)
	})
	for _, test := range []struct {
		name string
		harm func()
	}{
		{"device down", func() { c.ip(c.a, "link set flannel0 down") }},
		{"device flapped", func() { c.ip(c.a, "link set flannel0 down"); c.ip(c.a, "link set flannel0 up") }},
		{"device deleted", func() { c.ip(c.a, "link del flannel0") }},
		{"address deleted", func() { c.ip(c.a, "addr flush dev flannel0") }},
		{"route deleted", func() { c.ip(c.a, "route del 10.5.0.0/16") }},
		{"underlay flapped", func() { c.ip(c.a, "link set eth0 down"); c.ip(c.a, "link set eth0 up") }},
		{"rules flushed", func() {
			c.nft(c.a, func(conn *nftables.Conn) error { conn.FlushRuleset(); return nil })
			c.wait("rules are back", func() error {
				if n := c.tables(c.a); n != 1 {
					return fmt.Errorf("%d tables", n)
				}
				return nil
			})
		}},
		{"underlay renamed", func() {
			c.ip(c.a, "link set eth0 down")
			c.ip(c.a, "link set eth0 name uplink")
			c.ip(c.a, "link set uplink up")
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.harm()
			c.wait("packets flow again", c.reach)
			c.wait("ready", func() error { return c.ready(c.a) })
		})
	}
	const uplink = "uplink" // renamed last
	t.Run("MTU follows", func(t *testing.T) {
		for _, mtu := range []struct{ under, over int }{{1400, 1350}, {1500, 1450}, {9000, 1450}} {
			c.ip(c.a, fmt.Sprintf("link set %s mtu %d", uplink, mtu.under))
			want := fmt.Sprintf("FLANNEL_MTU=%d\n", mtu.over)
			c.wait("MTU", func() error {
				b, err := os.ReadFile(subnetFile)
				if err == nil && !strings.Contains(string(b), want) {
					err = errors.New(string(b))
				}
				if got := c.ip(c.a, "link show flannel0"); err == nil && !strings.Contains(got, fmt.Sprintf("mtu %d ", mtu.over)) {
					err = errors.New(got)
				}
				return err
			})
		}
		c.ip(c.a, "link set "+uplink+" mtu 1500")
	})
	t.Run("underlay address gone and back", func(t *testing.T) {
		c.ip(c.a, fmt.Sprintf("addr del %s/24 dev %s", c.a.Addr(), uplink))
		c.wait("not ready", func() error {
			if err := c.ready(c.a); err == nil || !strings.Contains(err.Error(), "no longer on") {
				return fmt.Errorf("health check said %w", err)
			}
			return nil
		})
		c.ip(c.a, fmt.Sprintf("addr add %s/24 dev %s", c.a.Addr(), uplink))
		c.wait("ready again", func() error { return c.ready(c.a) })
		c.wait("packets flow", c.reach)
	})
	t.Run("SIGTERM", func(t *testing.T) {
		begin := time.Now()
		if err := a.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if code := a.code(t); code != exitOK {
			t.Errorf("code %d", code)
		}
		if took := time.Since(begin); took > 2*time.Second {
			t.Errorf("took %v", took)
		}
		if n := c.tables(c.a); n != 0 {
			t.Errorf("%d nftables tables left", n)
		}
		if links := c.ip(c.a, "-o link show"); strings.Contains(links, "flannel") {
			t.Errorf("devices left:\n%s", links)
		}
		if routes := c.ip(c.a, "route show"); strings.Contains(routes, "10.5.") {
			t.Errorf("routes left:\n%s", routes)
		}
		if b, err := os.ReadFile(subnetFile); string(b) != env {
			t.Errorf("subnet file holds %q, %v", b, err)
		}
	})
}

// TestRestarts kills a node over and over: nothing may pile up or get in the way.
func TestRestarts(t *testing.T) {
	c := newHosts(t)
	c.startReady(c.b)
	var before string
	for i := range 6 {
		d := c.startReady(c.a, "-ip-blackhole-route")
		c.wait("packets flow", c.reach)
		now := c.ip(c.a, "route show table all") + c.ip(c.a, "rule show") + fmt.Sprint(c.tables(c.a))
		if before != "" && now != before {
			t.Errorf("start %d left\n%s, the one before\n%s", i, now, before)
		}
		before = now
		sig := syscall.SIGKILL
		if i%2 == 1 {
			sig = syscall.SIGTERM
		}
		if err := d.Signal(sig); err != nil {
			t.Fatal(err)
		}
		<-d.Done()
	}
}

// TestInTheWay starts nodes where something stands in their place.
func TestInTheWay(t *testing.T) {
	c := newHosts(t)
	device := func(name string, vni, port int) string {
		return fmt.Sprintf("link add %s type vxlan id %d dev eth0 dstport %d local %s", name, vni, port, c.a.Addr())
	}
	tests := []struct {
		name        string
		before      []string // ip commands
		flags, says string
		code        exitCode
		after       []string
	}{
		{
			"flanneld's device, to be kept",
			[]string{device("flannel.1", 1, 8472)},
			"-keep-flannel-device",
			"flannel.1 holds UDP port 8472", exitInUse,
			[]string{"link del flannel.1"},
		},
		{
			"another's VXLAN device on our port",
			[]string{device("vx", 7, 8472)},
			"",
			"vx holds UDP port 8472", exitInUse,
			[]string{"link del vx"},
		},
		{"device of our name", []string{"link add flannel0 type veth peer name other"}, "", "veth device", exitInUse, []string{"link del flannel0"}},
		{"device of our name held", []string{"tuntap add flannel0 mode tap"}, "", "TAP", exitInUse, []string{"link del flannel0"}},
		{"network in use", []string{"route add 10.5.0.0/16 dev eth0"}, "", "routed to eth0 already", exitInUse, []string{"route del 10.5.0.0/16"}},
		{"interface missing", nil, "-iface=eth7 -iface-regex=^wl", "", exitOK, nil}, // -iface eth0 comes first
		{"underlay too small", []string{"link set eth0 mtu 100"}, "", "MTU", exitNetwork, []string{"link set eth0 mtu 1500"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for _, cmd := range test.before {
				c.ip(c.a, cmd)
			}
			defer func() {
				for _, cmd := range test.after {
					c.ip(c.a, cmd)
				}
			}()
			d := c.start(c.a, strings.Fields(test.flags)...)
			if test.code == exitOK {
				c.wait("ready", func() error { return c.ready(c.a) })
				_ = d.Stop(patience)
				return
			}
			if code := d.code(t); code != test.code {
				t.Errorf("code %d, want %d", code, test.code)
			}
			lines := strings.Split(strings.TrimSpace(d.log.String()), "\n")
			if last := lines[len(lines)-1]; !strings.HasPrefix(last, "flanxd: ") || !strings.Contains(last, test.says) {
				t.Errorf("last words %q do not say %q", last, test.says)
			}
			if n := c.tables(c.a); n != 0 {
				t.Errorf("%d nftables tables left", n)
			}
		})
	}
	t.Run("flanneld's device is removed", func(t *testing.T) {
		c.ip(c.a, device("flannel.1", 1, 8472))
		c.startReady(c.a)
		c.startReady(c.b)
		c.wait("packets flow", c.reach)
		if links := c.ip(c.a, "-o link show"); strings.Contains(links, "flannel.1") {
			t.Errorf("devices:\n%s", links)
		}
	})
}

// TestTwoDaemonsOnOneHost: each has its own file, device, network and port.
func TestTwoDaemonsOnOneHost(t *testing.T) {
	c := newHosts(t)
	c.startReady(c.a)
	second := strings.NewReplacer("10.5.", "10.6.", `"vxlan"`, `"vxlan", "VNI": 2, "Port": 4790`)
	b, err := os.ReadFile(c.path("cluster.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(c.path("second.json"), []byte(second.Replace(string(b))), 0o644); err != nil {
		t.Fatal(err)
	}
	file := c.path("a", "second.env")
	d := c.start(c.a, "-static-config", c.path("second.json"), "-subnet-file", file, "-tun-name", "flannel1", "-healthz-port", "0")
	c.wait("second node's subnet", func() error {
		_, err := hostnet.ReadSubnetFile(file)
		return err
	})
	c.startReady(c.b)
	c.wait("packets flow in the first network", c.reach)
	time.Sleep(2500 * time.Millisecond) // two checks of the rules
	if strings.Contains(d.log.String(), "restored") {
		t.Errorf("the daemons fight over their rules:\n%s", d.log)
	}
	if n := c.tables(c.a); n != 2 {
		t.Errorf("%d nftables tables, want one for each", n)
	}
	if err := d.Stop(patience); err != nil {
		t.Error(err)
	}
	if n := c.tables(c.a); n != 1 {
		t.Errorf("%d nftables tables after the second ended, want 1", n)
	}
}

// TestOneWorkerForEachQueue: -workers 0, as far as there are CPUs.
func TestOneWorkerForEachQueue(t *testing.T) {
	c := newHostsOn(t, lab.Wire{MTU: 1500, Queues: 2})
	a := c.startReady(c.a, "-workers", "0")
	c.startReady(c.b, "-workers", "0")
	c.wait("packets flow", c.reach)
	a.log.waitFor(t, fmt.Sprintf("workers=%d", min(2, runtime.NumCPU())))
}
