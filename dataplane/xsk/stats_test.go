package xsk

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"flanx/dataplane/packet"
	"flanx/dataplane/xdpprog"
)

// The kernel's counters are provoked one by one and compared exactly, as
// tools/testing/selftests/bpf does (test_xsk.c). TXEmpty is left out: it counts
// how often the kernel looked, which is nobody's loss.

// expectStatistics waits until the counters are want: the last packet may still
// be on its way.
func expectStatistics(t *testing.T, p *Port, want Statistics) {
	t.Helper()
	var st Statistics
	for deadline := time.Now().Add(time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		var err error
		if st, err = p.Statistics(); err != nil {
			t.Fatal(err)
		}
		if st.TXEmpty = 0; st == want {
			return
		}
	}
	t.Fatalf("statistics %+v, want %+v", st, want)
}

func TestStatisticsTooLong(t *testing.T) {
	eachMode(t, func(t *testing.T, mode xdpprog.Mode) {
		r := newRig(t, "mtu 3000")
		a := r.open("va", Config{}, newTestPool(t, 128, packet.FrameSize4K), nil)
		b := r.open("vb", Config{}, newTestPool(t, 128, packet.FrameSize2K), r.attach("vb", addrB, mode))
		const fits = packet.FrameSize2K - packet.Headroom
		send(t, a, 0, 7, fits, addrB)
		send(t, a, 7, 11, fits+1, addrB)
		receive(t, b, 0, 7)
		expectStatistics(t, b, Statistics{Dropped: 11})
		send(t, a, 18, 5, fits, addrB)
		receive(t, b, 18, 5)
		settled(t, b)
	})
}

func TestStatisticsRingFull(t *testing.T) {
	eachMode(t, func(t *testing.T, mode xdpprog.Mode) {
		r := newRig(t, "")
		a := r.open("va", Config{}, newTestPool(t, 512, packet.FrameSize2K), nil)
		b := r.openWith("vb", Config{FillTarget: 64}, newTestPool(t, 256, packet.FrameSize2K),
			r.attach("vb", addrB, mode), func(s *sizes) { s.rx = 16 })
		send(t, a, 0, 50, 100, addrB)
		expectStatistics(t, b, Statistics{RingFull: 34})
		receive(t, b, 0, 16)
		send(t, a, 50, 16, 100, addrB) // recovers at once
		receive(t, b, 50, 16)
		expectStatistics(t, b, Statistics{RingFull: 34})
	})
}

func TestStatisticsFillEmpty(t *testing.T) {
	eachMode(t, func(t *testing.T, mode xdpprog.Mode) {
		r := newRig(t, "")
		a := r.open("va", Config{}, newTestPool(t, 512, packet.FrameSize2K), nil)
		b := r.open("vb", Config{FillTarget: 16}, newTestPool(t, 256, packet.FrameSize2K), r.attach("vb", addrB, mode))
		send(t, a, 0, 50, 100, addrB)
		expectStatistics(t, b, Statistics{Dropped: 34, FillEmpty: 34})
		receive(t, b, 0, 16)
		if err := b.Recv(packet.NewBatch(b.pool, 1)); err != nil { // refills
			t.Fatal(err)
		}
		send(t, a, 50, 16, 100, addrB)
		receive(t, b, 50, 16)
		expectStatistics(t, b, Statistics{Dropped: 34, FillEmpty: 34})
		settled(t, b)
	})
}

// TestStatisticsBadTX goes past Send, which makes no such descriptor. Linux 6.18
// gives the frames back all the same; not every kernel does.
func TestStatisticsBadTX(t *testing.T) {
	_, a, b := ends(t, xdpprog.Native, 256, Config{})
	bad := []unix.XDPDesc{
		{Addr: 0, Len: packet.FrameSize2K + 1},
		{Addr: packet.Headroom, Len: packet.FrameSize2K - packet.Headroom + 1},
		{Addr: packet.Headroom, Len: 60, Options: 1 << 31},
		{Addr: packet.Headroom, Len: 0},
	}
	for _, d := range bad {
		frame, _ := a.pool.Get()
		d.Addr += a.pool.Offset(frame, 0)
		a.tx.put(d)
		a.txHeld++
	}
	a.tx.submit()
	if err := a.kick(); err != nil {
		t.Fatal(err)
	}
	expectStatistics(t, a, Statistics{BadTX: uint64(len(bad))})
	send(t, a, 0, 10, 100, addrB)
	receive(t, b, 0, 10)
	expectStatistics(t, a, Statistics{BadTX: uint64(len(bad))})
	settled(t, a)
}

func TestStatisticsAfterClose(t *testing.T) {
	_, a, _ := ends(t, xdpprog.Native, 64, Config{})
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Statistics(); err == nil {
		t.Error("statistics of a closed port")
	}
}
