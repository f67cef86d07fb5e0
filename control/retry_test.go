package control

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestBackoffDoublesToItsCap(t *testing.T) {
	b := Backoff{Min: 100 * time.Millisecond, Max: 5 * time.Second}
	for round := range 2 {
		full := b.Min
		for range 10 {
			if d := b.Next(); d < full/2 || d > full {
				t.Errorf("round %d: wait of %s, want between %s and %s", round, d, full/2, full)
			}
			full = min(2*full, b.Max)
		}
		b.Reset()
	}
}

func TestWaitEndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		b := Backoff{Min: time.Hour, Max: time.Hour}
		if err := b.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("Wait returned %v after %s", err, time.Since(began))
		}
		if err := Sleep(t.Context(), time.Minute); err != nil {
			t.Error(err)
		}
	})
}

func TestJitterIsAQuarter(t *testing.T) {
	for range 1000 {
		if d := Jitter(time.Minute); d < 45*time.Second || d > 75*time.Second {
			t.Fatalf("%s is not within a quarter of a minute", d)
		}
	}
}

func TestOutageLogsChangesOnly(t *testing.T) {
	var buf bytes.Buffer
	o := Outage{Log: slog.New(slog.NewTextHandler(&buf, nil))}
	o.Up("back")
	for range 5 {
		o.Down("away", errors.New("refused"), "endpoint", "e1")
	}
	if !o.IsDown() {
		t.Error("not down after Down")
	}
	o.Up("back")
	o.Up("back")
	o.Down("away", errors.New("reset"))
	lines := strings.Split(strings.TrimSpace(buf.String()), "\n")
	if len(lines) != 3 || !strings.Contains(lines[0], "endpoint=e1 err=refused") || !strings.Contains(lines[1], "msg=back away=") {
		t.Errorf("log:\n%s", buf.String())
	}
}

func TestWarningsAreFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var buf bytes.Buffer
		w := Warnings{Log: slog.New(slog.NewTextHandler(&buf, nil))}
		lines := func() int { n := strings.Count(buf.String(), "\n"); buf.Reset(); return n }
		for range 1000 {
			w.Warn("bad")
		}
		if n := lines(); n != warnBurst {
			t.Errorf("%d lines at once, want %d", n, warnBurst)
		}
		time.Sleep(warnEvery)
		w.Warn("bad")
		if !strings.Contains(buf.String(), "suppressed=990") {
			t.Errorf("the count of suppressed warnings is missing: %s", buf.String())
		}
		lines()
		for range 600 {
			time.Sleep(100 * time.Millisecond)
			w.Warn("bad")
		}
		if n := lines(); n < 11 || n > 13 {
			t.Errorf("%d lines in a minute, want 12", n)
		}
	})
}
