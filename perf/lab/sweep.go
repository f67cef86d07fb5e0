package lab

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Sweep removes the labs of processes that are no more, and returns their
// prefixes. Labs with a name it leaves alone.
func Sweep() ([]string, error) {
	if err := needRoot(); err != nil {
		return nil, err
	}
	stale := map[string]bool{}
	for _, dir := range []string{netnsRoot, scratchRoot} {
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("look for old labs: %w", err)
		}
		for _, e := range entries {
			if prefix, pid, ok := parsePrefix(e.Name()); ok && !alive(pid) {
				stale[prefix] = true
			}
		}
	}
	var swept []string
	var errs []error
	for prefix := range stale {
		swept = append(swept, prefix)
		errs = append(errs, remove(prefix))
	}
	return swept, errors.Join(errs...)
}

// parsePrefix takes flanx-PID-N from a name that begins so.
func parsePrefix(name string) (prefix string, pid int, ok bool) {
	parts := strings.SplitN(name, "-", 4)
	if len(parts) < 3 || parts[0] != "flanx" {
		return "", 0, false
	}
	pid, err := strconv.Atoi(parts[1])
	if err != nil || pid <= 0 {
		return "", 0, false
	}
	if _, err := strconv.ParseUint(parts[2], 10, 63); err != nil {
		return "", 0, false
	}
	return strings.Join(parts[:3], "-"), pid, true
}

// alive errs on the side of yes: a number that was given to another process
// keeps a lab until that one ends too.
func alive(pid int) bool {
	return !errors.Is(unix.Kill(pid, 0), unix.ESRCH)
}

// remove takes away everything that belongs to a prefix. It goes on after
// errors, and finding nothing is none.
func remove(prefix string) error {
	names, err := namespaces(prefix)
	errs := []error{err}
	for _, name := range names {
		errs = append(errs, killInside(name))
	}
	for _, name := range names {
		errs = append(errs, removeDevices(name), unmountNamespace(name))
	}
	errs = append(errs, os.RemoveAll(filepath.Join(scratchRoot, prefix)))
	return wrap(errors.Join(errs...), "remove lab %s", prefix)
}

// removeDevices deletes the namespace's devices now: the kernel would do it too,
// but only some time after the last socket in it is closed.
func removeDevices(name string) error {
	ns, err := os.Open(filepath.Join(netnsRoot, name))
	if err != nil {
		return fmt.Errorf("open namespace %s: %w", name, err)
	}
	defer ns.Close()
	return onOwnThread(func() error {
		if err := enter(ns); err != nil {
			return nil // a mark that was never mounted on: no devices
		}
		links, err := netlink.LinkList()
		if err != nil {
			return fmt.Errorf("list devices of %s: %w", name, err)
		}
		for _, l := range links {
			if l.Attrs().Name != "lo" {
				_ = netlink.LinkDel(l) // may have gone with its peer; fixed ones go with the namespace
			}
		}
		return nil
	})
}

// killWait is how long a killed process may take to vanish; the kernel may be
// busy freeing its memory.
const killWait = 5 * time.Second

// killInside kills every process whose main thread is in the namespace, and
// waits until none is left: a process could just be making another.
func killInside(name string) error {
	var st unix.Stat_t
	if err := unix.Stat(filepath.Join(netnsRoot, name), &st); err != nil {
		return fmt.Errorf("look at namespace %s: %w", name, err)
	}
	for deadline := time.Now().Add(killWait); ; time.Sleep(2 * time.Millisecond) {
		pids := inside(st)
		if len(pids) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("kill processes in namespace %s: %v still run", name, pids)
		}
		for _, pid := range pids {
			killIf(pid, st)
		}
	}
}

// inside lists the processes, but for our own, whose network namespace is the
// file that st describes. Zombies have none.
func inside(st unix.Stat_t) []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err == nil && pid != os.Getpid() && isInside(pid, st) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func isInside(pid int, st unix.Stat_t) bool {
	var ns unix.Stat_t
	err := unix.Stat(fmt.Sprintf("/proc/%d/ns/net", pid), &ns)
	return err == nil && ns.Ino == st.Ino && ns.Dev == st.Dev
}

// killIf kills the process if it is inside, and not another that got its number
// in between: the descriptor is taken before the second look.
func killIf(pid int, st unix.Stat_t) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if isInside(pid, st) {
		_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	}
}
