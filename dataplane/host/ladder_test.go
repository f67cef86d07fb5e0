package host

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"flanx/dataplane/xdpprog"
	"flanx/dataplane/xsk"
	"flanx/perf/lab"
)

func TestParseRung(t *testing.T) {
	for _, r := range []Rung{Auto, ZeroCopy, Native, Generic, UDP} {
		if got, err := ParseRung(r.String()); got != r || err != nil {
			t.Errorf("ParseRung(%q) = %v, %v", r, got, err)
		}
	}
	for _, bad := range []string{"", "AUTO", "zero-copy", "udp "} {
		if _, err := ParseRung(bad); !errors.Is(err, ErrRung) {
			t.Errorf("ParseRung(%q) = %v, want ErrRung", bad, err)
		}
	}
	if got := Rung(77).String() + Rung(77).Words(); got != "rung 77rung 77" {
		t.Errorf("an unknown rung is %q", got)
	}
}

// TestClimbOrder climbs with openers that fail as told.
func TestClimbOrder(t *testing.T) {
	notOffered := fmt.Errorf("bind: %w (%w)", xsk.ErrNotSupported, unix.EOPNOTSUPP)
	tooLong := fmt.Errorf("attach: %w: MTU 3600 is more", xdpprog.ErrNotSupported)
	foreign := fmt.Errorf("attach: %w", xdpprog.ErrForeignProgram)
	super := fmt.Errorf("%w of it", ErrSuperPackets)
	cases := map[string]struct {
		want   Rung
		errs   map[Rung]error
		got    Rung
		tried  int
		says   []string
		failed bool
	}{
		"all work":            {Auto, nil, ZeroCopy, 1, []string{"zero-copy"}, false},
		"no zero-copy":        {Auto, map[Rung]error{ZeroCopy: notOffered}, Native, 2, []string{"native copy (no zero-copy: driver", "does not offer it)"}, false},
		"no native":           {Auto, map[Rung]error{ZeroCopy: tooLong, Native: tooLong}, Generic, 3, []string{"generic (", "no native copy: ", "MTU 3600"}, false},
		"no AF_XDP":           {Auto, map[Rung]error{ZeroCopy: notOffered, Native: tooLong, Generic: super}, UDP, 3, []string{"UDP socket (", "no generic: ", "super-packets"}, false},
		"foreign program":     {Auto, map[Rung]error{ZeroCopy: foreign}, UDP, 1, []string{"UDP socket (no AF_XDP: ", "another XDP program"}, false},
		"errors of two lines": {Auto, map[Rung]error{ZeroCopy: errors.Join(errors.New("a"), errors.New("b"))}, Native, 2, []string{"a; b"}, false},
		"demanded":            {Generic, map[Rung]error{ZeroCopy: notOffered}, Generic, 1, []string{"generic"}, false},
		"demanded, refused":   {Native, map[Rung]error{Native: tooLong}, 0, 1, []string{"no native copy on lo", "MTU 3600"}, true},
		"UDP demanded":        {UDP, map[Rung]error{ZeroCopy: super}, UDP, 0, []string{"UDP socket"}, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			tried := 0
			open := func(_ XSKConfig, r Rung) (*XSK, error) {
				tried++
				if err := c.errs[r]; err != nil {
					return nil, err
				}
				return &XSK{Rung: r}, nil
			}
			g, err := climb(XSKConfig{IfIndex: 1}, c.want, open)
			if tried != c.tried || (err != nil) != c.failed {
				t.Fatalf("%d rungs tried, %v; want %d, failure %v", tried, err, c.tried, c.failed)
			}
			said := fmt.Sprint(err)
			if err == nil {
				if said = g.String(); g.Rung != c.got || (g.XSK == nil) != (c.got == UDP) {
					t.Errorf("granted %s, want %s", g.Rung, c.got)
				}
			}
			for _, part := range c.says {
				if !strings.Contains(said, part) {
					t.Errorf("says %q, want %q in it", said, part)
				}
			}
			if strings.Contains(said, "\n") {
				t.Errorf("says more than one line: %q", said)
			}
		})
	}
}

func TestClimbOnMissingInterface(t *testing.T) {
	for _, want := range []Rung{Auto, Native, UDP} {
		if _, err := Climb(XSKConfig{IfIndex: 4711}, want); err == nil {
			t.Errorf("Climb to %s on a missing interface: no error", want)
		}
	}
}

// TestClimb climbs on real devices.
func TestClimb(t *testing.T) {
	cases := map[string]struct {
		wire lab.Wire
		got  Rung
		says string
	}{
		"wire":          {lab.Wire{}, Native, "native copy (no zero-copy: driver veth does not offer it)"},
		"default veth":  {lab.Wire{Offloads: true}, Native, "native copy (no zero-copy: driver veth does not offer it)"},
		"MTU 3600 wire": {lab.Wire{MTU: 3600}, Generic, "MTU 3600"},
		"MTU 3600 veth": {lab.Wire{MTU: 3600, Offloads: true}, UDP, "super-packets"},
		"MTU 9000":      {lab.Wire{MTU: 9000}, UDP, "UDP socket (no AF_XDP: MTU is too large for AF_XDP: MTU 9000"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			l := newXSKLab(t, c.wire)
			g, err := l.climb(l.config(), Auto)
			if err != nil {
				t.Fatal(err)
			}
			if t.Log(g); g.Rung != c.got || !strings.Contains(g.String(), c.says) {
				t.Errorf("%s: %s; want %s, saying %q", g.Rung, g, c.got, c.says)
			}
			if g.XSK != nil {
				l.received(g.XSK.Ports[0], l.us.Addr())
			} else {
				l.passed()
			}
		})
	}
}

func TestClimbPastForeignProgram(t *testing.T) {
	l := newXSKLab(t, lab.Wire{})
	theirs := l.open(l.config(), Generic)
	g, err := l.climb(l.config(), Auto)
	if err != nil || g.Rung != UDP || !strings.Contains(g.String(), "another XDP program") {
		t.Errorf("%v, %v; want UDP because of the other program", g, err)
	}
	l.received(theirs.Ports[0], l.us.Addr())
}

// TestClimbWithoutPrivilege falls to the socket at once and names what is missing.
func TestClimbWithoutPrivilege(t *testing.T) {
	l := newXSKLab(t, lab.Wire{})
	cfg := l.config()
	ns, err := os.Open("/run/netns/" + l.us.Namespace())
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	type result struct {
		g   *Grant
		err error
	}
	done := make(chan result, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		var r result
		if r.err = unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); r.err == nil {
			r.err = dropCapabilities()
		}
		if r.err == nil {
			r.g, r.err = Climb(cfg, Auto)
		}
		done <- r
	}()
	r := <-done
	if r.err != nil || r.g.Rung != UDP || len(r.g.Missed) != 1 || !strings.Contains(r.g.String(), "CAP_BPF") {
		t.Errorf("%v, %v; want UDP at once, naming CAP_BPF", r.g, r.err)
	}
}

func dropCapabilities() error {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	return unix.Capset(&hdr, &data[0])
}
