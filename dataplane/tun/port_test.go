package tun_test

import (
	"errors"
	"os"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"flanx/dataplane/host"
	"flanx/dataplane/packet"
	"flanx/dataplane/porttest"
	"flanx/dataplane/tun"
)

// eachMode runs a test with a plain queue and with one that has offloads.
func eachMode(t *testing.T, test func(t *testing.T, cfg host.TUNConfig)) {
	t.Helper()
	t.Run("plain", func(t *testing.T) { test(t, host.TUNConfig{}) })
	t.Run("offload", func(t *testing.T) { test(t, host.TUNConfig{Offload: true}) })
}

func TestConformance(t *testing.T) {
	for name, tt := range map[string]struct{ frame, mtu int }{
		"2K frames": {packet.FrameSize2K, 1500},
		"4K frames": {packet.FrameSize4K, 3000},
	} {
		t.Run(name, func(t *testing.T) {
			eachMode(t, func(t *testing.T, cfg host.TUNConfig) {
				cfg.MTU = tt.mtu
				porttest.Run(t, func(t *testing.T) *porttest.Pair {
					n := porttest.NewNamespace(t)
					port := openUp(t, n, cfg)
					return &porttest.Pair{
						Port: port, Far: porttest.NewPacketFar(t, n, device, unix.ETH_P_IP),
						Pool: newPool(t, 256, tt.frame), Min: 28, Max: tt.mtu,
						Stamp: func(pkt []byte, _ porttest.Direction) { stamp(pkt) },
					}
				})
			})
		})
	}
}

// TestTruncated sends packets around the size of the frame and sees that none
// is passed on cut. A plain queue cannot tell one that fits exactly.
func TestTruncated(t *testing.T) {
	eachMode(t, func(t *testing.T, cfg host.TUNConfig) {
		n := porttest.NewNamespace(t)
		fitting := 1
		if cfg.Offload {
			fitting = 2
		}
		cfg.MTU = 9000
		port := openUp(t, n, cfg)
		far := porttest.NewPacketFar(t, n, device, unix.ETH_P_IP)
		pool := newPool(t, 8, packet.FrameSize2K)
		const space = packet.FrameSize2K - packet.Headroom
		sizes := []int{space - 1, space, space + 1, 9000}
		for _, size := range sizes {
			pkt := make([]byte, size)
			stamp(pkt)
			if err := far.Send(pkt); err != nil {
				t.Fatal(err)
			}
		}
		b := packet.NewBatch(pool, 8)
		if err := port.Recv(b); err != nil {
			t.Fatal(err)
		}
		b.Compact()
		if b.Len() != fitting || int(b.Drops()[packet.Truncated]) != len(sizes)-fitting {
			t.Fatalf("%d packets passed, %d truncated; want %d and %d",
				b.Len(), b.Drops()[packet.Truncated], fitting, len(sizes)-fitting)
		}
		for i := range b.Len() {
			if b.At(i).Len() != sizes[i] {
				t.Errorf("packet %d is %d bytes long, want %d", i, b.At(i).Len(), sizes[i])
			}
		}
		b.Clear()
		checkFrames(t, pool)
	})
}

// TestDeletedDevice deletes the device under the port, which must say so
// at once and keep nothing.
func TestDeletedDevice(t *testing.T) {
	eachMode(t, func(t *testing.T, cfg host.TUNConfig) {
		n := porttest.NewNamespace(t)
		port := openUp(t, n, cfg)
		pool := newPool(t, 8, packet.FrameSize2K)
		b := packet.NewBatch(pool, 8)
		n.IP("link del " + device)

		if got := pollNow(t, port.FD()); got != "in false out false err true" {
			t.Errorf("poll says: %s", got)
		}
		if err := port.Recv(b); !errors.Is(err, packet.ErrPortGone) || b.Len() != 0 {
			t.Errorf("Recv: %v, %d packets", err, b.Len())
		}
		for k := range 4 {
			load(t, b, stream(spec{}, k/2*5, 100).build()) // a run, and another
		}
		if err := port.Send(b); !errors.Is(err, packet.ErrPortGone) {
			t.Errorf("Send: %v", err)
		}
		if b.Len() != 0 || b.Drops()[packet.TunWriteFailed] != 4 {
			t.Errorf("%d packets left, %d dropped; want 0 and 4", b.Len(), b.Drops()[packet.TunWriteFailed])
		}
		if err := port.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		checkFrames(t, pool)
	})
}

// TestDownAndUp sends and receives before the device is up, while it is, and
// after it was set down, and finds the port alive throughout.
func TestDownAndUp(t *testing.T) {
	eachMode(t, func(t *testing.T, cfg host.TUNConfig) {
		n := porttest.NewNamespace(t)
		port := openDown(t, n, cfg)
		pool := newPool(t, 8, packet.FrameSize2K)
		b := packet.NewBatch(pool, 8)

		isDown(t, "before it is up", port, b)
		bringUp(n)
		isUp(t, "up", n, port, b)
		n.IP("link set " + device + " down")
		isDown(t, "set down", port, b)
		n.IP("link set " + device + " up")
		isUp(t, "up again", n, port, b)
		checkFrames(t, pool)
	})
}

// isDown wants nothing to read, and every packet dropped, a run of them too.
func isDown(t *testing.T, when string, port porttest.Port, b *packet.Batch) {
	t.Helper()
	if err := port.Recv(b); err != nil || b.Len() != 0 {
		t.Errorf("%s, Recv: %v, %d packets", when, err, b.Len())
	}
	before := b.Drops()[packet.TunWriteFailed]
	add(t, b, 100)
	for k := range 3 {
		load(t, b, stream(spec{}, k, 100).build())
	}
	if err := port.Send(b); err != nil || b.Drops()[packet.TunWriteFailed] != before+4 {
		t.Errorf("%s, Send: %v, %d dropped, want 4", when, err, b.Drops()[packet.TunWriteFailed]-before)
	}
}

// isUp wants a packet to go in and out again.
func isUp(t *testing.T, when string, n *porttest.Namespace, port porttest.Port, b *packet.Batch) {
	t.Helper()
	far := porttest.NewPacketFar(t, n, device, unix.ETH_P_IP)
	pkt := make([]byte, 100)
	stamp(pkt)
	if err := far.Send(pkt); err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	if err := port.Recv(b); err != nil || b.Len() != 1 {
		t.Fatalf("%s, Recv: %v, %d packets", when, err, b.Len())
	}
	before := b.Drops()[packet.TunWriteFailed]
	if err := port.Send(b); err != nil || b.Drops()[packet.TunWriteFailed] != before {
		t.Errorf("%s, Send: %v, %d dropped", when, err, b.Drops()[packet.TunWriteFailed]-before)
	}
	if _, err := far.Recv(make([]byte, 2048), 5*time.Second); err != nil {
		t.Errorf("%s, the packet did not come back: %v", when, err)
	}
}

// TestRefusedPacketsDoNotStopTheRest mixes packets that no TUN takes into a batch.
func TestRefusedPacketsDoNotStopTheRest(t *testing.T) {
	eachMode(t, func(t *testing.T, cfg host.TUNConfig) {
		n := porttest.NewNamespace(t)
		port := openUp(t, n, cfg)
		far := porttest.NewPacketFar(t, n, device, unix.ETH_P_IP)
		pool := newPool(t, 8, packet.FrameSize2K)
		b := packet.NewBatch(pool, 8)
		add(t, b, 100)
		add(t, b, 100)[0] = 0x75         // IP version 7
		if _, _, ok := b.Extend(); !ok { // an empty one
			t.Fatal("no frame")
		}
		add(t, b, 101)
		if err := port.Send(b); err != nil || b.Drops()[packet.TunWriteFailed] != 2 {
			t.Errorf("Send: %v, %d dropped, want 2", err, b.Drops()[packet.TunWriteFailed])
		}
		for _, want := range []int{100, 101} {
			if got, err := far.Recv(make([]byte, 2048), 5*time.Second); err != nil || got != want {
				t.Errorf("received %d bytes, %v; want %d", got, err, want)
			}
		}
		checkFrames(t, pool)
	})
}

// TestStartStop opens and closes a thousand times, and finds nothing left over
// and no Close that hangs (golang/go#30426). Closing waits for the kernel to take
// the device down, which a busy machine may delay now and then.
func TestStartStop(t *testing.T) {
	n := porttest.NewNamespace(t)
	times := 1000
	if testing.Short() {
		times = 50
	}
	openUp(t, n, host.TUNConfig{}).Close() // what is opened once is opened now
	fds, goroutines := openFDs(t), runtime.NumGoroutine()
	slow := 0
	for i := range times {
		var port porttest.Port
		n.Do(func() { port = newPort(t, host.TUNConfig{Name: device, Offload: i%2 == 0}) })
		start := time.Now()
		if err := port.Close(); err != nil {
			t.Fatal(err)
		}
		switch took := time.Since(start); {
		case took > 2*time.Second:
			t.Errorf("Close number %d took %v", i, took)
		case took > 100*time.Millisecond:
			slow++
		}
	}
	if slow > times/10 {
		t.Errorf("%d of %d times Close took more than 100 ms", slow, times)
	}
	if got := openFDs(t); got != fds {
		t.Errorf("%d descriptors, %d before", got, fds)
	}
	if got := runtime.NumGoroutine(); got > goroutines {
		t.Errorf("%d goroutines, %d before", got, goroutines)
	}
}

func openFDs(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

var (
	_ porttest.Port = (*tun.Plain)(nil)
	_ porttest.Port = (*tun.Offload)(nil)
)
