package xsk

import (
	"testing"

	"golang.org/x/sys/unix"

	"flanx/dataplane/packet"
	"flanx/dataplane/xdpprog"
)

const benchBatch = 64

// report adds what a packet took and how many go by in a second.
func report(b *testing.B) {
	perPacket := float64(b.Elapsed().Nanoseconds()) / float64(b.N) / benchBatch
	b.ReportMetric(perPacket, "ns/packet")
	b.ReportMetric(1e6/perPacket, "kpps")
}

// fillNumberless appends full headers and no payload to speak of: 64 bytes.
func fillNumberless(out *packet.Batch, model []byte) {
	for range benchBatch {
		i, space, ok := out.Extend()
		if !ok {
			return
		}
		out.Resize(i, copy(space, model))
	}
}

// BenchmarkSend is what the port sends over a veth when nothing else is to do:
// the peer's stack drops, or its socket has no room.
func BenchmarkSend(b *testing.B) {
	model := make([]byte, 64)
	stamp(model, addrB)
	cases := map[string]func(*rig){
		"peer stack":   func(*rig) {},
		"peer generic": func(r *rig) { r.openStuck(xdpprog.Generic) },
		"peer native":  func(r *rig) { r.openStuck(xdpprog.Native) },
	}
	for name, prepare := range cases {
		b.Run(name, func(b *testing.B) {
			r := newRig(b, "")
			prepare(r)
			a := r.open("va", Config{}, newTestPool(b, 2048, packet.FrameSize2K), nil)
			out := packet.NewBatch(a.pool, benchBatch)
			b.ReportAllocs()
			for b.Loop() {
				for a.Room() < benchBatch {
					if err := a.Flush(); err != nil {
						b.Fatal(err)
					}
				}
				fillNumberless(out, model)
				if err := a.Send(out); err != nil {
					b.Fatal(err)
				}
			}
			report(b)
			if c := a.Counters(); lost(out) != 0 {
				b.Errorf("lost %v; %+v", *out.Drops(), *c)
			}
		})
	}
}

// openStuck puts a socket on vb that nobody reads.
func (r *rig) openStuck(mode xdpprog.Mode) {
	r.open("vb", Config{}, newTestPool(r.t, 4, packet.FrameSize2K), r.attach("vb", addrB, mode))
}

// BenchmarkSendReceive is one thread that sends a batch and receives it at the
// other end.
func BenchmarkSendReceive(b *testing.B) {
	model := make([]byte, 64)
	stamp(model, addrB)
	for _, mode := range []xdpprog.Mode{xdpprog.Native, xdpprog.Generic} {
		b.Run(mode.String(), func(b *testing.B) {
			_, from, to := ends(b, mode, 2048, Config{})
			out, in := packet.NewBatch(from.pool, benchBatch), packet.NewBatch(to.pool, benchBatch)
			b.ReportAllocs()
			for b.Loop() {
				for from.Room() < benchBatch {
					if err := from.Flush(); err != nil {
						b.Fatal(err)
					}
				}
				fillNumberless(out, model)
				if err := from.Send(out); err != nil {
					b.Fatal(err)
				}
				for got := 0; got < benchBatch; {
					if err := to.Recv(in); err != nil {
						b.Fatal(err)
					}
					got += in.Len()
					in.Clear()
				}
			}
			report(b)
		})
	}
}

// BenchmarkIdleRecv is what one look at an empty port takes: a worker that
// spins does little else.
func BenchmarkIdleRecv(b *testing.B) {
	r := newRig(b, "")
	p := r.open("va", Config{}, newTestPool(b, 64, packet.FrameSize2K), nil)
	in := packet.NewBatch(p.pool, benchBatch)
	b.ReportAllocs()
	for b.Loop() {
		if err := p.Recv(in); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkKick compares the two ways of making a call that cannot block.
func BenchmarkKick(b *testing.B) {
	r := newRig(b, "")
	p := r.open("va", Config{}, newTestPool(b, 64, packet.FrameSize2K), nil)
	b.Run("raw", func(b *testing.B) {
		for b.Loop() {
			kickRX(p.fd)
		}
	})
	b.Run("scheduled", func(b *testing.B) {
		for b.Loop() {
			_, _, _ = unix.Syscall6(unix.SYS_RECVFROM, uintptr(p.fd), 0, 0, unix.MSG_DONTWAIT, 0, 0)
		}
	})
}
