package xsk

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"flanx/dataplane/packet"
	"flanx/dataplane/porttest"
	"flanx/dataplane/xdpprog"
)

// eachMode runs f in native and generic XDP.
func eachMode(t *testing.T, f func(*testing.T, xdpprog.Mode)) {
	for _, mode := range []xdpprog.Mode{xdpprog.Native, xdpprog.Generic} {
		t.Run(mode.String(), func(t *testing.T) { f(t, mode) })
	}
}

// TestPort holds the port to the suite that all ports pass, against a packet
// socket on the other end of the cable.
func TestPort(t *testing.T) {
	eachMode(t, func(t *testing.T, mode xdpprog.Mode) {
		porttest.Run(t, func(t *testing.T) *porttest.Pair {
			r := newRig(t, "")
			pool := newTestPool(t, 512, packet.FrameSize2K)
			p := r.open("va", Config{}, pool, r.attach("va", addrA, mode))
			bound, deaf := p.fd, deafSocket(t)
			return &porttest.Pair{
				Port: p, Pool: pool,
				Far: porttest.NewPacketFar(t, r.ns, "vb", unix.ETH_P_IP),
				Min: headers + 8, Max: 1514,
				Stamp: func(pkt []byte, way porttest.Direction) {
					stamp(pkt, map[porttest.Direction]netip.Addr{porttest.ToPort: addrA, porttest.ToFar: addrB}[way])
				},
				// A kernel that answers and does nothing, as one with a full
				// send buffer or a stopped queue.
				Block:   func() { p.fd = deaf },
				Unblock: func() { p.fd = bound },
				Held:    func() int { rx, tx := p.Held(); return rx + tx },
			}
		})
	})
}

// ends are two ports that face each other.
func ends(t testing.TB, mode xdpprog.Mode, frames int, cfg Config) (r *rig, a, b *Port) {
	t.Helper()
	r = newRig(t, "")
	a = r.open("va", cfg, newTestPool(t, frames, packet.FrameSize2K), r.attach("va", addrA, mode))
	b = r.open("vb", cfg, newTestPool(t, frames, packet.FrameSize2K), r.attach("vb", addrB, mode))
	return r, a, b
}

// TestSendReceive sends numbered packets of all lengths both ways in bursts of
// changing size: none may be lost, doubled, changed or out of order.
func TestSendReceive(t *testing.T) {
	total := 40_000
	if testing.Short() {
		total = 4_000
	}
	eachMode(t, func(t *testing.T, mode xdpprog.Mode) {
		_, a, b := ends(t, mode, 256, Config{FillTarget: 100, TXLimit: 50})
		rng := rand.New(rand.NewPCG(5, 6))
		for nr := 0; nr < total; {
			burst := min(1+rng.IntN(50), a.Room(), b.Room(), total-nr)
			if burst == 0 {
				awaitCompleted(t, a)
				awaitCompleted(t, b)
				continue
			}
			n := headers + 4 + rng.IntN(1514-headers-4)
			send(t, a, nr, burst, n, addrB)
			send(t, b, nr, burst, n, addrA)
			receive(t, b, nr, burst)
			receive(t, a, nr, burst)
			nr += burst
		}
		for _, p := range []*Port{a, b} {
			awaitCompleted(t, p)
			settled(t, p)
			st, err := p.Statistics()
			if err != nil || st.Dropped+st.RingFull+st.FillEmpty+st.BadTX+st.BadRX != 0 {
				t.Errorf("%+v, %v: want no loss", st, err)
			}
			if c := p.Counters(); c.Sent != uint64(total) || c.Completed != c.Sent || c.BadDescs+c.BadCompletions+c.DeviceDrops != 0 {
				t.Errorf("%+v: want %d sent and completed", *c, total)
			}
		}
	})
}

// TestThousandInOneCall: the kernel sends some tens of frames per call in copy
// mode, and says EAGAIN; all must leave all the same.
func TestThousandInOneCall(t *testing.T) {
	const count = 1000
	eachMode(t, func(t *testing.T, mode xdpprog.Mode) {
		for _, tuned := range []bool{true, false} {
			t.Run(fmt.Sprintf("tuned=%v", tuned), func(t *testing.T) {
				_, a, b := ends(t, mode, 4096, Config{FillTarget: 2048, TXLimit: 1024})
				if !tuned { // as on kernels that know no budget
					_ = unix.SetsockoptInt(a.fd, unix.SOL_XDP, unix.XDP_MAX_TX_SKB_BUDGET, defaultTXBudget)
				}
				send(t, a, 0, count, 100, addrB)
				if a.tx.pending() != 0 {
					t.Errorf("%d frames left in the TX ring", a.tx.pending())
				}
				receive(t, b, 0, count)
				awaitCompleted(t, a)
				if a.Room() != 1024 || a.Counters().Stalls != 0 {
					t.Errorf("Room = %d after completion; %+v", a.Room(), *a.Counters())
				}
				t.Logf("%d kicks", a.Counters().Kicks)
			})
		}
	})
}

// TestLinkDownAndUp: while the link is down packets are counted as lost, nothing
// fails and no frame leaks; when it is back, packets flow.
func TestLinkDownAndUp(t *testing.T) {
	eachMode(t, func(t *testing.T, mode xdpprog.Mode) {
		r, a, b := ends(t, mode, 256, Config{})
		send(t, a, 0, 10, 100, addrB)
		receive(t, b, 0, 10)
		awaitCompleted(t, a)

		r.ns.IP("link set va down")
		out := packet.NewBatch(a.pool, 16)
		const rounds = 50
		for range rounds {
			if a.Room() == 0 {
				t.Fatal("no room on a link that is down: the caller would wait for it")
			}
			for i := range 10 {
				queue(t, out, i, 100, addrB)
			}
			if err := a.Send(out); err != nil {
				t.Fatal(err)
			}
			if err := a.Recv(out); err != nil || out.Len() != 0 {
				t.Fatalf("Recv: %d packets, %v", out.Len(), err)
			}
		}
		// What was handed to the kernel before the port knew is not lost yet.
		if failed := out.Drops()[packet.SendFailed]; failed != 10*(rounds-1) {
			t.Errorf("%d packets counted as lost, want %d", failed, 10*(rounds-1))
		}

		r.ns.IP("link set va up")
		r.awaitCarrier()
		if err := a.Flush(); err != nil {
			t.Fatal(err)
		}
		receive(t, b, 0, 10) // those that waited in the ring
		send(t, a, 500, 20, 100, addrB)
		receive(t, b, 500, 20)
		awaitCompleted(t, a)
		settled(t, a)
	})
}

// TestPeerDown: the device drops what it is given, and that shows.
func TestPeerDown(t *testing.T) {
	r, a, _ := ends(t, xdpprog.Native, 256, Config{})
	r.ns.IP("link set vb down")
	send(t, a, 0, 50, 100, addrB)
	awaitCompleted(t, a)
	if c := a.Counters(); c.DeviceDrops != 50 || a.Room() != a.budget.tx {
		t.Errorf("%+v, Room %d: want 50 device drops and all room", *c, a.Room())
	}
	settled(t, a)
}

// TestInterfaceDeleted: whoever sends, and whoever only looks for packets, is
// told that the port is gone.
func TestInterfaceDeleted(t *testing.T) {
	eachMode(t, func(t *testing.T, mode xdpprog.Mode) {
		r, a, b := ends(t, mode, 256, Config{})
		r.ns.IP("link del va")
		out := packet.NewBatch(a.pool, 4)
		queue(t, out, 0, 100, addrB)
		if err := a.Send(out); !errorsIsGone(err) || out.Len() != 0 {
			t.Errorf("Send: %v with %d packets left, want ErrPortGone", err, out.Len())
		}
		in := packet.NewBatch(b.pool, 4)
		var err error
		for range checkEvery {
			if err = b.Recv(in); err != nil {
				break
			}
		}
		if !errorsIsGone(err) {
			t.Errorf("idle Recv: %v, want ErrPortGone", err)
		}
		if a.Close() != nil || b.Close() != nil {
			t.Error("Close of a port that is gone fails")
		}
	})
}

// TestQueues: one program, and a socket with its own pool for each queue. What
// leaves veth by a queue arrives on the same one in native mode; in generic mode
// on a neighbour, for the kernel counts recorded queues from one.
func TestQueues(t *testing.T) {
	const queues = 4
	eachMode(t, func(t *testing.T, mode xdpprog.Mode) {
		r := newRig(t, "numrxqueues 4 numtxqueues 4")
		progA, progB := r.attach("va", addrA, mode), r.attach("vb", addrB, mode)
		var as, bs []*Port
		for q := range queues {
			as = append(as, r.open("va", Config{Queue: q}, newTestPool(t, 128, packet.FrameSize2K), progA))
			bs = append(bs, r.open("vb", Config{Queue: q}, newTestPool(t, 128, packet.FrameSize2K), progB))
		}
		for q := range queues {
			to := q
			if mode == xdpprog.Generic {
				to = max(q-1, 0)
			}
			send(t, as[q], q<<8, 30, 200, addrB)
			receive(t, bs[to], q<<8, 30)
			send(t, bs[q], q<<8, 30, 200, addrA)
			receive(t, as[to], q<<8, 30)
			if bs[q].Queue() != q {
				t.Errorf("port reports queue %d, want %d", bs[q].Queue(), q)
			}
		}
	})
}

// TestLargeFrames: 4 KiB frames carry what an MTU of 3498 allows.
func TestLargeFrames(t *testing.T) {
	eachMode(t, func(t *testing.T, mode xdpprog.Mode) {
		r := newRig(t, "mtu 3498")
		a := r.open("va", Config{}, newTestPool(t, 64, packet.FrameSize4K), r.attach("va", addrA, mode))
		b := r.open("vb", Config{}, newTestPool(t, 64, packet.FrameSize4K), r.attach("vb", addrB, mode))
		send(t, a, 0, 10, 3512, addrB)
		receive(t, b, 0, 10)
	})
}

// TestPollDoesNotSpin: an idle port is neither readable, nor in any hurry.
func TestPollDoesNotSpin(t *testing.T) {
	_, a, b := ends(t, xdpprog.Native, 256, Config{})
	if wait(t, b, unix.POLLIN, 20*time.Millisecond) {
		t.Error("an idle port is readable")
	}
	send(t, a, 0, 1, 100, addrB)
	if !wait(t, b, unix.POLLIN, patience) {
		t.Error("a packet does not wake the poller")
	}
	receive(t, b, 0, 1)
}

func TestModeIsReadBack(t *testing.T) {
	r := newRig(t, "")
	for _, mode := range []Mode{Auto, Copy} {
		p := r.open("va", Config{Mode: mode}, newTestPool(t, 64, packet.FrameSize2K), nil)
		if p.ZeroCopy() {
			t.Errorf("%s on veth: zero-copy granted", mode)
		}
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
	}
	_, err := r.try("va", Config{Mode: ZeroCopy}, newTestPool(t, 64, packet.FrameSize2K))
	if !errorsIsNotSupported(err) || !strings.Contains(err.Error(), "no zero-copy") {
		t.Errorf("zero-copy demanded of veth: %v, want ErrNotSupported in clear words", err)
	}
}
