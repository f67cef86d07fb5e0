package host

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"flanx/dataplane/packet"
	"flanx/dataplane/xdpprog"
	"flanx/dataplane/xsk"
	"flanx/perf/lab"
)

func TestOpenXSK(t *testing.T) {
	for rung, ipShows := range map[Rung]string{Native: "xdp", Generic: "xdpgeneric"} {
		t.Run(rung.String(), func(t *testing.T) {
			l := newXSKLab(t, lab.Wire{})
			x := l.open(l.config(), rung)
			if len(x.Ports) != 1 || x.Rung != rung || x.Ports[0].ZeroCopy() || x.Ports[0].Pool().Frames() != 512 {
				t.Errorf("%+v", x)
			}
			if got := l.attached(); got != ipShows {
				t.Errorf("ip shows %q, want %q", got, ipShows)
			}
			if w := x.Warnings(); len(w) != 0 {
				t.Errorf("warnings on a wire: %q", w)
			}
			l.received(x.Ports[0], l.us.Addr())
			l.received(x.Ports[0], l.us.Addr6())
			if err := errors.Join(x.Check(), x.Close()); err != nil {
				t.Error(err)
			}
			if got := l.attached(); got != "" {
				t.Errorf("after Close ip shows %q", got)
			}
			l.passed()
			if err := x.Close(); err != nil {
				t.Errorf("second Close: %v", err)
			}
		})
	}
}

// TestOtherTrafficPasses: what is not the tunnel's goes by the kernel.
func TestOtherTrafficPasses(t *testing.T) {
	l := newXSKLab(t, lab.Wire{})
	cfg := l.config()
	cfg.Port = xskPort + 1
	l.open(cfg, Native)
	l.passed()
}

// TestGenericIsRefusedWithOffloads: there super-packets would be lost.
func TestGenericIsRefusedWithOffloads(t *testing.T) {
	l := newXSKLab(t, lab.Wire{Offloads: true})
	_, err := l.try(l.config(), Generic)
	if !errors.Is(err, ErrSuperPackets) || !strings.Contains(err.Error(), "tx-udp-segmentation") || !strings.Contains(err.Error(), "ethtool -K eth0") {
		t.Errorf("generic on a default veth: %v, want ErrSuperPackets with the cure", err)
	}
	if got := l.attached(); got != "" {
		t.Errorf("ip shows %q", got)
	}
	x := l.open(l.config(), Native)
	if len(x.Warnings()) != 1 || !strings.Contains(x.Warnings()[0], "checksum") {
		t.Errorf("warnings %q, want one about checksums", x.Warnings())
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	cfg := l.config()
	cfg.WireSized = true
	l.received(l.open(cfg, Generic).Ports[0], l.us.Addr())
}

// TestGenericAfterOffloadsOff: switching our end off is the evidence.
func TestGenericAfterOffloadsOff(t *testing.T) {
	l := newXSKLab(t, lab.Wire{Offloads: true})
	for _, h := range []*lab.Host{l.us, l.peer} {
		if err := h.SetOffloads("eth0", false); err != nil {
			t.Fatal(err)
		}
	}
	l.received(l.open(l.config(), Generic).Ports[0], l.us.Addr())
}

func TestZeroCopyOnVeth(t *testing.T) {
	l := newXSKLab(t, lab.Wire{})
	_, err := l.try(l.config(), ZeroCopy)
	if !errors.Is(err, xsk.ErrNotSupported) {
		t.Errorf("zero-copy on veth: %v, want ErrNotSupported", err)
	}
	if got := l.attached(); got != "" {
		t.Errorf("after a refusal ip shows %q", got)
	}
}

func TestLargeMTU(t *testing.T) {
	cases := map[int]map[Rung]error{
		3498: {Native: nil, Generic: nil},
		3600: {Native: xdpprog.ErrNotSupported, Generic: nil},
		9000: {Native: ErrMTU, Generic: ErrMTU, ZeroCopy: ErrMTU},
	}
	for mtu, rungs := range cases {
		l := newXSKLab(t, lab.Wire{MTU: mtu})
		for rung, want := range rungs {
			t.Run(fmt.Sprintf("%s at %d", rung, mtu), func(t *testing.T) {
				x, err := l.try(l.config(), rung)
				if !errors.Is(err, want) {
					t.Fatalf("%v, want %v", err, want)
				}
				if err != nil {
					if !strings.Contains(err.Error(), fmt.Sprintf("MTU %d", mtu)) {
						t.Errorf("%q does not name the MTU", err)
					}
					return
				}
				if got := x.Ports[0].Pool().FrameSize(); got != packet.FrameSize4K {
					t.Errorf("frames of %d bytes", got)
				}
				l.received(x.Ports[0], l.us.Addr())
				_ = x.Close()
			})
		}
	}
}

func TestQueues(t *testing.T) {
	l := newXSKLab(t, lab.Wire{Queues: 3})
	x := l.open(l.config(), Native)
	pools := map[*packet.Pool]bool{}
	for i, p := range x.Ports {
		if p.Queue() != i {
			t.Errorf("port %d serves queue %d", i, p.Queue())
		}
		pools[p.Pool()] = true
	}
	if len(x.Ports) != 3 || len(pools) != 3 {
		t.Errorf("%d ports with %d pools, want 3 and 3", len(x.Ports), len(pools))
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}

	cfg := l.config()
	cfg.Queues = 4
	if _, err := l.try(cfg, Native); !errors.Is(err, ErrTooFewQueues) || !strings.Contains(err.Error(), "has 3") {
		t.Errorf("four of three queues: %v, want ErrTooFewQueues with the number", err)
	}
	cfg.Queues = 1
	if x := l.open(cfg, Native); len(x.Ports) != 1 {
		t.Errorf("%d ports, want 1", len(x.Ports))
	}
	l.passedSomewhere()
}

// passedSomewhere sends on many flows, which spread over the queues: what comes
// in on queues without a socket must reach the kernel.
func (l *xskLab) passedSomewhere() {
	l.tb.Helper()
	us, peer := l.listen(l.us, l.us.Addr()), l.listen(l.peer, l.peer.Addr())
	for range 10 {
		write(l.tb, us, l.peer.Addr(), []byte("out"))
		buf := make([]byte, 16)
		_ = peer.SetReadDeadline(time.Now().Add(xskPatience))
		if _, err := peer.Read(buf); err != nil {
			l.tb.Fatal(err)
		}
	}
}

func TestForeignProgramStays(t *testing.T) {
	l := newXSKLab(t, lab.Wire{})
	theirs := l.open(l.config(), Native)
	before := l.ip(l.us, "-d -o link show eth0")
	cfg := l.config()
	cfg.Port++
	for _, rung := range []Rung{ZeroCopy, Native, Generic} {
		if _, err := l.try(cfg, rung); !errors.Is(err, xdpprog.ErrForeignProgram) {
			t.Errorf("%s: %v, want ErrForeignProgram", rung, err)
		}
	}
	if after := l.ip(l.us, "-d -o link show eth0"); after != before {
		t.Errorf("their program was touched:\n%s\n%s", before, after)
	}
	l.received(theirs.Ports[0], l.us.Addr())
}

func TestNoRungOfAFXDP(t *testing.T) {
	for _, rung := range []Rung{Auto, UDP, 99} {
		if _, err := OpenXSK(XSKConfig{IfIndex: 1}, rung); !errors.Is(err, ErrRung) {
			t.Errorf("OpenXSK(%s) = %v, want ErrRung", rung, err)
		}
	}
}

// TestInterfaceDeleted: Check, and the port, say so; Close is no error.
func TestInterfaceDeleted(t *testing.T) {
	l := newXSKLab(t, lab.Wire{})
	x := l.open(l.config(), Native)
	l.ip(l.us, "link del eth0")
	deadline := time.Now().Add(xskPatience)
	for x.Check() == nil && time.Now().Before(deadline) {
		time.Sleep(time.Millisecond)
	}
	if err := x.Check(); !errors.Is(err, xdpprog.ErrDetached) {
		t.Errorf("Check = %v, want ErrDetached", err)
	}
	b := packet.NewBatch(x.Ports[0].Pool(), 8)
	var err error
	for err == nil && time.Now().Before(deadline) {
		err = x.Ports[0].Recv(b)
	}
	if !errors.Is(err, packet.ErrPortGone) {
		t.Errorf("Recv = %v, want ErrPortGone", err)
	}
	if err := x.Close(); err != nil {
		t.Error(err)
	}
}

// TestOpenXSKUndoes fails each step in turn, and after the last one the binding
// of the second queue: nothing may stay open or attached.
func TestOpenXSKUndoes(t *testing.T) {
	l := newXSKLab(t, lab.Wire{Queues: 2})
	cfg := l.config()
	var steps []string
	l.openWith(t, &opener{cfg: cfg, rung: Native, before: func(step string) error {
		steps = append(steps, step)
		return nil
	}}, nil)
	injected := errors.New("injected")
	for _, bad := range steps {
		t.Run(bad, func(t *testing.T) {
			l.openWith(t, &opener{cfg: cfg, rung: Native, before: func(step string) error {
				if step == bad {
					return injected
				}
				return nil
			}}, injected)
		})
	}
	t.Run("second queue", func(t *testing.T) {
		var busy *xsk.Port
		pool, err := packet.NewPool(64, packet.FrameSize2K)
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		l.do(func() (err error) {
			busy, err = xsk.Open(xsk.Config{IfIndex: cfg.IfIndex, Queue: 1}, pool)
			return err
		})
		defer busy.Close()
		l.openWith(t, &opener{cfg: cfg, rung: Native}, xsk.ErrQueueBusy)
	})
}

// openWith opens and, if that succeeds, closes; it wants the error, and nothing
// left behind.
func (l *xskLab) openWith(t *testing.T, o *opener, want error) {
	t.Helper()
	before := openFiles(t)
	var x *XSK
	err := l.us.Do(func() (err error) {
		x, err = o.open()
		return err
	})
	if err == nil {
		err = x.Close()
	}
	if !errors.Is(err, want) {
		t.Errorf("open = %v, want %v", err, want)
	}
	for f := range openFiles(t) {
		if !before[f] {
			t.Errorf("left behind: %s", f)
		}
	}
	if got := l.attached(); got != "" {
		t.Errorf("ip shows %q", got)
	}
}

func TestReopenWithoutPause(t *testing.T) {
	l := newXSKLab(t, lab.Wire{})
	cfg := l.config()
	for i := range 30 {
		for _, rung := range []Rung{Native, Generic} {
			x, err := l.try(cfg, rung)
			if err != nil {
				t.Fatalf("open %d of %s: %v", i, rung, err)
			}
			if err := x.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// holdXSK makes this test binary a process that opens AF_XDP and waits to be
// killed; its value is the rung.
const holdXSK = "FLANX_HOST_HOLD_XSK"

// TestHoldXSK is not a test: it is the process that TestKilledHolder kills.
func TestHoldXSK(t *testing.T) {
	value, held := os.LookupEnv(holdXSK)
	if !held {
		return
	}
	rung, err := ParseRung(value)
	if err != nil {
		t.Fatal(err)
	}
	var cfg XSKConfig
	if _, err := fmt.Sscan(os.Getenv(holdXSK+"_IF"), &cfg.IfIndex); err != nil {
		t.Fatal(err)
	}
	cfg.Port, cfg.Frames = xskPort, 512
	cfg.IPv4 = mustAddr(t, os.Getenv(holdXSK+"_IP"))
	if _, err := OpenXSK(cfg, rung); err != nil {
		t.Fatal(err)
	}
	fmt.Println("holding")
	time.Sleep(time.Minute)
}

// TestKilledHolder: after SIGKILL the host's traffic flows, also to the tunnel's
// port, and a new start finds the interface and the queue free, in any mode.
func TestKilledHolder(t *testing.T) {
	for rung, next := range map[Rung]Rung{Native: Generic, Generic: Native} {
		t.Run(rung.String(), func(t *testing.T) {
			l := newXSKLab(t, lab.Wire{})
			child := l.startHolder(t, rung)
			if l.attached() == "" {
				t.Fatal("the child's program does not show")
			}
			if err := child.Signal(unix.SIGKILL); err != nil {
				t.Fatal(err)
			}
			<-child.Done()
			if got := l.attached(); got != "" {
				t.Fatalf("after SIGKILL ip still shows %q", got)
			}
			l.passed()
			l.received(l.open(l.config(), next).Ports[0], l.us.Addr())
		})
	}
}
