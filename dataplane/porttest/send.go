package porttest

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"flanx/dataplane/packet"
)

func sendCases() []Case {
	return []Case{
		{"SendNothing", testSendNothing},
		{"SendEverySize", testSendEverySize},
		{"SendInOrder", testSendInOrder},
		{"SendMovedWindow", testSendMovedWindow},
		{"SendUntilFull", testSendUntilFull},
		{"SendNoAllocs", testSendNoAllocs},
	}
}

func testSendNothing(_ *testing.T, d *driver) {
	d.send()
	d.flush()
	d.farIsQuiet()
	d.settled("after sending nothing")
}

func testSendEverySize(_ *testing.T, d *driver) {
	for number, size := range d.sizes() {
		d.awaitRoom(1)
		d.add(number, size)
		d.send()
		d.flush()
		d.farGets(number, size)
	}
	d.settled("after sending every size")
}

func testSendInOrder(_ *testing.T, d *driver) {
	const total = 2000
	for sent := 0; sent < total; {
		d.awaitRoom(1)
		burst := min(1+sent%InFlight, d.Port.Room(), total-sent)
		for i := range burst {
			d.add(sent+i, d.sizeOf(sent+i))
		}
		d.send()
		d.flush()
		for i := range burst {
			d.farGets(sent+i, d.sizeOf(sent+i))
		}
		sent += burst
	}
	d.farIsQuiet()
	d.settled("after a long run out")
}

// testSendMovedWindow sends packets that do not begin where Extend puts them,
// as they do not after a codec pushed or popped headers.
func testSendMovedWindow(_ *testing.T, d *driver) {
	for number, push := range []int{0, 1, 2, 3, 8, 14, 42, 50, 64, 84, packet.Headroom} {
		d.awaitRoom(1)
		d.add(number, d.Min)
		i := d.out.Len() - 1
		d.out.Push(i, push)
		d.build(d.out.Bytes(i), number, ToFar)
		d.send()
		d.flush()
		d.farGets(number, d.Min+push)
	}
	for number, pop := range []int{1, 7, 64} {
		d.awaitRoom(1)
		d.add(number, d.Min+pop)
		d.out.Pop(0, pop)
		d.build(d.out.Bytes(0), number, ToFar)
		d.send()
		d.flush()
		d.farGets(number, d.Min)
	}
	d.settled("after moved windows")
}

// testSendUntilFull fills the port to its Room, overfills it, and sees that
// exactly what was within Room arrives, in order.
func testSendUntilFull(t *testing.T, d *driver) {
	if d.Block == nil {
		t.Skip("the wire of this pair cannot be blocked")
	}
	d.Block()
	sent := d.fillUp(t)
	d.overfill(t, sent)
	d.Unblock()
	for got := range sent {
		d.farGetsFlushing(got)
	}
	d.awaitRoom(1)
	d.add(sent, d.Min)
	d.send()
	d.flush()
	d.farGets(sent, d.Min)
	d.farIsQuiet()
	d.settled("after having been full")
}

// fillUp sends what Room allows until that is zero.
func (d *driver) fillUp(t *testing.T) (sent int) {
	t.Helper()
	const enough = 1 << 14
	for ; d.Port.Room() > 0; d.flush() {
		for range min(d.Port.Room(), InFlight/2) {
			d.add(sent, d.Min)
			sent++
		}
		if d.send(); sent > enough {
			t.Fatalf("a blocked port took %d packets and still has room", sent)
		}
		if n := lost(d.out); n != 0 {
			t.Fatalf("%d packets lost within Room: %v", n, *d.out.Drops())
		}
	}
	return sent
}

// overfill sends three packets that must be lost, and counted.
func (d *driver) overfill(t *testing.T, number int) {
	t.Helper()
	const over = 3
	free := d.Pool.Free()
	for i := range over {
		d.add(number+i, d.Min)
	}
	d.send()
	if n := lost(d.out); n != over {
		t.Fatalf("%d packets sent without room, %d counted as lost", over, n)
	}
	if d.Pool.Free() != free {
		t.Fatalf("packets lost for want of room kept %d frames", free-d.Pool.Free())
	}
}

// farGetsFlushing waits for a packet at the far end while flushing the port.
func (d *driver) farGetsFlushing(number int) {
	d.t.Helper()
	for deadline := time.Now().Add(patience); ; {
		d.flush()
		n, err := d.Far.Recv(d.buf, time.Millisecond)
		if err == nil {
			d.check(d.buf[:n], number, d.Min, ToFar)
			return
		}
		if time.Now().After(deadline) {
			d.t.Fatalf("packet %d of those within Room: %v", number, err)
		}
		d.poll(unix.POLLOUT, time.Millisecond)
	}
}

func testSendNoAllocs(t *testing.T, d *driver) {
	const runs = InFlight / 2
	d.add(0, d.Min) // a packet to copy, so that build runs outside
	model := append([]byte(nil), d.out.Bytes(0)...)
	d.out.Clear()
	allocs := testing.AllocsPerRun(runs, func() {
		i, space, _ := d.out.Extend()
		d.out.Resize(i, copy(space, model))
		d.address(i)
		if err := d.Port.Send(d.out); err != nil {
			panic(err)
		}
		if err := d.Port.Flush(); err != nil {
			panic(err)
		}
	})
	if allocs != 0 {
		t.Errorf("Send allocates %v times", allocs)
	}
	for range runs + 1 {
		d.farGets(0, d.Min)
	}
}
