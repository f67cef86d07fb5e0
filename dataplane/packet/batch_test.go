package packet

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

func newPool(t *testing.T, frames int) *Pool {
	t.Helper()
	p, err := NewPool(frames, FrameSize2K)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// fill extends b by one packet holding data.
func fill(t *testing.T, b *Batch, data []byte) int {
	t.Helper()
	i, space, ok := b.Extend()
	if !ok {
		t.Fatal("no room")
	}
	b.Resize(i, copy(space, data))
	return i
}

func TestExtendResizeBytes(t *testing.T) {
	b := NewBatch(newPool(t, 4), 4)
	i := fill(t, b, []byte("inner"))
	if got := b.Bytes(i); string(got) != "inner" {
		t.Errorf("Bytes = %q", got)
	}
	if buf := b.At(i); buf.Start != Headroom || buf.Len() != 5 {
		t.Errorf("window = [%d, %d)", buf.Start, buf.End)
	}
}

func TestPushPopTrim(t *testing.T) {
	b := NewBatch(newPool(t, 1), 1)
	i := fill(t, b, []byte("payload"))
	copy(b.Push(i, 4), "head")
	if got := b.Bytes(i); string(got) != "headpayload" {
		t.Errorf("after Push: %q", got)
	}
	if !b.Pop(i, 4) || string(b.Bytes(i)) != "payload" {
		t.Errorf("after Pop: %q", b.Bytes(i))
	}
	if !b.Trim(i, 3) || string(b.Bytes(i)) != "pay" {
		t.Errorf("after Trim: %q", b.Bytes(i))
	}
}

func TestWindowRefusesInput(t *testing.T) {
	b := NewBatch(newPool(t, 1), 1)
	i := fill(t, b, []byte("abc"))
	for _, n := range []int{4, -1} {
		if b.Pop(i, n) {
			t.Errorf("Pop(%d) of 3 bytes said yes", n)
		}
		if b.Trim(i, n) {
			t.Errorf("Trim(%d) of 3 bytes said yes", n)
		}
	}
	if string(b.Bytes(i)) != "abc" {
		t.Errorf("a refused change changed %q", b.Bytes(i))
	}
}

func TestMisuseOfOursPanics(t *testing.T) {
	cases := map[string]func(b *Batch, i int){
		"Push past the headroom": func(b *Batch, i int) { b.Push(i, Headroom+1) },
		"Resize past the frame":  func(b *Batch, i int) { b.Resize(i, FrameSize2K) },
		"Resize below zero":      func(b *Batch, i int) { b.Resize(i, -1) },
		"Drop twice":             func(b *Batch, i int) { b.Drop(i, Short); b.Drop(i, Short) },
		"Append to a full batch": func(b *Batch, _ int) { b.Append(Buf{}) },
	}
	for name, misuse := range cases {
		t.Run(name, func(t *testing.T) {
			b := NewBatch(newPool(t, 2), 1)
			i := fill(t, b, []byte("x"))
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			misuse(b, i)
		})
	}
}

func TestRoomIsBounded(t *testing.T) {
	b := NewBatch(newPool(t, 8), 4)
	b.Limit(2)
	fill(t, b, nil)
	fill(t, b, nil)
	if _, _, ok := b.Extend(); ok || b.Room() != 0 {
		t.Errorf("Extend past the limit said yes; Room = %d", b.Room())
	}
	b.Limit(99)
	if b.Room() != 2 {
		t.Errorf("Room = %d after Limit(99), want 2", b.Room())
	}
	b.Limit(-1)
	if b.Room() != 0 {
		t.Errorf("Room = %d after Limit(-1), want 0", b.Room())
	}
}

func TestExtendWithoutFrames(t *testing.T) {
	b := NewBatch(newPool(t, 1), 2)
	fill(t, b, nil)
	if _, _, ok := b.Extend(); ok {
		t.Error("Extend said yes with an empty pool")
	}
	b.Undo()
	if b.Len() != 0 || b.Pool().Free() != 1 {
		t.Errorf("after Undo: %d packets, %d free", b.Len(), b.Pool().Free())
	}
}

// TestConservation plays random operations and holds the invariant: every frame
// is free, in a batch, or taken; and what survives keeps its order and content.
func TestConservation(t *testing.T) {
	const frames = 32
	rng := rand.New(rand.NewPCG(1, 2))
	pool := newPool(t, frames)
	a, b := NewBatch(pool, 16), NewBatch(pool, 64)
	for round := range 2000 {
		for a.Room() > 0 && rng.IntN(4) > 0 {
			i, space, ok := a.Extend()
			if !ok {
				break
			}
			space[0], space[1] = byte(round), byte(i)
			a.Resize(i, 2)
		}
		var want [][]byte
		var taken []uint32
		moved := 0
		for i := range a.Len() {
			switch rng.IntN(6) {
			case 0:
				a.Drop(i, Reason(rng.IntN(int(NumReasons))))
			case 1:
				a.Release(i)
			case 2:
				taken = append(taken, a.Take(i))
			case 3:
				a.Move(i, b)
				moved++
			default:
				want = append(want, bytes.Clone(a.Bytes(i)))
			}
		}
		a.Compact()
		if pool.Free()+a.Len()+b.Len()+len(taken) != frames {
			t.Fatalf("round %d: %d free + %d + %d + %d taken, want %d", round, pool.Free(), a.Len(), b.Len(), len(taken), frames)
		}
		for i := range want {
			if !bytes.Equal(a.Bytes(i), want[i]) {
				t.Fatalf("round %d: packet %d is %v, want %v", round, i, a.Bytes(i), want[i])
			}
		}
		if b.Len() != moved {
			t.Fatalf("round %d: %d packets moved, %d arrived", round, moved, b.Len())
		}
		for _, f := range taken {
			pool.Put(f)
		}
		a.Clear()
		b.Clear()
	}
	if pool.Free() != frames {
		t.Errorf("%d of %d frames free at the end", pool.Free(), frames)
	}
}

func TestDropsAreCounted(t *testing.T) {
	b := NewBatch(newPool(t, 3), 3)
	for _, r := range []Reason{NoRoute, NoRoute, TooBig} {
		b.Drop(fill(t, b, nil), r)
	}
	if d := b.Drops(); d[NoRoute] != 2 || d[TooBig] != 1 {
		t.Errorf("drops = %v", d)
	}
}

func TestBatchAllocs(t *testing.T) {
	b := NewBatch(newPool(t, 64), 64)
	allocs := testing.AllocsPerRun(100, func() {
		for range 64 {
			i, _, _ := b.Extend()
			b.Resize(i, 100)
			b.Push(i, 42)
		}
		b.Drop(3, Short)
		b.Compact()
		b.Clear()
	})
	if allocs != 0 {
		t.Errorf("%v allocations per batch", allocs)
	}
}

func BenchmarkExtendClear(b *testing.B) {
	p, err := NewPool(64, FrameSize2K)
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	batch := NewBatch(p, 64)
	b.ReportAllocs()
	for b.Loop() {
		for range 64 {
			i, _, _ := batch.Extend()
			batch.Resize(i, 64)
		}
		batch.Clear()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/64, "ns/packet")
}
