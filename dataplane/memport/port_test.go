package memport_test

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"flanx/dataplane/memport"
	"flanx/dataplane/packet"
	"flanx/dataplane/porttest"
)

// far plays the far end on the other port of the pair.
type far struct{ port *memport.Port }

func (f far) Send(pkt []byte) error {
	_, err := f.port.Write(pkt)
	return err
}

func (f far) Recv(buf []byte, timeout time.Duration) (int, error) {
	for deadline := time.Now().Add(timeout); ; time.Sleep(10 * time.Microsecond) {
		n, err := f.port.Read(buf)
		if !errors.Is(err, memport.ErrEmpty) {
			return n, err
		}
		if time.Now().After(deadline) {
			return 0, porttest.ErrTimeout
		}
	}
}

func newPool(t testing.TB, frames, size int) *packet.Pool {
	t.Helper()
	pool, err := packet.NewPool(frames, size)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := pool.Close(); err != nil {
			t.Error(err)
		}
	})
	return pool
}

func newPair(t testing.TB, cfg memport.Config) (a, b *memport.Port) {
	t.Helper()
	a, b, err := memport.Pair(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(a.Close(), b.Close()); err != nil {
			t.Error(err)
		}
	})
	return a, b
}

func TestConformance(t *testing.T) {
	addrA := netip.MustParseAddrPort("192.0.2.1:8472")
	addrB := netip.MustParseAddrPort("[2001:db8::2]:8285")
	configs := map[string]memport.Config{
		"zero value": {},
		"small":      {Depth: porttest.InFlight, MaxLen: 1792},
		"addressed":  {A: addrA, B: addrB},
	}
	for name, cfg := range configs {
		t.Run(name, func(t *testing.T) {
			porttest.Run(t, func(t *testing.T) *porttest.Pair {
				a, b := newPair(t, cfg)
				return &porttest.Pair{
					Port: a, Far: far{b}, Pool: newPool(t, 256, packet.FrameSize2K),
					Min: 8, Max: 1792, Peer: cfg.B,
					Block:   func() {}, // the queue is full once nobody reads
					Unblock: func() {},
				}
			})
		})
	}
}

// TestConformanceLazy runs the suite on a port that must be flushed.
func TestConformanceLazy(t *testing.T) {
	porttest.Run(t, func(t *testing.T) *porttest.Pair {
		a, b := newPair(t, memport.Config{})
		a.SetFaults(memport.Faults{Lazy: true, RecvMax: 5})
		return &porttest.Pair{
			Port: a, Far: far{b}, Pool: newPool(t, 256, packet.FrameSize2K),
			Min: 8, Max: 1792, Block: func() {}, Unblock: func() {},
		}
	})
}
