package systemtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"flanx/control/hostnet"
	"flanx/perf/lab"
)

// stopLimit is the daemon's promise for SIGTERM. endLimit is when it certainly
// hangs: refusals and stops are waited for so long.
const (
	stopLimit = 2 * time.Second
	endLimit  = 15 * time.Second
)

// daemon is a flanxd process.
type daemon struct {
	*testing.T
	host    *lab.Host
	process *lab.Process
	dir     string
	out     *output
	env     string // the subnet file
	subnet  netip.Prefix
	mtu     int
}

// launch starts flanxd on a host, with the world's store and files of the host's
// own unless args say otherwise, and does not wait.
func (w *world) launch(h *lab.Host, args ...string) *daemon {
	w.Helper()
	return w.launchBy([]string{flanxd}, h, args...)
}

// launchBy does it by a command line that ends in the daemon.
func (w *world) launchBy(command []string, h *lab.Host, args ...string) *daemon {
	w.Helper()
	dir := w.dir(h)
	d := &daemon{T: w.T, host: h, dir: dir, env: filepath.Join(dir, "subnet.env"), out: &output{}}
	var err error
	d.process, err = h.Start(w.Context(), lab.Spec{
		Path: command[0], Args: slices.Concat(command[1:], w.flags(h, args), args), Stdout: d.out, Stderr: d.out,
	})
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		if w.Failed() {
			w.Logf("log of flanxd on %s:\n%s", h.Name(), d.log())
		}
	})
	return d
}

// flags are those that every daemon of the world is given.
func (w *world) flags(h *lab.Host, args []string) []string {
	dir := w.dir(h)
	flags := []string{
		"-etcd-endpoints", w.endpoint, "-etcd-prefix", w.prefix,
		"-subnet-file", filepath.Join(dir, "subnet.env"), "-state-file", filepath.Join(dir, "state.json"),
	}
	if !slices.Contains(args, "-iface") { // which would come second
		flags = append(flags, "-iface", "eth0")
	}
	return flags
}

// start starts flanxd and waits until it has a lease and carries packets.
func (w *world) start(h *lab.Host, args ...string) *daemon {
	w.Helper()
	_ = os.Remove(filepath.Join(w.dir(h), "subnet.env")) // or we would see the last run's
	d := w.launch(h, args...)
	d.ready()
	return d
}

// ready waits for the subnet file, which is written when packets flow.
func (d *daemon) ready() {
	d.Helper()
	eventually(d.T, patience, func() error {
		select {
		case <-d.process.Done():
			d.Fatalf("flanxd on %s ended: %v\n%s", d.host.Name(), d.process.Wait(), d.log())
		default:
		}
		f, err := hostnet.ReadSubnetFile(d.env)
		d.subnet, d.mtu = f.Subnets.V4, f.MTU
		return err
	})
}

// addr is the daemon's host's own address on the overlay.
func (d *daemon) addr() netip.Addr { return node(d.subnet) }

func (d *daemon) log() string { return d.out.String() }

// output collects what a process writes while others read it.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// granted finds the last log line that says how packets get on the wire.
func (d *daemon) granted() (way, why string) {
	d.Helper()
	lines := strings.Split(d.log(), "\n")
	for _, line := range slices.Backward(lines) {
		if strings.Contains(line, `msg="way on the wire"`) {
			return field(line, "granted"), field(line, "why")
		}
	}
	d.Errorf("flanxd on %s never said how it gets on the wire", d.host.Name())
	return "", ""
}

// field takes one value out of a line of slog's text handler.
func field(line, key string) string {
	_, rest, found := strings.Cut(line, " "+key+"=")
	if !found {
		return ""
	}
	if quoted, ok := strings.CutPrefix(rest, `"`); ok {
		value, _, _ := strings.Cut(strings.ReplaceAll(quoted, `\"`, `'`), `"`)
		return value
	}
	value, _, _ := strings.Cut(rest, " ")
	return value
}

// stop ends the daemon with SIGTERM and wants it to end well, and in time.
func (d *daemon) stop() {
	d.Helper()
	began := time.Now()
	if err := d.process.Stop(endLimit); err != nil {
		d.Errorf("stop flanxd on %s: %v", d.host.Name(), err)
	}
	if took := time.Since(began); took > stopLimit {
		d.Errorf("flanxd on %s took %s to stop", d.host.Name(), took)
	}
}

// kill ends it as the kernel's out-of-memory killer would.
func (d *daemon) kill() {
	d.Helper()
	if err := d.process.Signal(syscall.SIGKILL); err != nil {
		d.Fatal(err)
	}
	_ = d.process.Wait() // "signal: killed"
}

// end waits for a daemon that has to give up by itself, and returns its exit
// code and all that it said.
func (d *daemon) end(limit time.Duration) (code int, said string) {
	d.Helper()
	select {
	case <-d.process.Done():
	case <-time.After(limit):
		d.Errorf("flanxd on %s still runs after %s, want it to give up", d.host.Name(), limit)
		d.kill()
	}
	code, err := exitCode(d.process.Wait())
	if err != nil {
		d.Error(err)
	}
	return code, d.log()
}

func exitCode(err error) (int, error) {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0, nil
	case errors.As(err, &exit):
		return exit.ExitCode(), nil
	}
	return -1, fmt.Errorf("wait for flanxd: %w", err)
}

// inspect is the state of a host that a daemon may change: links, addresses,
// routes, rules, XDP programs.
func inspect(t *testing.T, h *lab.Host) string {
	t.Helper()
	var b strings.Builder
	for _, args := range []string{"link", "-br addr", "route show table all", "-6 route show table all", "rule"} {
		out, err := h.Output(context.WithoutCancel(t.Context()), "ip", strings.Fields(args)...)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(out)
	}
	b.WriteString(ruleset(t, h))
	return b.String()
}

// readEnv reads a host's subnet file.
func (w *world) readEnv(h *lab.Host) (hostnet.SubnetFile, error) {
	return hostnet.ReadSubnetFile(filepath.Join(w.dir(h), "subnet.env"))
}

// hangUp sends the signal of a closed terminal.
func hangUp(t *testing.T, d *daemon) {
	t.Helper()
	if err := d.process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
}

// dropped reads how many packets the daemon dropped on the way in for a reason;
// it says so when it ends.
func (d *daemon) dropped(reason string) (n int) {
	d.Helper()
	for line := range strings.Lines(d.log()) {
		if strings.Contains(line, `msg="packets carried" direction=ingress`) {
			n, _ = strconv.Atoi(field(strings.TrimSpace(line), "drops."+reason)) // absent when there was none
		}
	}
	return n
}
