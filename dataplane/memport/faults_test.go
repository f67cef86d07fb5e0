package memport_test

import (
	"errors"
	"os"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"flanx/dataplane/memport"
	"flanx/dataplane/packet"
)

// load makes a batch of one-byte packets carrying 1, 2, … n.
func load(t *testing.T, pool *packet.Pool, n int) *packet.Batch {
	t.Helper()
	b := packet.NewBatch(pool, n)
	for number := range n {
		i, space, ok := b.Extend()
		if !ok {
			t.Fatal("no frame")
		}
		space[0] = byte(number + 1)
		b.Resize(i, 1)
	}
	return b
}

// drain reads everything that is ready at a port.
func drain(p *memport.Port) (got []byte) {
	buf := make([]byte, 16)
	for {
		n, err := p.Read(buf)
		if err != nil {
			return got
		}
		got = append(got, buf[:n]...)
	}
}

func TestFaults(t *testing.T) {
	errBroken := errors.New("broken")
	const n, flipped = 6, 1
	tests := map[string]struct {
		faults  memport.Faults
		want    []byte
		dropped uint64
		err     error
	}{
		"none":   {want: []byte{1, 2, 3, 4, 5, 6}},
		"refuse": {faults: memport.Faults{Refuse: 3}, want: []byte{1, 2, 4, 5}, dropped: 2},
		"lose":   {faults: memport.Faults{Lose: 2}, want: []byte{1, 3, 5}},
		"repeat": {faults: memport.Faults{Repeat: 4}, want: []byte{1, 2, 3, 4, 4, 5, 6}},
		"swap":   {faults: memport.Faults{Swap: 3}, want: []byte{1, 3, 2, 4, 6, 5}},
		"damage": {faults: memport.Faults{Damage: 5}, want: []byte{1, 2, 3, 4, 5 ^ flipped, 6}},
		"full":   {faults: memport.Faults{Full: true}, dropped: n},
		"lazy":   {faults: memport.Faults{Lazy: true}},
		"broken": {faults: memport.Faults{Err: errBroken}, dropped: n, err: errBroken},
		"gone":   {faults: memport.Faults{Err: packet.ErrPortGone}, dropped: n, err: packet.ErrPortGone},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			pool := newPool(t, 16, packet.FrameSize2K)
			a, b := newPair(t, memport.Config{})
			a.SetFaults(tt.faults)
			out := load(t, pool, n)
			if err := a.Send(out); !errors.Is(err, tt.err) {
				t.Errorf("Send: %v, want %v", err, tt.err)
			}
			if got := drain(b); !slices.Equal(got, tt.want) {
				t.Errorf("arrived %v, want %v", got, tt.want)
			}
			if got := out.Drops()[packet.SendFailed]; got != tt.dropped {
				t.Errorf("dropped %d, want %d", got, tt.dropped)
			}
			if out.Len() != 0 || pool.Free() != pool.Frames() {
				t.Errorf("%d packets left, %d frames free", out.Len(), pool.Free())
			}
			if got := a.Sent(); got != n {
				t.Errorf("Sent is %d, want %d", got, n)
			}
		})
	}
}

func TestFaultErrStopsEverything(t *testing.T) {
	pool := newPool(t, 4, packet.FrameSize2K)
	a, b := newPair(t, memport.Config{})
	if _, err := b.Write([]byte{1}); err != nil {
		t.Fatal(err)
	}
	a.SetFaults(memport.Faults{Err: packet.ErrPortGone})
	in := packet.NewBatch(pool, 4)
	if err := a.Recv(in); !errors.Is(err, packet.ErrPortGone) || in.Len() != 0 {
		t.Errorf("Recv: %v, %d packets", err, in.Len())
	}
	if err := a.Flush(); !errors.Is(err, packet.ErrPortGone) {
		t.Errorf("Flush: %v", err)
	}
	if room := a.Room(); room != 0 {
		t.Errorf("Room is %d", room)
	}
	a.SetFaults(memport.Faults{})
	if err := a.Recv(in); err != nil || in.Len() != 1 {
		t.Errorf("after the fault, Recv: %v, %d packets", err, in.Len())
	}
	in.Clear()
}

func TestLazyUntilFlush(t *testing.T) {
	pool := newPool(t, 4, packet.FrameSize2K)
	a, b := newPair(t, memport.Config{Depth: 4})
	a.SetFaults(memport.Faults{Lazy: true})
	if err := a.Send(load(t, pool, 3)); err != nil {
		t.Fatal(err)
	}
	if readable(t, b.FD()) {
		t.Error("readable before Flush")
	}
	if room := a.Room(); room != 1 {
		t.Errorf("Room is %d, want 1", room)
	}
	if err := a.Flush(); err != nil {
		t.Fatal(err)
	}
	if !readable(t, b.FD()) {
		t.Error("not readable after Flush")
	}
	if got := drain(b); !slices.Equal(got, []byte{1, 2, 3}) {
		t.Errorf("arrived %v", got)
	}
	if readable(t, b.FD()) {
		t.Error("readable when drained")
	}
}

func readable(t *testing.T, fd int) bool {
	t.Helper()
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	return n > 0
}

func TestRecvMax(t *testing.T) {
	pool := newPool(t, 8, packet.FrameSize2K)
	a, b := newPair(t, memport.Config{})
	b.SetFaults(memport.Faults{RecvMax: 2})
	if err := a.Send(load(t, pool, 5)); err != nil {
		t.Fatal(err)
	}
	in := packet.NewBatch(pool, 8)
	for _, want := range []int{2, 4, 5, 5} {
		if err := b.Recv(in); err != nil || in.Len() != want {
			t.Fatalf("Recv: %v, %d packets, want %d", err, in.Len(), want)
		}
	}
	in.Clear()
}

func TestTooLong(t *testing.T) {
	pool := newPool(t, 4, packet.FrameSize2K)
	big := newPool(t, 4, packet.FrameSize4K)
	a, b := newPair(t, memport.Config{MaxLen: 2000})
	out := packet.NewBatch(big, 4)
	for _, n := range []int{2000, 2001} {
		i, _, _ := out.Extend()
		out.Resize(i, n)
	}
	if err := a.Send(out); err != nil || out.Drops()[packet.TooBig] != 1 {
		t.Errorf("Send: %v, %d too big, want 1", err, out.Drops()[packet.TooBig])
	}
	in := packet.NewBatch(pool, 4) // 2048-byte frames: 1792 bytes of space
	if err := b.Recv(in); err != nil || in.Drops()[packet.Truncated] != 1 {
		t.Errorf("Recv: %v, %d truncated, want 1", err, in.Drops()[packet.Truncated])
	}
	in.Compact()
	if in.Len() != 0 || pool.Free() != pool.Frames() {
		t.Errorf("%d packets, %d frames free", in.Len(), pool.Free())
	}
}

func TestWriteRead(t *testing.T) {
	a, b := newPair(t, memport.Config{Depth: 1, MaxLen: 4})
	if _, err := b.Read(make([]byte, 4)); !errors.Is(err, memport.ErrEmpty) {
		t.Errorf("Read of nothing: %v", err)
	}
	if _, err := a.Write(make([]byte, 5)); !errors.Is(err, memport.ErrTooLong) {
		t.Errorf("Write of too much: %v", err)
	}
	if n, err := a.Write([]byte{1, 2, 3, 4}); n != 4 || err != nil {
		t.Errorf("Write: %d, %v", n, err)
	}
	if _, err := a.Write([]byte{1}); !errors.Is(err, memport.ErrFull) {
		t.Errorf("Write to a full queue: %v", err)
	}
	if n, err := b.Read(make([]byte, 2)); n != 2 || err != nil {
		t.Errorf("short Read: %d, %v", n, err)
	}
}

func TestConfigErrors(t *testing.T) {
	for name, cfg := range map[string]memport.Config{
		"negative depth":  {Depth: -1},
		"negative length": {MaxLen: -1},
		"length":          {MaxLen: 65536},
	} {
		if _, _, err := memport.Pair(cfg); !errors.Is(err, memport.ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCloseGivesTheDescriptorBack(t *testing.T) {
	a, b := newPair(t, memport.Config{})
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if a.FD() != -1 || b.FD() == -1 {
		t.Errorf("descriptors are %d and %d, want -1 and an open one", a.FD(), b.FD())
	}
	pool := newPool(t, 4, packet.FrameSize2K)
	if err := a.Recv(packet.NewBatch(pool, 1)); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Recv after Close: %v", err)
	}
	if err := b.Send(load(t, pool, 1)); err != nil {
		t.Errorf("the other end's Send: %v", err)
	}
}

func BenchmarkSendRecv(b *testing.B) {
	const n = 64
	pool := newPool(b, 2*n, packet.FrameSize2K)
	x, y := newPair(b, memport.Config{})
	batch := packet.NewBatch(pool, n)
	b.ReportAllocs()
	for count := 0; count < b.N; count += n {
		for range n {
			i, _, _ := batch.Extend()
			batch.Resize(i, 1400)
		}
		if err := x.Send(batch); err != nil {
			b.Fatal(err)
		}
		if err := y.Recv(batch); err != nil || batch.Len() != n {
			b.Fatal(err, batch.Len())
		}
		batch.Clear()
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pps")
}
