package gen

import (
	"context"
	"net/netip"
	"testing"
	"time"
)

func TestStreamLoopback(t *testing.T) {
	lo := netip.MustParseAddrPort("127.0.0.1:0")
	for _, streams := range []int{1, 8} {
		res, err := Stream(context.Background(), Here, Here, StreamConfig{
			From: lo, To: lo, Streams: streams, Duration: 50 * time.Millisecond,
		})
		if err != nil || res.Bytes < streamChunk || res.Elapsed < 50*time.Millisecond || res.BitsPerSecond() <= 0 {
			t.Errorf("%d streams: %+v, %v", streams, res, err)
		}
	}
}

func TestStreamEndsWithContext(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
	defer cancel()
	lo := netip.MustParseAddrPort("127.0.0.1:0")
	if _, err := Stream(ctx, Here, Here, StreamConfig{From: lo, To: lo, Duration: time.Minute}); err == nil {
		t.Error("no error, though the context ended")
	}
}

func TestStreamRefuses(t *testing.T) {
	if _, err := Stream(context.Background(), Here, Here, StreamConfig{Streams: 65}); err == nil {
		t.Error("65 streams taken")
	}
}

func TestRoundTripLoopback(t *testing.T) {
	lo := netip.MustParseAddr("127.0.0.1")
	for _, cpus := range [][2]int{{0, 0}, {1, 1}} {
		res, err := RoundTrip(context.Background(), Here, Here, RoundTripConfig{
			From: lo, To: lo, Duration: 30 * time.Millisecond, CPUs: cpus,
		})
		if err != nil || len(res.RTT) == 0 || res.Lost != 0 {
			t.Errorf("CPUs %v: %d answered, %d lost, %v", cpus, len(res.RTT), res.Lost, err)
		}
		for _, d := range res.RTT {
			if d <= 0 {
				t.Fatalf("round trip of %s", d)
			}
		}
	}
}

func TestRoundTripRefuses(t *testing.T) {
	if _, err := RoundTrip(context.Background(), Here, Here, RoundTripConfig{From: netip.IPv6Loopback(), To: netip.IPv6Loopback()}); err == nil {
		t.Error("IPv6 taken")
	}
}
