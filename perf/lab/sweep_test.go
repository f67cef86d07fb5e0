package lab_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"flanx/perf/lab"
	"flanx/perf/lab/labtest"
)

// TestMain lets a test run this binary again as a program that builds a lab and
// dies without a word.
func TestMain(m *testing.M) {
	switch os.Getenv("LAB_TEST_ROLE") {
	case "die":
		dieWithLab()
	case "leave":
		leaveLab(os.Getenv("LAB_TEST_NAME"))
	}
	os.Exit(m.Run())
}

func must[T any](v T, err error) T {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
	return v
}

func dieWithLab() {
	l := must(lab.New(context.Background(), lab.Options{}))
	h := must(l.Host("a"))
	p := must(h.Start(context.Background(), lab.Spec{Path: "sleep", Args: []string{"60"}}))
	fmt.Println(l.Prefix(), p.PID())
	must(0, syscall.Kill(os.Getpid(), syscall.SIGKILL))
}

func leaveLab(name string) {
	l := must(lab.New(context.Background(), lab.Options{Name: name}))
	h := must(l.Host("a"))
	p := must(h.Start(context.Background(), lab.Spec{Path: "sleep", Args: []string{"60"}}))
	must(0, l.Leave())
	fmt.Println(l.Prefix(), p.PID())
	os.Exit(0)
}

// again runs this test binary in a role and returns the prefix and process id
// that it printed.
func again(t *testing.T, role, name string) (prefix string, pid int) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "LAB_TEST_ROLE="+role, "LAB_TEST_NAME="+name)
	cmd.Stderr = os.Stderr
	out, _ := cmd.Output() // "die" ends by a signal
	if _, err := fmt.Sscan(string(out), &prefix, &pid); err != nil {
		t.Fatalf("role %s printed %q: %v", role, out, err)
	}
	return prefix, pid
}

// gone waits for a process to end. Reaping it is for process 1.
func gone(pid int) bool {
	for range 200 {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || strings.Contains(string(b), ") Z ") {
			return true
		}
		time.Sleep(10 * time.Millisecond)
	}
	return false
}

func TestSweepAfterDeath(t *testing.T) {
	mine := labtest.New(t)
	if _, err := mine.Host("a"); err != nil {
		t.Fatal(err)
	}
	prefix, pid := again(t, "die", "")
	if !gone(pid) {
		t.Error("the process outlived its starter")
	}
	if len(tracesOf(t, prefix)) == 0 {
		t.Fatal("nothing to sweep")
	}
	swept, err := lab.Sweep()
	if err != nil {
		t.Fatal(err)
	}
	// Another program's first lab may have swept before us: what counts is that
	// it is gone, and that ours is not.
	if left := tracesOf(t, prefix); len(left) > 0 {
		t.Errorf("left behind after sweep of %v: %v", swept, left)
	}
	if len(tracesOf(t, mine.Prefix()+"-")) == 0 || slices.Contains(swept, mine.Prefix()) {
		t.Error("a living lab was swept")
	}
}

func TestLeaveAndRemove(t *testing.T) {
	labtest.NeedRoot(t)
	name := fmt.Sprintf("t%d", os.Getpid())
	prefix, pid := again(t, "leave", name)
	t.Cleanup(func() { _, _ = lab.Remove(name) })
	if prefix != "flanx-"+name {
		t.Errorf("prefix %s", prefix)
	}
	if _, err := lab.Sweep(); err != nil {
		t.Error(err)
	}
	if left := tracesOf(t, prefix); len(left) != 2 {
		t.Errorf("a lab that was left shows as %v, want namespace and folder", left)
	}
	if err := syscall.Kill(pid, 0); err != nil {
		t.Errorf("the process of a lab that was left: %v", err)
	}
	if _, err := lab.New(t.Context(), lab.Options{Name: name}); !errors.Is(err, lab.ErrExists) {
		t.Errorf("same name again: %v, want ErrExists", err)
	}
	if found, err := lab.Remove(name); err != nil || !found {
		t.Errorf("remove: %v, %v", found, err)
	}
	if left := tracesOf(t, prefix); len(left) != 0 || !gone(pid) {
		t.Errorf("left behind: %v, process %d", left, pid)
	}
	if found, err := lab.Remove(name); err != nil || found {
		t.Errorf("remove again: %v, %v", found, err)
	}
	if _, err := lab.Remove("../x"); !errors.Is(err, lab.ErrName) {
		t.Errorf("remove by a bad name: %v", err)
	}
}

func TestNewBadName(t *testing.T) {
	labtest.NeedRoot(t)
	for _, name := range []string{"1", "A", "a-b", "a/b", strings.Repeat("a", 12)} {
		if _, err := lab.New(t.Context(), lab.Options{Name: name}); !errors.Is(err, lab.ErrName) {
			t.Errorf("name %q: %v, want ErrName", name, err)
		}
	}
}
