package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"flanx/cmd/flanx/internal/demo"
	"flanx/perf/lab/labtest"
)

// built is where both programs lie side by side, as a user would have them.
var built = sync.OnceValues(func() (dir string, err error) {
	if dir, err = os.MkdirTemp("", "flanx-test-"); err != nil {
		return "", err
	}
	cmd := exec.Command("go", "build", "-buildvcs=false", "-ldflags=-s -w", "-o", dir, "../flanxd", ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return dir, fmt.Errorf("build: %w: %s", err, out)
	}
	return dir, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if wasBuilt.Load() {
		if dir, _ := built(); dir != "" {
			_ = os.RemoveAll(dir)
		}
	}
	os.Exit(code)
}

// wasBuilt keeps TestMain from building only to remove.
var wasBuilt atomic.Bool

func binary(t *testing.T) string {
	t.Helper()
	labtest.NeedRoot(t)
	wasBuilt.Store(true)
	dir, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "flanx")
}

// labsOf lists what the process left on the machine.
func labsOf(t *testing.T, pid int) []string {
	t.Helper()
	var names []string
	for _, dir := range []string{"/run/netns/", "/run/flanx-lab/"} {
		found, err := filepath.Glob(dir + "flanx-" + strconv.Itoa(pid) + "-*")
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, found...)
	}
	return names
}

// The whole thing, as "make demo" runs it.
func TestDemo(t *testing.T) {
	cmd := exec.Command(binary(t), "demo", "--json", "--size", "16MiB")
	cmd.Stderr = t.Output()
	out, err := cmd.Output()
	var rep demo.Report
	if jsonErr := json.Unmarshal(out, &rep); jsonErr != nil {
		t.Fatalf("%v, %v: %s", err, jsonErr, out)
	}
	if len(rep.Rows) != 6 {
		t.Errorf("%d rows, want 6", len(rep.Rows))
	}
	for _, r := range rep.Rows {
		t.Logf("%s, %s: granted %s, pings %d/%d, %.2f Gbit/s", r.Encap, r.Asked, r.Granted, r.PingsOK, r.Pings, r.BitsPerSecond/1e9)
		if !r.OK() {
			t.Errorf("%s, %s: %s\n%v", r.Encap, r.Asked, r.Failure, r.Logs)
		}
	}
	if err != nil {
		t.Error(err)
	}
	if left := labsOf(t, cmd.Process.Pid); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// Ctrl-C in the middle, twice, as an impatient user would.
func TestDemoInterrupted(t *testing.T) {
	cmd := exec.Command(binary(t), "demo", "--encap", "udp", "--io", "udp")
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(30 * time.Second)
	for len(labsOf(t, cmd.Process.Pid)) < 5 && time.Now().Before(deadline) {
		time.Sleep(10 * time.Millisecond)
	}
	time.Sleep(200 * time.Millisecond)
	for range 2 {
		if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Error(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	err := cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != exitFailed {
		t.Errorf("%v, want exit status %d\n%s", err, exitFailed, &out)
	}
	if left := labsOf(t, cmd.Process.Pid); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
