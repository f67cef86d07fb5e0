package host

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"flanx/perf/lab"
)

// withEthtool runs f with an ethtool of our host's namespace.
func (l *xskLab) withEthtool(f func(*ethtool)) {
	l.tb.Helper()
	l.do(func() error {
		e, err := openEthtool()
		if err != nil {
			return err
		}
		defer e.close()
		f(e)
		return nil
	})
}

func TestEthtool(t *testing.T) {
	l := newXSKLab(t, lab.Wire{Queues: 2})
	l.withEthtool(func(e *ethtool) {
		if got := e.driver("eth0"); got != "veth" {
			t.Errorf("driver %q", got)
		}
		rx, tx, err := e.queues("eth0")
		if err != nil || rx != 2 || tx != 2 {
			t.Errorf("queues = %d, %d, %v; want 2, 2", rx, tx, err)
		}
		features, err := e.features("eth0")
		if err != nil || len(features) < 50 {
			t.Fatalf("%d features, %v", len(features), err)
		}
		want, err := l.us.Features("eth0") // read by other code
		if err != nil {
			t.Fatal(err)
		}
		for name, active := range want {
			if got, known := features[name]; !known || got != active {
				t.Errorf("feature %s: %v, known %v; want %v", name, got, known, active)
			}
		}
	})
}

func TestEthtoolErrors(t *testing.T) {
	l := newXSKLab(t, lab.Wire{})
	l.withEthtool(func(e *ethtool) {
		if got := e.driver("nosuch"); got != "" {
			t.Errorf("driver of a missing device: %q", got)
		}
		if _, _, err := e.queues("lo"); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("queues of loopback: %v, want ErrUnsupported", err)
		}
		if _, err := e.features("nosuch"); !errors.Is(err, unix.ENODEV) {
			t.Errorf("features of a missing device: %v, want ENODEV", err)
		}
		if _, err := e.features("a-name-longer-than-the-kernel-takes"); err == nil {
			t.Error("features of a device with an impossible name")
		}
	})
}

func TestEthtoolWithoutDescriptor(t *testing.T) {
	if _, err := (&ethtool{fd: -1}).features("lo"); !errors.Is(err, unix.EBADF) {
		t.Errorf("features: %v, want EBADF", err)
	}
}
