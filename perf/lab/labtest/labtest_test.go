package labtest_test

import (
	"os"
	"testing"

	"flanx/perf/lab"
	"flanx/perf/lab/labtest"
)

// fakeTB notes what a test would have been told.
type fakeTB struct {
	testing.TB
	skipped, failed bool
}

func (f *fakeTB) Helper()               {}
func (f *fakeTB) Skip(...any)           { f.skipped = true }
func (f *fakeTB) Fatalf(string, ...any) { f.failed = true }

func TestSkipFailsUnderCI(t *testing.T) {
	for ci, want := range map[string]fakeTB{"true": {failed: true}, "": {skipped: true}, "false": {skipped: true}} {
		t.Setenv("CI", ci)
		var got fakeTB
		labtest.Skip(&got, "no such machine")
		if got.failed != want.failed || (got.skipped != want.skipped && !got.failed) {
			t.Errorf("CI=%q: skipped %v, failed %v", ci, got.skipped, got.failed)
		}
	}
}

func TestHostsAreGoneWithTheTest(t *testing.T) {
	var l *lab.Lab
	t.Run("user", func(t *testing.T) {
		var hosts []*lab.Host
		l, hosts = labtest.Hosts(t, lab.Wire{}, "a", "b")
		if len(hosts) != 2 || hosts[0].Name() != "a" || !hosts[1].Addr().IsValid() {
			t.Errorf("hosts %v", hosts)
		}
	})
	if l == nil {
		t.Skip("not root")
	}
	if _, err := os.Stat(l.Dir()); !os.IsNotExist(err) {
		t.Errorf("the lab is still there: %v", err)
	}
}
