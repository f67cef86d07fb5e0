package controltest

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// EnvEtcd names the etcd program to test with, if it is not in PATH.
const EnvEtcd = "FLANX_ETCD"

// Process is an etcd in a process of its own, as an operator would run it.
type Process struct {
	URL string

	bin, dir, peer string
	name, cluster  string
	cmd            *exec.Cmd
}

// StartProcess runs an etcd on loopback until the test ends. Without the program
// the test is skipped, or fails under CI=true.
func StartProcess(t *testing.T) *Process {
	t.Helper()
	return StartCluster(t, 1)[0]
}

// StartCluster runs several as one cluster.
func StartCluster(t *testing.T, members int) []*Process {
	t.Helper()
	bin := etcdProgram(t)
	out := make([]*Process, members)
	var cluster []string
	for i := range out {
		out[i] = &Process{URL: freeURL(t), bin: bin, dir: t.TempDir(), peer: freeURL(t), name: "member" + strconv.Itoa(i)}
		cluster = append(cluster, out[i].name+"="+out[i].peer)
	}
	for _, p := range out {
		p.cluster = strings.Join(cluster, ",")
		t.Cleanup(p.Kill)
		p.Start(t)
	}
	return out
}

func etcdProgram(t *testing.T) string {
	t.Helper()
	bin := os.Getenv(EnvEtcd)
	if bin == "" {
		bin, _ = exec.LookPath("etcd")
	}
	if bin == "" {
		const msg = "no etcd program in PATH or " + EnvEtcd + ": apt-get install etcd-server"
		if os.Getenv("CI") == "true" {
			t.Fatal(msg)
		}
		t.Skip(msg)
	}
	return bin
}

func freeURL(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return "http://" + l.Addr().String()
}

// Start runs it on the same addresses and data again and waits for its answer.
func (p *Process) Start(t *testing.T) {
	t.Helper()
	p.cmd = exec.Command(p.bin,
		"--name="+p.name, "--data-dir="+filepath.Join(p.dir, "data"), "--unsafe-no-fsync",
		"--listen-client-urls="+p.URL, "--advertise-client-urls="+p.URL,
		"--listen-peer-urls="+p.peer, "--initial-advertise-peer-urls="+p.peer,
		"--initial-cluster="+p.cluster,
		"--heartbeat-interval=50", "--election-timeout=500", "--log-level=error")
	p.cmd.Env = append(os.Environ(), "ETCD_UNSUPPORTED_ARCH=arm64")
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "etcd accepts connections", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var d net.Dialer
		c, err := d.DialContext(ctx, "tcp", p.URL[len("http://"):])
		if err != nil {
			return false
		}
		c.Close()
		return true
	})
}

// Kill ends it without warning.
func (p *Process) Kill() {
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait() // "signal: killed" is what we asked for
	p.cmd = nil
}

// Wipe removes its data; it must not be running.
func (p *Process) Wipe(t *testing.T) {
	t.Helper()
	if err := os.RemoveAll(filepath.Join(p.dir, "data")); err != nil {
		t.Fatal(err)
	}
}

// Pause and Continue stop and resume it as a machine that hangs.
func (p *Process) Pause() { _ = p.cmd.Process.Signal(syscall.SIGSTOP) }

// Continue ends Pause.
func (p *Process) Continue() { _ = p.cmd.Process.Signal(syscall.SIGCONT) }
