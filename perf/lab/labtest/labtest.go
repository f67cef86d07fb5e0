package labtest

import (
	"os"
	"testing"

	"flanx/perf/lab"
)

// NeedRoot skips the test when it does not run as root. Under CI (CI=true) that
// is a failure instead: there nothing may be left untested in silence.
func NeedRoot(tb testing.TB) {
	tb.Helper()
	if os.Geteuid() == 0 {
		return
	}
	Skip(tb, "network namespaces need root")
}

// Skip skips the test for what the machine lacks, or fails it under CI.
func Skip(tb testing.TB, reason string) {
	tb.Helper()
	if os.Getenv("CI") == "true" {
		tb.Fatalf("cannot run, and may not be skipped when CI=true: %s", reason)
	}
	tb.Skip(reason)
}

// New makes an empty lab and closes it when the test ends, however it ends.
func New(tb testing.TB) *lab.Lab {
	tb.Helper()
	NeedRoot(tb)
	l, err := lab.New(tb.Context(), lab.Options{})
	if err != nil {
		tb.Fatalf("make lab: %v", err)
	}
	tb.Cleanup(func() {
		if err := l.Close(); err != nil {
			tb.Errorf("close lab: %v", err)
		}
	})
	return l
}

// Hosts makes a lab of named hosts joined by one wire.
func Hosts(tb testing.TB, w lab.Wire, names ...string) (*lab.Lab, []*lab.Host) {
	tb.Helper()
	l := New(tb)
	hosts := make([]*lab.Host, len(names))
	for i, name := range names {
		h, err := l.Host(name)
		if err != nil {
			tb.Fatalf("make host: %v", err)
		}
		hosts[i] = h
	}
	if err := l.Connect(w, hosts...); err != nil {
		tb.Fatalf("connect hosts: %v", err)
	}
	return l, hosts
}
