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

func TestTransfer(t *testing.T) {
	_, hosts := labtest.Hosts(t, lab.Wire{}, "a", "b")
	a, b := hosts[0], hosts[1]
	for _, bytes := range []int{1, 1 << 20, 5<<20 + 3} {
		var last int
		res, err := gen.Transfer(t.Context(), a.Do, b.Do, gen.TransferConfig{
			From: netip.AddrPortFrom(a.Addr(), 0), To: netip.AddrPortFrom(b.Addr(), 0), Bytes: bytes, Seed: 1,
			Progress: func(n int) {
				if n <= last {
					t.Errorf("progress went from %d to %d", last, n)
				}
				last = n
			},
		})
		if err != nil || !res.Intact() || res.Bytes != bytes || last != bytes || res.BitsPerSecond() <= 0 {
			t.Errorf("%d bytes: %+v, progress %d, %v", bytes, res, last, err)
		}
	}
	from6, to6 := netip.AddrPortFrom(a.Addr6(), 0), netip.AddrPortFrom(b.Addr6(), 5001)
	res, err := gen.Transfer(t.Context(), a.Do, b.Do, gen.TransferConfig{From: from6, To: to6, Bytes: 1000, Seed: 2})
	if err != nil || !res.Intact() {
		t.Errorf("IPv6: %+v, %v", res, err)
	}
}

func TestTransferHere(t *testing.T) {
	lo := netip.MustParseAddrPort("127.0.0.1:0")
	one, err := gen.Transfer(t.Context(), gen.Here, gen.Here, gen.TransferConfig{From: lo, To: lo, Bytes: 1 << 16, Seed: 1})
	if err != nil || !one.Intact() {
		t.Fatalf("%+v, %v", one, err)
	}
	two, err := gen.Transfer(t.Context(), gen.Here, gen.Here, gen.TransferConfig{From: lo, To: lo, Bytes: 1 << 16, Seed: 1})
	if err != nil || two.Sent != one.Sent {
		t.Errorf("one seed, two digests: %x, %x, %v", one.Sent, two.Sent, err)
	}
}

func TestTransferFails(t *testing.T) {
	_, hosts := labtest.Hosts(t, lab.Wire{}, "a", "b")
	a, b := hosts[0], hosts[1]
	from, to := netip.AddrPortFrom(a.Addr(), 0), netip.AddrPortFrom(b.Addr(), 0)
	t.Run("no bytes", func(t *testing.T) {
		if _, err := gen.Transfer(t.Context(), a.Do, b.Do, gen.TransferConfig{From: from, To: to}); err == nil {
			t.Error("no error")
		}
	})
	t.Run("not our address", func(t *testing.T) {
		_, err := gen.Transfer(t.Context(), a.Do, b.Do, gen.TransferConfig{From: to, To: to, Bytes: 1})
		if err == nil || !strings.Contains(err.Error(), b.Addr().String()) {
			t.Errorf("error %v, want one that names the address", err)
		}
	})
	t.Run("wire cut while connecting", func(t *testing.T) {
		cut(t, b, "down")
		defer cut(t, b, "up")
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := gen.Transfer(ctx, a.Do, b.Do, gen.TransferConfig{From: from, To: to, Bytes: 1}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v, want the deadline's", err)
		}
	})
	t.Run("wire cut on the way", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		done := false
		_, err := gen.Transfer(ctx, a.Do, b.Do, gen.TransferConfig{From: from, To: to, Bytes: 64 << 20, Progress: func(int) {
			if !done {
				done = true
				cut(t, b, "down")
				time.AfterFunc(100*time.Millisecond, cancel)
			}
		}})
		if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "after") {
			t.Errorf("error %v, want the context's, and how far it came", err)
		}
	})
}

// cut takes a host's wire away, or gives it back.
func cut(t *testing.T, h *lab.Host, state string) {
	if _, err := h.Output(context.Background(), "ip", "link", "set", "eth0", state); err != nil {
		t.Error(err)
	}
}
