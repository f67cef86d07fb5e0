package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"flanx/perf/lab/labtest"
)

// flanx runs the program inside the test.
func flanx(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, complaint bytes.Buffer
	code = run(t.Context(), args, &out, &complaint)
	return code, out.String(), complaint.String()
}

func TestCommandLine(t *testing.T) {
	tests := []struct {
		name           string
		args           []string
		code           int
		stdout, stderr string
	}{
		{"nothing", nil, exitOK, "Available Commands", ""},
		{"help", []string{"help"}, exitOK, "demo", ""},
		{"version", []string{"--version"}, exitOK, "flanx version ", ""},
		{"help of demo", []string{"demo", "--help"}, exitOK, "--keep", ""},
		{"unknown command", []string{"dmeo"}, exitUsage, "", `unknown command "dmeo" (did you mean demo?)`},
		{"unknown flag", []string{"demo", "--fast"}, exitUsage, "", "--fast"},
		{"argument too many", []string{"demo", "now"}, exitUsage, "", `takes no argument "now"`},
		{"unknown encapsulation", []string{"demo", "--encap", "gre"}, exitUsage, "", `"gre"`},
		{"unknown way", []string{"demo", "--io", "native,dpdk"}, exitUsage, "", `"dpdk"`},
		{"too many hosts", []string{"demo", "--hosts", "99"}, exitUsage, "", "99 hosts"},
		{"bad size", []string{"demo", "--size", "much"}, exitUsage, "", `"much" is no size`},
		{"size too large", []string{"demo", "--size", "2GiB"}, exitUsage, "", "bytes to move"},
		{"no such daemon", []string{"demo", "--flanxd", "/nonexistent"}, exitFailed, "", "/nonexistent"},
		{"etcd without address", []string{"etcd"}, exitUsage, "", "listen"},
		{"etcd with a bad pair", []string{"etcd", "--listen", "http://127.0.0.1:1", "--dir", "/nonexistent", "--put", "x"}, exitUsage, "", `"x"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			code, stdout, stderr := flanx(t, tt.args...)
			if code != tt.code || !strings.Contains(stdout, tt.stdout) || !strings.Contains(stderr, tt.stderr) {
				t.Errorf("exit status %d, want %d\nstdout %s\nstderr %s", code, tt.code, stdout, stderr)
			}
			if tt.stderr == "" && stderr != "" {
				t.Errorf("unexpected on stderr: %s", stderr)
			}
		})
	}
}

func TestCleanNothing(t *testing.T) {
	labtest.NeedRoot(t)
	if _, err := os.Stat("/run/flanx-lab/flanx-demo"); err == nil {
		t.Skip("somebody keeps a demo on this machine")
	}
	code, _, stderr := flanx(t, "demo", "--clean")
	if code != exitOK || !strings.Contains(stderr, "nothing to remove") {
		t.Errorf("exit status %d, %s", code, stderr)
	}
}
