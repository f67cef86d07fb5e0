package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"flanx/cmd/internal/config"
	"flanx/cmd/internal/wire"
	"flanx/control"
	"flanx/control/hostnet"
)

// asDaemon makes the test binary be flanxd, for tests that need a process.
const asDaemon = "FLANX_TEST_BE_FLANXD"

func TestMain(m *testing.M) {
	if os.Getenv(asDaemon) != "" {
		main()
	}
	goleak.VerifyTestMain(m)
}

// output is what a run wrote, readable while it writes.
type output struct {
	mu sync.Mutex
	b  strings.Builder
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

// waitFor waits until the output holds s.
func (o *output) waitFor(t *testing.T, s string) {
	t.Helper()
	for range 1000 {
		if strings.Contains(o.String(), s) {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("output never said %q:\n%s", s, o)
}

// env gives a run a subnet file of its own, and more variables.
func env(t *testing.T, more ...string) []string {
	return append(more, "FLANNELD_SUBNET_FILE="+filepath.Join(t.TempDir(), "subnet.env"))
}

// never is a node that must not be started.
func never(t *testing.T) start {
	return func(context.Context, config.Daemon, *slog.Logger, func(error)) error {
		t.Error("the node was started")
		return nil
	}
}

// ends is a node that ends with an error at once.
func ends(err error) start {
	return func(context.Context, config.Daemon, *slog.Logger, func(error)) error { return err }
}

// serves is a node that is ready until it is told to end.
func serves(ctx context.Context, _ config.Daemon, _ *slog.Logger, ready func(error)) error {
	ready(nil)
	<-ctx.Done()
	return nil
}

func TestRunAnswersAndEnds(t *testing.T) {
	tests := []struct {
		name, args string
		env        []string
		code       exitCode
		out, errs  string // parts
	}{
		{name: "help", args: "-help", out: "Usage: flanxd [flags]"},
		{name: "version", args: "-version", env: []string{"FLANNELD_VERSION=x"}, out: "flanxd "},
		{name: "unknown flag", args: "-nonsense", code: exitUsage, errs: "-nonsense"},
		{name: "wrong value", args: "-io fast", code: exitUsage, errs: `-io "fast"`},
		{name: "wrong variable", env: []string{"FLANNELD_WORKERS=x"}, code: exitUsage, errs: "FLANNELD_WORKERS"},
		{name: "Kubernetes", args: "-kube-subnet-mgr", code: exitUsage, errs: "reads leases from etcd"},
		{name: "margin, as with flanneld", args: "-subnet-lease-renew-margin 0", code: exitFailure, errs: "1 to 1439"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var out, errs output
			code := run(t.Context(), strings.Fields(test.args), env(t, test.env...), &out, &errs, never(t))
			if code != test.code {
				t.Errorf("code %d, want %d", code, test.code)
			}
			if !strings.Contains(out.String(), test.out) || (test.out == "") != (out.String() == "") {
				t.Errorf("output %q, want %q", &out, test.out)
			}
			if !strings.Contains(errs.String(), test.errs) || (test.errs == "") != (errs.String() == "") {
				t.Errorf("errors %q, want %q", &errs, test.errs)
			}
			if strings.Count(errs.String(), "\n") > 1 {
				t.Errorf("more than one line of error:\n%s", &errs)
			}
		})
	}
}

func TestExitCodes(t *testing.T) {
	tests := []struct {
		name string
		err  error
		code exitCode
	}{
		{"ended by a signal", nil, exitOK},
		{"unknown", errors.New("anything"), exitFailure},
		{"no interface", fmt.Errorf("x: %w", hostnet.ErrNoInterface), exitFailure},
		{"out of subnets", fmt.Errorf("x: %w", control.ErrOutOfSubnets), exitFailure},
		{"unknown backend", fmt.Errorf("x: %w", wire.ErrBackend), exitNetwork},
		{"bad network configuration", fmt.Errorf("x: %w", control.ErrBadConfig), exitNetwork},
		{"MTU too small", fmt.Errorf("x: %w", hostnet.ErrMTU), exitNetwork},
		{"no nftables", fmt.Errorf("x: %w", hostnet.ErrNotSupported), exitPrivilege},
		{"not root", os.NewSyscallError("socket", unix.EPERM), exitPrivilege},
		{"file not ours", &os.PathError{Op: "open", Path: "x", Err: unix.EACCES}, exitPrivilege},
		{"demanded way not there", fmt.Errorf("x: %w", wire.ErrUnderlay), exitPrivilege},
		{"second instance", fmt.Errorf("x: %w", hostnet.ErrLocked), exitInUse},
		{"conflict", fmt.Errorf("x: %w", hostnet.ErrConflict), exitInUse},
		{"port taken", &net.OpError{Op: "listen", Err: os.NewSyscallError("bind", unix.EADDRINUSE)}, exitInUse},
		{"device taken", fmt.Errorf("x: %w", unix.EBUSY), exitInUse},
		{"lease lost", fmt.Errorf("x: %w", control.ErrLeaseLost), exitLeaseLost},
		{"lease lost, and cleaning up failed", errors.Join(control.ErrLeaseLost, unix.EPERM), exitLeaseLost},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var out, errs output
			if code := run(t.Context(), nil, env(t), &out, &errs, ends(test.err)); code != test.code {
				t.Errorf("code %d, want %d", code, test.code)
			}
			if test.err != nil && !strings.HasSuffix(errs.String(), "flanxd: "+oneLine(test.err)+"\n") {
				t.Errorf("last words %q", &errs)
			}
		})
	}
}

// freePort finds a port that nobody listens on.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func get(t *testing.T, url string) (status int, body string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}
	resp, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// A whole life: start, not ready, ready, systemd told, SIGHUP, end by context.
func TestLife(t *testing.T) {
	notify := filepath.Join(t.TempDir(), "notify")
	systemd, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: notify, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer systemd.Close()
	t.Setenv("NOTIFY_SOCKET", notify)
	told := func() string {
		b := make([]byte, 256)
		_ = systemd.SetReadDeadline(time.Now().Add(5 * time.Second))
		n, err := systemd.Read(b)
		if err != nil {
			t.Fatalf("systemd was not told: %v", err)
		}
		return string(b[:n])
	}

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	goOn := make(chan error)
	node := func(ctx context.Context, cfg config.Daemon, log *slog.Logger, ready func(error)) error {
		if cfg.TUNName != "flannel7" {
			t.Errorf("the node was told %+v", cfg)
		}
		for err := range goOn {
			ready(err)
			log.Info("told", "ready", err == nil)
		}
		<-ctx.Done()
		return nil
	}
	port := freePort(t)
	var out, errs output
	code := make(chan exitCode)
	go func() {
		args := fmt.Sprintf("-healthz-ip 127.0.0.1 -healthz-port %d -tun-name flannel7 -vmodule x=1 -log-format json", port)
		code <- run(ctx, strings.Fields(args), env(t), &out, &errs, node)
	}()
	url := fmt.Sprintf("http://127.0.0.1:%d/", port)

	goOn <- errors.New("waiting for a lease")
	errs.waitFor(t, `"ready":false`)
	if status, body := get(t, url+"healthz"); status != 200 || body != "flanxd is running\n" {
		t.Errorf("healthz: %d %q", status, body)
	}
	if status, body := get(t, url+"readyz"); status != 503 || !strings.Contains(body, "waiting for a lease") {
		t.Errorf("readyz before: %d %q", status, body)
	}
	goOn <- nil
	if got := told(); got != "READY=1" {
		t.Errorf("systemd was told %q", got)
	}
	errs.waitFor(t, `"ready":true`)
	if status, body := get(t, url+"readyz"); status != 200 || body != "flanxd is ready\n" {
		t.Errorf("readyz: %d %q", status, body)
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	errs.waitFor(t, "SIGHUP ignored")
	close(goOn)
	cancel()
	if got := told(); got != "STOPPING=1" {
		t.Errorf("systemd was told %q", got)
	}
	if got := <-code; got != exitOK {
		t.Errorf("code %d", got)
	}
	for line := range strings.Lines(errs.String()) {
		if !json.Valid([]byte(line)) {
			t.Errorf("log line is no JSON: %s", line)
		}
	}
	if !strings.Contains(errs.String(), "-vmodule has no effect") || out.String() != "" {
		t.Errorf("log:\n%s\noutput: %s", &errs, &out)
	}
}

func TestHealthPortTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	args := fmt.Sprintf("-healthz-ip 127.0.0.1 -healthz-port %d", l.Addr().(*net.TCPAddr).Port)
	var out, errs output
	if code := run(t.Context(), strings.Fields(args), env(t), &out, &errs, never(t)); code != exitInUse {
		t.Errorf("code %d, want %d", code, exitInUse)
	}
	if !strings.Contains(errs.String(), "-healthz-port") {
		t.Errorf("errors %q", &errs)
	}
}

func TestSecondInstance(t *testing.T) {
	vars := env(t)
	var out, errs output
	code := run(t.Context(), nil, vars, &out, &errs, func(context.Context, config.Daemon, *slog.Logger, func(error)) error {
		var errs output
		if code := run(t.Context(), nil, vars, &out, &errs, never(t)); code != exitInUse {
			t.Errorf("second instance: code %d", code)
		}
		errs.waitFor(t, fmt.Sprintf("another flanxd is running (pid %d)", os.Getpid()))
		return nil
	})
	if code != exitOK {
		t.Errorf("first instance: code %d: %s", code, &errs)
	}
}

func TestLogLevel(t *testing.T) {
	for args, want := range map[string]string{
		"":                     "INFO WARN ERROR",
		"-v 1":                 "DEBUG INFO WARN ERROR",
		"-log-level debug":     "DEBUG INFO WARN ERROR",
		"-log-level warn":      "WARN ERROR",
		"-log-level error":     "ERROR",
		"-v 2 -log-level warn": "WARN ERROR",
	} {
		t.Run(args, func(t *testing.T) {
			var out, errs output
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			run(ctx, strings.Fields(args), env(t), &out, &errs, func(ctx context.Context, c config.Daemon, log *slog.Logger, ready func(error)) error {
				log.Debug("test")
				log.Info("test")
				log.Warn("test")
				log.Error("test")
				cancel()
				return serves(ctx, c, log, ready)
			})
			var got []string
			for line := range strings.Lines(errs.String()) {
				if _, rest, ok := strings.Cut(line, "level="); ok && strings.HasSuffix(line, "msg=test\n") {
					got = append(got, strings.Fields(rest)[0])
				}
			}
			if strings.Join(got, " ") != want {
				t.Errorf("logged %v, want %s", got, want)
			}
		})
	}
}
