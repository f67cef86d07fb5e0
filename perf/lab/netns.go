package lab

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// netnsRoot is where iproute2 keeps named network namespaces (ip-netns(8)).
const netnsRoot = "/run/netns"

// threadNS is the calling thread's namespace. /proc/self would be the main
// thread's, which need not be ours.
const threadNS = "/proc/thread-self/ns/net"

// createNamespace makes a network namespace that "ip netns" lists, and returns
// it open. Nothing is left on failure.
func createNamespace(name string) (*os.File, error) {
	if err := prepareNetnsRoot(); err != nil {
		return nil, err
	}
	path := filepath.Join(netnsRoot, name)
	mark, err := os.OpenFile(path, os.O_RDONLY|os.O_CREATE|os.O_EXCL, 0o444)
	if err != nil {
		return nil, fmt.Errorf("create namespace %s: %w", name, err)
	}
	_ = mark.Close() // empty, only a place to mount on
	if err := onOwnThread(func() error { return mountNew(path) }); err != nil {
		return nil, errors.Join(fmt.Errorf("create namespace %s: %w", name, err), os.Remove(path))
	}
	ns, err := os.Open(path)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open namespace %s: %w", name, err), unmountNamespace(name))
	}
	return ns, nil
}

// mountNew moves the calling thread into a new network namespace and mounts
// that on path, so that it lives on without the thread.
func mountNew(path string) error {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("unshare network: %w", err)
	}
	if err := unix.Mount(threadNS, path, "none", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount namespace: %w", err)
	}
	return nil
}

// prepareNetnsRoot makes the folder a shared mount, as iproute2 does: an unmount
// must reach the copies that other mount namespaces (ip netns exec, our own
// spawners) hold, or the namespace would outlive its deletion.
func prepareNetnsRoot() error {
	if err := os.MkdirAll(netnsRoot, 0o755); err != nil {
		return fmt.Errorf("make %s: %w", netnsRoot, err)
	}
	err := unix.Mount("", netnsRoot, "none", unix.MS_SHARED|unix.MS_REC, "")
	if !errors.Is(err, unix.EINVAL) {
		return wrap(err, "share mounts of %s", netnsRoot)
	}
	// EINVAL: not a mount point yet.
	if err := unix.Mount(netnsRoot, netnsRoot, "none", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("mount %s on itself: %w", netnsRoot, err)
	}
	return wrap(unix.Mount("", netnsRoot, "none", unix.MS_SHARED|unix.MS_REC, ""), "share mounts of %s", netnsRoot)
}

func wrap(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf(format+": %w", append(args, err)...)
}

// unmountNamespace takes the name away; the kernel ends the namespace when its
// last process, socket and descriptor are gone. A name that is gone already, or
// a mark that was never mounted on, is no error.
func unmountNamespace(name string) error {
	path := filepath.Join(netnsRoot, name)
	err := unix.Unmount(path, unix.MNT_DETACH)
	if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("unmount namespace %s: %w", name, err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove namespace %s: %w", name, err)
	}
	return nil
}

// namespaces lists the named namespaces of a lab, full names.
func namespaces(prefix string) ([]string, error) {
	entries, err := os.ReadDir(netnsRoot)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("list namespaces: %w", err)
	}
	var names []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix+"-") {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// onOwnThread runs fn, which may move its thread to another network namespace,
// and brings the thread back. The thread is not thrown away instead: somebody's
// child process may have asked to die with it (PR_SET_PDEATHSIG goes by thread).
func onOwnThread(fn func() error) error {
	runtime.LockOSThread()
	home, err := os.Open(threadNS)
	if err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("open own namespace: %w", err)
	}
	defer func() {
		// Also after a panic or t.FailNow in fn. Were the way back barred, all
		// that follows would happen in the wrong network: better not to go on.
		if err := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); err != nil {
			panic(fmt.Sprintf("lab: return to own namespace: %v", err))
		}
		_ = home.Close()
		runtime.UnlockOSThread()
	}()
	return fn()
}

// enter moves the calling thread into ns. It is safe against a concurrent Close
// of ns.
func enter(ns *os.File) error {
	conn, err := ns.SyscallConn()
	if err != nil {
		return fmt.Errorf("enter namespace: %w", ErrClosed)
	}
	var errno error
	if err := conn.Control(func(fd uintptr) { errno = unix.Setns(int(fd), unix.CLONE_NEWNET) }); err != nil {
		return fmt.Errorf("enter namespace: %w", ErrClosed)
	}
	return wrap(errno, "enter namespace")
}
