package lab_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"flanx/perf/lab"
	"flanx/perf/lab/labtest"
)

func TestOutputRunsInside(t *testing.T) {
	_, hosts := labtest.Hosts(t, lab.Wire{}, "a", "b")
	for _, h := range hosts {
		out, err := h.Output(t.Context(), "ls", "/sys/class/net")
		if err != nil || !strings.Contains(string(out), "eth0") || strings.Contains(string(out), "br0") {
			t.Errorf("host %s: devices %q, %v", h.Name(), out, err)
		}
		out, err = h.Output(t.Context(), "ip", "-4", "addr", "show", "dev", "eth0")
		if err != nil || !strings.Contains(string(out), h.Addr().String()) {
			t.Errorf("host %s: addresses %q, %v", h.Name(), out, err)
		}
	}
	_, err := hosts[0].Output(t.Context(), "ls", "/nonexistent")
	var exit *exec.ExitError
	if !errors.As(err, &exit) || !strings.Contains(err.Error(), "nonexistent") {
		t.Errorf("failed program: %v, want its exit status and complaint", err)
	}
	if _, err := hosts[0].Output(t.Context(), "/nonexistent/program"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing program: %v", err)
	}
}

func start(t *testing.T, ctx context.Context, script string) *lab.Process {
	t.Helper()
	h, err := labtest.New(t).Host("a")
	if err != nil {
		t.Fatal(err)
	}
	ready, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer ready.Close()
	p, err := h.Start(ctx, lab.Spec{Path: "sh", Args: []string{"-c", script}, Env: []string{"LAB=yes"}, Stdout: w})
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ready.Read(make([]byte, 16)); err != nil { // the script has begun
		t.Fatal(err)
	}
	return p
}

func TestStop(t *testing.T) {
	tests := []struct {
		name, script string
		check        func(error) bool
	}{
		{"ends when asked", `trap 'exit 7' TERM; echo $LAB; while :; do sleep 0.01; done`, func(err error) bool {
			var exit *exec.ExitError
			return errors.As(err, &exit) && exit.ExitCode() == 7
		}},
		{"must be killed", `trap '' TERM; echo $LAB; while :; do sleep 0.01; done`, func(err error) bool {
			return errors.Is(err, context.DeadlineExceeded)
		}},
		{"has ended", `echo $LAB`, func(err error) bool { return err == nil }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := start(t, t.Context(), tt.script)
			if tt.name == "has ended" {
				<-p.Done()
			}
			if err := p.Stop(300 * time.Millisecond); !tt.check(err) {
				t.Errorf("stop: %v", err)
			}
			if err := p.Signal(syscall.SIGTERM); !errors.Is(err, os.ErrProcessDone) {
				t.Errorf("signal after the end: %v", err)
			}
		})
	}
}

func TestContextKillsGroup(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	p := start(t, ctx, `echo $LAB; sleep 60; echo never`)
	cancel()
	select {
	case <-p.Done():
	case <-time.After(3 * time.Second):
		t.Fatal("the process outlived its context")
	}
	for deadline := time.Now().Add(3 * time.Second); groupRuns(t, p.PID()); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the process group is still there")
		}
	}
}

// groupRuns says whether a process of the group runs. One that was killed may
// stay as a zombie for long where process 1 does not care for orphans.
func groupRuns(t *testing.T, group int) bool {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range stats {
		b, err := os.ReadFile(path)
		if err != nil {
			continue // gone meanwhile
		}
		// proc_pid_stat(5): after the name in parentheses, state, parent, group.
		fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
		if fields[0] != "Z" && fields[2] == strconv.Itoa(group) {
			return true
		}
	}
	return false
}

// A process must not die because the thread or goroutine that asked for it did.
func TestProcessOutlivesItsStarter(t *testing.T) {
	h, err := labtest.New(t).Host("a")
	if err != nil {
		t.Fatal(err)
	}
	started := make(chan *lab.Process)
	go func() {
		_ = h.Do(func() error {
			p, err := h.Start(t.Context(), lab.Spec{Path: "sleep", Args: []string{"60"}})
			if err != nil {
				t.Error(err)
			}
			started <- p
			return nil
		})
	}()
	p := <-started
	select {
	case <-p.Done():
		t.Errorf("ended by itself: %v", p.Wait())
	case <-time.After(100 * time.Millisecond):
	}
}

func TestEnvironmentAndOutput(t *testing.T) {
	h, err := labtest.New(t).Host("a")
	if err != nil {
		t.Fatal(err)
	}
	var out, complaint bytes.Buffer
	p, err := h.Start(t.Context(), lab.Spec{
		Path: "sh", Args: []string{"-c", `read line; echo "$line $LAB"; echo oops >&2`},
		Env: []string{"LAB=yes"}, Stdin: strings.NewReader("so\n"), Stdout: &out, Stderr: &complaint,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(); err != nil || out.String() != "so yes\n" || complaint.String() != "oops\n" {
		t.Errorf("got %q, %q, %v", out.String(), complaint.String(), err)
	}
}
