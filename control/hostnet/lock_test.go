package hostnet

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestLock(t *testing.T) {
	path := LockPath(filepath.Join(t.TempDir(), "run", "subnet.env"))
	l, err := TakeLock(path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = TakeLock(path)
	if !errors.Is(err, ErrLocked) {
		t.Fatalf("second: error %v", err)
	}
	for _, s := range []string{"pid " + strconv.Itoa(os.Getpid()), path, "-subnet-file"} {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("error %q does not say %q", err, s)
		}
	}
	if other, err := TakeLock(path + "2"); err != nil {
		t.Errorf("with another subnet file: %v", err)
	} else if err := other.Release(); err != nil {
		t.Error(err)
	}
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
	again, err := TakeLock(path)
	if err != nil {
		t.Fatalf("after release: %v", err)
	}
	if err := again.Release(); err != nil {
		t.Error(err)
	}
}

// A long or foreign content of the lock file must not matter.
func TestLockOverRubbish(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	if err := os.WriteFile(path, []byte(strings.Repeat("9", 1000)), 0o644); err != nil {
		t.Fatal(err)
	}
	holder, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Flock(int(holder.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if _, err := TakeLock(path); !errors.Is(err, ErrLocked) || strings.Contains(err.Error(), "pid") {
		t.Errorf("error %v", err)
	}
	if err := holder.Close(); err != nil {
		t.Fatal(err)
	}
	l, err := TakeLock(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Release()
	if b, _ := os.ReadFile(path); string(b) != fmt.Sprintf("%d\n", os.Getpid()) {
		t.Errorf("lock file holds %q", b)
	}
}

func TestLockFails(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("file", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for path, cause := range map[string]error{
		filepath.Join(dir, "file", "lock"): unix.ENOTDIR,
		filepath.Join(dir, "link"):         unix.ELOOP, // not through links
		dir:                                unix.EISDIR,
	} {
		_, err := TakeLock(path)
		if !errors.Is(err, cause) || !strings.Contains(err.Error(), "-subnet-file") {
			t.Errorf("%s: error %v, want %v", path, err, cause)
		}
	}
}

// TestLockHolder is no test but the other process of TestLockEndsWithTheProcess.
func TestLockHolder(t *testing.T) {
	path := os.Getenv("FLANX_TEST_LOCK")
	if path == "" {
		return
	}
	if _, err := TakeLock(path); err != nil {
		t.Fatal(err)
	}
	fmt.Println("held")
	select {}
}

func TestLockEndsWithTheProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	cmd := exec.Command(os.Args[0], "-test.run=^TestLockHolder$")
	cmd.Env = append(os.Environ(), "FLANX_TEST_LOCK="+path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() && lines.Text() != "held" {
	}
	_, err = TakeLock(path)
	if !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), fmt.Sprintf("pid %d", cmd.Process.Pid)) {
		t.Errorf("while held: error %v", err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed: of course
	l, err := TakeLock(path)
	if err != nil {
		t.Fatalf("after SIGKILL: %v", err)
	}
	if err := l.Release(); err != nil {
		t.Error(err)
	}
}
