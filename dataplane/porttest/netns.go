package porttest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Namespace is a network namespace without a name: it lives as long as its
// descriptor and the sockets and devices in it, so nothing is left behind, also
// after SIGKILL.
type Namespace struct {
	t    testing.TB
	file *os.File
}

// NewNamespace makes an empty namespace with its loopback up and IPv6 router
// chatter off. Without the privilege the test is skipped; under CI it fails.
func NewNamespace(t testing.TB) *Namespace {
	t.Helper()
	NeedRoot(t)
	runtime.LockOSThread()
	home := openNetns(t)
	defer home.Close()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Fatalf("make a network namespace: %v", err)
	}
	n := &Namespace{t: t, file: openNetns(t)}
	t.Cleanup(func() { n.file.Close() })
	returnTo(t, home)
	n.Sysctl("net/ipv6/conf/all/accept_dad", "0")
	n.Sysctl("net/ipv6/conf/default/accept_dad", "0")
	n.Sysctl("net/ipv6/conf/default/accept_ra", "0")
	n.Sysctl("net/ipv6/conf/default/router_solicitations", "0")
	n.IP("link set lo up")
	return n
}

// NeedRoot skips the test when it is not run by root, and fails it under CI.
func NeedRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() == 0 {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("needs root, and under CI nothing is skipped")
	}
	t.Skip("needs root")
}

// openNetns opens the namespace of the calling thread.
func openNetns(t testing.TB) *os.File {
	t.Helper()
	f, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		t.Fatalf("open the network namespace: %v", err)
	}
	return f
}

// returnTo puts the locked thread back. If that fails the thread stays locked,
// so that it ends with its goroutine and nobody else runs on it.
func returnTo(t testing.TB, home *os.File) {
	if err := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); err != nil {
		t.Errorf("return from the network namespace: %v", err)
		return
	}
	runtime.UnlockOSThread()
}

// Do runs f on a thread inside the namespace. Sockets that f opens stay there.
func (n *Namespace) Do(f func()) {
	n.t.Helper()
	runtime.LockOSThread()
	home := openNetns(n.t)
	defer home.Close()
	if err := unix.Setns(int(n.file.Fd()), unix.CLONE_NEWNET); err != nil {
		n.t.Fatalf("enter the network namespace: %v", err)
	}
	defer returnTo(n.t, home)
	f()
}

// Path names the namespace for ip's netns argument.
func (n *Namespace) Path() string {
	return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), n.file.Fd())
}

// IP runs the ip command in the namespace with the words of args.
func (n *Namespace) IP(args string) string {
	n.t.Helper()
	out, err := n.TryIP(args)
	if err != nil {
		n.t.Fatalf("ip %s: %v: %s", args, err, out)
	}
	return out
}

// TryIP is IP for a command that may fail.
func (n *Namespace) TryIP(args string) (out string, err error) {
	n.t.Helper()
	n.Do(func() {
		var b []byte
		b, err = exec.Command("ip", strings.Fields(args)...).CombinedOutput()
		out = string(b)
	})
	return out, err
}

// Sysctl sets a kernel parameter of the namespace; slashes part its name.
func (n *Namespace) Sysctl(name, value string) {
	n.t.Helper()
	n.Do(func() {
		if err := os.WriteFile(filepath.Join("/proc/sys", name), []byte(value), 0); err != nil {
			n.t.Fatalf("set %s: %v", name, err)
		}
	})
}
