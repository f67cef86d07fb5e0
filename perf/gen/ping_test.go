package gen_test

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"flanx/perf/gen"
	"flanx/perf/lab"
	"flanx/perf/lab/labtest"
)

func TestPing(t *testing.T) {
	_, hosts := labtest.Hosts(t, lab.Wire{}, "a", "b")
	a, b := hosts[0], hosts[1]
	tests := []struct {
		name string
		c    gen.PingConfig
	}{
		{"IPv4", gen.PingConfig{From: a.Addr(), To: b.Addr(), Count: 5}},
		{"IPv6", gen.PingConfig{From: a.Addr6(), To: b.Addr6(), Count: 5}},
		{"ourselves", gen.PingConfig{From: a.Addr(), To: a.Addr()}},
		{"in fragments", gen.PingConfig{From: a.Addr(), To: b.Addr(), Count: 2, Size: 9000}},
		{"the smallest", gen.PingConfig{From: a.Addr(), To: b.Addr(), Size: 8}},
		{"many at once", gen.PingConfig{From: a.Addr(), To: b.Addr(), Count: 50, Interval: time.Microsecond}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			res, err := gen.Ping(t.Context(), a.Do, tt.c)
			if err != nil || !res.OK() || res.Sent != max(tt.c.Count, 1) || len(res.RTT) != res.Sent {
				t.Fatalf("%+v, %v", res, err)
			}
			if m := res.MedianRTT(); m <= 0 || m > time.Second {
				t.Errorf("median round trip %s", m)
			}
		})
	}
}

func TestPingWithoutAnswer(t *testing.T) {
	_, hosts := labtest.Hosts(t, lab.Wire{}, "a", "b")
	a := hosts[0]
	nobody := netip.MustParseAddr("10.99.0.77")
	res, err := gen.Ping(t.Context(), a.Do, gen.PingConfig{From: a.Addr(), To: nobody, Count: 2, Timeout: 50 * time.Millisecond})
	if err != nil || res.OK() || res.Sent != 2 || res.Received != 0 || res.MedianRTT() != 0 {
		t.Errorf("silence: %+v, %v", res, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	begin := time.Now()
	_, err = gen.Ping(ctx, a.Do, gen.PingConfig{From: a.Addr(), To: nobody, Timeout: time.Minute})
	if !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) > 5*time.Second {
		t.Errorf("context over: %v after %s", err, time.Since(begin))
	}
}

func TestPingErrors(t *testing.T) {
	_, hosts := labtest.Hosts(t, lab.Wire{}, "a", "b")
	a, b := hosts[0].Addr(), hosts[1].Addr()
	tests := []struct {
		name, want string
		c          gen.PingConfig
	}{
		{"no addresses", "family", gen.PingConfig{}},
		{"mixed families", "family", gen.PingConfig{From: a, To: hosts[1].Addr6()}},
		{"not our address", b.String(), gen.PingConfig{From: b, To: a}},
		{"no route", "192.0.2.1", gen.PingConfig{From: a, To: netip.MustParseAddr("192.0.2.1")}},
		{"too large", "size", gen.PingConfig{From: a, To: b, Size: 65001}},
		{"too many", "count", gen.PingConfig{From: a, To: b, Count: 65536}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := gen.Ping(t.Context(), hosts[0].Do, tt.c); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one that names %q", err, tt.want)
			}
		})
	}
}

// Two calls from one namespace see each other's replies, and must not count them.
func TestPingsAtOnce(t *testing.T) {
	_, hosts := labtest.Hosts(t, lab.Wire{}, "a", "b")
	c := gen.PingConfig{From: hosts[0].Addr(), To: hosts[1].Addr(), Count: 20, Interval: time.Millisecond}
	results := make(chan gen.PingResult)
	for range 4 {
		go func() {
			res, err := gen.Ping(t.Context(), hosts[0].Do, c)
			if err != nil {
				t.Error(err)
			}
			results <- res
		}()
	}
	for range 4 {
		if res := <-results; !res.OK() {
			t.Errorf("%+v", res)
		}
	}
}
