package porttest

import (
	"testing"

	"golang.org/x/sys/unix"

	"flanx/dataplane/packet"
)

func recvCases() []Case {
	return []Case{
		{"RecvIdle", testRecvIdle},
		{"RecvEverySize", testRecvEverySize},
		{"RecvInOrder", testRecvInOrder},
		{"RecvKeepsToRoom", testRecvRoom},
		{"RecvAppends", testRecvAppends},
		{"RecvWithoutFrames", testRecvWithoutFrames},
		{"RecvReadable", testRecvReadable},
		{"RecvNoAllocs", testRecvNoAllocs},
	}
}

func testRecvIdle(t *testing.T, d *driver) {
	for range 100 {
		if d.recv(); d.in.Len() != 0 {
			t.Fatalf("an idle port received %d packets, the first % x", d.in.Len(), d.in.Bytes(0))
		}
	}
	d.settled("after idle Recv")
}

func testRecvEverySize(_ *testing.T, d *driver) {
	for number, size := range d.sizes() {
		d.farSends(number, size)
		d.await(1)
		d.checkIn(0, number, size)
		d.in.Clear()
	}
	d.settled("after receiving every size")
}

func testRecvInOrder(_ *testing.T, d *driver) {
	const total = 2000
	for sent, got := 0, 0; got < total; {
		for burst := 1 + sent%InFlight; sent < total && burst > 0; burst-- {
			d.farSends(sent, d.sizeOf(sent))
			sent++
		}
		for got < sent {
			d.await(1)
			for i := range d.in.Len() {
				d.checkIn(i, got, d.sizeOf(got))
				got++
			}
			d.in.Clear()
		}
	}
	d.settled("after a long run in")
}

func testRecvRoom(t *testing.T, d *driver) {
	const waiting, room = 10, 3
	for number := range waiting {
		d.farSends(number, d.Min)
	}
	none := packet.NewBatch(d.Pool, 0)
	if err := d.Port.Recv(none); err != nil || none.Len() != 0 {
		t.Fatalf("Recv into a full batch: %v, %d packets", err, none.Len())
	}
	d.in = packet.NewBatch(d.Pool, room)
	for got := 0; got < waiting; {
		n := min(room, waiting-got)
		d.await(n)
		if d.in.Len() != n {
			t.Fatalf("Recv with room %d gave %d packets", room, d.in.Len())
		}
		for i := range n {
			d.checkIn(i, got+i, d.Min)
		}
		got += n
		d.in.Clear()
	}
	d.settled("after small batches")
}

func testRecvAppends(t *testing.T, d *driver) {
	const before = 2
	for number := range before + 1 {
		d.farSends(number, d.sizeOf(number))
		d.await(number + 1)
	}
	if d.in.Len() != before+1 {
		t.Fatalf("batch holds %d packets, want %d", d.in.Len(), before+1)
	}
	for number := range before + 1 {
		d.checkIn(number, number, d.sizeOf(number))
	}
	d.in.Clear()
	d.settled("after appending")
}

func testRecvWithoutFrames(_ *testing.T, d *driver) {
	var frames []uint32
	for frame, ok := d.Pool.Get(); ok; frame, ok = d.Pool.Get() {
		frames = append(frames, frame)
	}
	d.farSends(1, d.Max)
	for range 10 { // a port with frames of its own may find it; it must not fail
		d.poll(unix.POLLIN, 0)
		d.recv()
	}
	for _, frame := range frames {
		d.Pool.Put(frame)
	}
	d.await(1)
	d.checkIn(0, 1, d.Max)
	d.in.Clear()
	d.settled("after the pool was empty")
}

func testRecvReadable(t *testing.T, d *driver) {
	if d.Port.FD() < 0 {
		t.Skip("the port has no descriptor to wait on")
	}
	for number := range 3 {
		if d.poll(unix.POLLIN, 0) {
			t.Fatal("the descriptor of an idle port is readable")
		}
		d.farSends(number, d.Min)
		if !d.poll(unix.POLLIN, patience) {
			t.Fatal("a packet waits, and the descriptor does not become readable")
		}
		d.await(1)
		d.checkIn(0, number, d.Min)
		d.in.Clear()
	}
}

func testRecvNoAllocs(t *testing.T, d *driver) {
	const runs = InFlight / 2
	one := packet.NewBatch(d.Pool, 1)
	d.recvAllocs(t, "an idle", one, runs)
	for number := range runs + 1 {
		d.farSends(number, d.Min)
	}
	d.poll(unix.POLLIN, patience)
	d.recvAllocs(t, "a busy", one, runs)
}

func (d *driver) recvAllocs(t *testing.T, what string, b *packet.Batch, runs int) {
	t.Helper()
	allocs := testing.AllocsPerRun(runs, func() {
		if err := d.Port.Recv(b); err != nil {
			panic(err)
		}
		b.Clear()
	})
	if allocs != 0 {
		t.Errorf("Recv of %s port allocates %v times", what, allocs)
	}
}
