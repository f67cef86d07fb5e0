package packetsock

import (
	"errors"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"flanx/dataplane"
	"flanx/dataplane/packet"
	"flanx/perf/lab"
	"flanx/perf/lab/labtest"
)

var _ dataplane.Port = (*Port)(nil)

// openIn opens a port on a host's eth0, with a pool and a batch of its own.
func openIn(t *testing.T, h *lab.Host, receive bool) (*Port, *packet.Batch) {
	t.Helper()
	pool, err := packet.NewPool(64, packet.FrameSize2K)
	if err != nil {
		t.Fatal(err)
	}
	var p *Port
	err = h.Do(func() error {
		iface, err := net.InterfaceByName("eth0")
		if err != nil {
			return err
		}
		p, err = Open(Config{IfIndex: iface.Index, Receive: receive})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(p.Close(), p.Close()); err != nil {
			t.Error(err)
		}
		if pool.Free() != 64 {
			t.Errorf("%d of 64 frames free at the end", pool.Free())
		}
		_ = pool.Close()
	})
	return p, packet.NewBatch(pool, 48)
}

// frame is one of a type that nobody else sends.
func frame(b *packet.Batch, size int, mark byte) {
	i, space, ok := b.Extend()
	if !ok {
		return
	}
	clear(space[:size])
	copy(space, []byte{2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, 0x88, 0xb5, mark})
	b.Resize(i, size)
}

func TestThereInOrder(t *testing.T) {
	_, hosts := labtest.Hosts(t, lab.Wire{}, "a", "b")
	out, sent := openIn(t, hosts[0], false)
	in, got := openIn(t, hosts[1], true)
	const n = 40
	for i := range n {
		frame(sent, 60+i, byte(i))
	}
	if out.Room() < n {
		t.Fatalf("room %d", out.Room())
	}
	if err := out.Send(sent); err != nil || sent.Len() != 0 {
		t.Fatal(err)
	}
	next := 0
	for deadline := time.Now().Add(2 * time.Second); next < n && time.Now().Before(deadline); {
		if err := in.Recv(got); err != nil {
			t.Fatal(err)
		}
		for i := range got.Len() {
			if b := got.Bytes(i); b[12] == 0x88 && b[13] == 0xb5 {
				if int(b[14]) != next || len(b) != 60+next {
					t.Errorf("packet %d of %d bytes, want %d", b[14], len(b), next)
				}
				next++
			}
		}
		got.Clear()
	}
	if next != n {
		t.Errorf("%d of %d arrived", next, n)
	}
}

// What the interface refuses costs only itself.
func TestRefusedBySize(t *testing.T) {
	_, hosts := labtest.Hosts(t, lab.Wire{MTU: 1280}, "a", "b")
	out, b := openIn(t, hosts[0], false)
	frame(b, 60, 1)
	frame(b, 1600, 2)
	frame(b, 60, 3)
	if err := out.Send(b); err != nil {
		t.Fatal(err)
	}
	if b.Drops()[packet.TooBig] != 1 || out.Room() == 0 {
		t.Errorf("drops %v, room %d", b.Drops(), out.Room())
	}
}

func TestDown(t *testing.T) {
	_, hosts := labtest.Hosts(t, lab.Wire{}, "a", "b")
	out, b := openIn(t, hosts[0], false)
	if _, err := hosts[0].Output(t.Context(), "ip", "link", "set", "eth0", "down"); err != nil {
		t.Fatal(err)
	}
	frame(b, 60, 1)
	if err := out.Send(b); err != nil || b.Drops()[packet.SendFailed] != 1 {
		t.Errorf("%v, drops %v", err, b.Drops())
	}
}

func TestGone(t *testing.T) {
	_, hosts := labtest.Hosts(t, lab.Wire{}, "a", "b")
	out, b := openIn(t, hosts[0], false)
	if _, err := hosts[0].Output(t.Context(), "ip", "link", "del", "eth0"); err != nil {
		t.Fatal(err)
	}
	frame(b, 60, 1)
	if err := out.Send(b); !errors.Is(err, packet.ErrPortGone) {
		t.Errorf("%v", err)
	}
}

func TestNoSuchInterface(t *testing.T) {
	labtest.NeedRoot(t)
	if _, err := Open(Config{IfIndex: 1 << 30}); !errors.Is(err, unix.ENODEV) {
		t.Errorf("%v", err)
	}
}
