package gen_test

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"flanx/perf/gen"
	"flanx/perf/lab"
	"flanx/perf/lab/labtest"
)

func TestFloodArrivesWhole(t *testing.T) {
	_, hosts := labtest.Hosts(t, lab.Wire{}, "a", "b")
	a, b := hosts[0], hosts[1]
	from, to := netip.AddrPortFrom(a.Addr(), 0), netip.AddrPortFrom(b.Addr(), 0)
	tests := []struct {
		name  string
		c     gen.FloodConfig
		exact uint64 // datagrams
	}{
		{"defaults at a low rate", gen.FloodConfig{Rate: 1000}, 200},
		{"large ones", gen.FloodConfig{Rate: 1000, Size: 1400}, 200},
		{"many flows", gen.FloodConfig{Rate: 1000, Flows: 16}, 200},
		{"bursts", gen.FloodConfig{Rate: 10000, Burst: 50}, 2000},
		{"bursts of many flows from given ports", gen.FloodConfig{Rate: 10000, Burst: 10, Flows: 3, From: netip.AddrPortFrom(a.Addr(), 7000)}, 2000},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := tt.c
			c.To, c.Duration, c.Seed = to, 200*time.Millisecond, 3
			if !c.From.IsValid() {
				c.From = from
			}
			res, err := gen.Flood(t.Context(), a.Do, b.Do, c)
			if err != nil {
				t.Fatal(err)
			}
			if res.Received != res.Sent || res.Lost+res.Reordered+res.Duplicates+res.Foreign+res.Refused != 0 {
				t.Errorf("not all arrived in order: %+v", res)
			}
			// A stall of this machine may end the sending early, never late.
			if res.Sent > tt.exact || res.Sent < tt.exact/2 {
				t.Errorf("sent %d, want %d", res.Sent, tt.exact)
			}
		})
	}
}

func TestFloodAtFullSpeedAddsUp(t *testing.T) {
	_, hosts := labtest.Hosts(t, lab.Wire{}, "a", "b")
	a, b := hosts[0], hosts[1]
	for _, burst := range []int{1, 40} {
		res, err := gen.Flood(t.Context(), a.Do, b.Do, gen.FloodConfig{
			From: netip.AddrPortFrom(a.Addr(), 0), To: netip.AddrPortFrom(b.Addr(), 0), Burst: burst, Duration: 300 * time.Millisecond,
		})
		if err != nil || res.Received == 0 || res.Sent != res.Received+res.Lost || res.Foreign+res.Duplicates != 0 {
			t.Errorf("burst %d: %+v, %v", burst, res, err)
		}
		t.Logf("burst %d: sent %.0f/s, received %.0f/s, lost %d", burst, res.SendRate(), res.ReceiveRate(), res.Lost)
	}
}

func TestFloodIntoTheVoid(t *testing.T) {
	_, hosts := labtest.Hosts(t, lab.Wire{}, "a", "b")
	a, b := hosts[0], hosts[1]
	from, to := netip.AddrPortFrom(a.Addr(), 0), netip.AddrPortFrom(b.Addr(), 0)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	res, err := gen.Flood(ctx, a.Do, b.Do, gen.FloodConfig{From: from, To: to, Rate: 1000, Duration: time.Minute})
	if !errors.Is(err, context.DeadlineExceeded) || res.Sent == 0 || res.Received != res.Sent {
		t.Errorf("context over: %+v, %v", res, err)
	}
	cut(t, b, "down")
	res, err = gen.Flood(t.Context(), a.Do, b.Do, gen.FloodConfig{From: from, To: to, Rate: 1000, Duration: 50 * time.Millisecond})
	if err != nil || res.Received != 0 || res.Lost != res.Sent || res.ReceiveRate() != 0 {
		t.Errorf("wire cut: %+v, %v", res, err)
	}
}

func TestFloodConfig(t *testing.T) {
	lo := netip.MustParseAddrPort("127.0.0.1:0")
	for name, c := range map[string]gen.FloodConfig{
		"size too small":        {Size: 15},
		"size too large":        {Size: 65001},
		"too many flows":        {Flows: 1025},
		"burst too long":        {Burst: 65},
		"burst too large":       {Burst: 64, Size: 1400},
		"negative rate":         {Rate: -1},
		"negative duration":     {Duration: -1},
		"an address not ours":   {From: netip.MustParseAddrPort("192.0.2.1:0")},
		"a listener not ours":   {To: netip.MustParseAddrPort("192.0.2.1:0")},
		"ports past the last":   {Flows: 2, From: netip.MustParseAddrPort("192.0.2.1:65535")},
		"one family to another": {From: netip.MustParseAddrPort("[::1]:0")},
	} {
		if !c.From.IsValid() {
			c.From = lo
		}
		if !c.To.IsValid() {
			c.To = lo
		}
		if res, err := gen.Flood(t.Context(), gen.Here, gen.Here, c); err == nil {
			t.Errorf("%s: no error, %+v", name, res)
		}
	}
}
