package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/songgao/water"

	"flanx/perf/lab"
)

// planted is a tunnel that loses every drop-th packet, or idles before each.
type planted struct {
	name  string
	drop  int
	delay time.Duration
}

func (p planted) Name() string { return p.name }
func (planted) Copies() string { return "planted" }

func (p planted) Start(ctx context.Context, w *Wire) (Ends, error) {
	for _, s := range []struct {
		host, peer *lab.Host
		own, other netip.Addr
	}{{w.A, w.B, overlayA, overlayB}, {w.B, w.A, overlayB, overlayA}} {
		var tun *water.Interface
		var conn *net.UDPConn
		err := s.host.Do(func() (err error) {
			tun, err = water.New(water.Config{DeviceType: water.TUN, PlatformSpecificParams: water.PlatformSpecificParams{Name: "planted0"}})
			if err != nil {
				return err
			}
			conn, err = net.DialUDP("udp", &net.UDPAddr{IP: s.host.Addr().AsSlice(), Port: 9}, &net.UDPAddr{IP: s.peer.Addr().AsSlice(), Port: 9})
			return err
		})
		if err != nil {
			return Ends{}, err
		}
		context.AfterFunc(ctx, func() { _, _ = tun.Close(), conn.Close() })
		go p.carry(conn.Write, tun.Read)
		go p.carry(tun.Write, conn.Read)
		script := fmt.Sprintf("ip addr add %s/32 dev planted0\nip link set planted0 mtu 1450 up\nip route add %s/24 dev planted0", s.own, s.other)
		if err := runLines(ctx, s.host, script); err != nil {
			return Ends{}, err
		}
	}
	return Ends{A: overlayA, B: overlayB}, nil
}

func (p planted) carry(write, read func([]byte) (int, error)) {
	buf := make([]byte, 1<<16)
	var sys *net.OpError
	for i := 1; ; i++ {
		n, err := read(buf)
		if err != nil && (!errors.As(err, &sys) || errors.Is(err, net.ErrClosed)) {
			return
		}
		for until := time.Now().Add(p.delay); time.Now().Before(until); {
		}
		if err == nil && (p.drop == 0 || i%p.drop != 0) {
			_, _ = write(buf[:n])
		}
	}
}

// needRoot skips without root, and fails where tests must not be skipped.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() == 0 {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("network namespaces need root")
	}
	t.Skip("network namespaces need root")
}

type broken struct{ Bare }

var errBroken = errors.New("broken on purpose")

func (broken) Name() string                               { return "broken" }
func (broken) Start(context.Context, *Wire) (Ends, error) { return Ends{}, errBroken }

// TestRunFindsPlantedPaths measures for real, on a machine that may be doing
// other work: what is planted must be found in one of three runs.
func TestRunFindsPlantedPaths(t *testing.T) {
	needRoot(t)
	var wrong []string
	for range 3 {
		if wrong = plantedRun(t); len(wrong) == 0 {
			return
		}
		t.Logf("not found this time: %s", strings.Join(wrong, "; "))
	}
	t.Error(strings.Join(wrong, "\n"))
}

// plantedRun measures planted paths and says what was judged wrongly.
func plantedRun(t *testing.T) (wrong []string) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	c := Config{
		Paths: []Path{
			planted{name: "slow", delay: 300 * time.Microsecond},
			Bare{},
			KernelVXLAN{},
			planted{name: "lossy", drop: 5},
			broken{},
		},
		Workloads: []Workload{
			RoundTrip("rtt", 60*time.Millisecond, 0, [2]int{}),
			PacketRate("pps", small, Search{Trial: 30 * time.Millisecond, Steps: 1, Loss: 0.05}),
		},
		Rounds: 7,
	}
	res, err := Run(ctx, c, func(int, int, string) {})
	if err != nil {
		t.Fatal(err)
	}
	cells := map[[2]string]Cell{}
	for _, c := range res.Cells {
		cells[[2]string{c.Workload, c.Path}] = c
	}
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	slow, bare := cells[[2]string{"rtt", "slow"}], cells[[2]string{"rtt", "bare"}]
	if slow.Rank <= bare.Rank || bare.Rank != 1 {
		say("slow path ranks %d (%+v), bare %d (%+v)", slow.Rank, slow.Summary, bare.Rank, bare.Summary)
	}
	if kernel := cells[[2]string{"rtt", "kernel-vxlan"}]; kernel.Rank >= slow.Rank {
		say("kernel's VXLAN ranks %d, the slow path %d", kernel.Rank, slow.Rank)
	}
	lossy := cells[[2]string{"pps", "lossy"}]
	if lossy.Summary.Median != 0 || len(lossy.Samples) != 7 {
		say("a path that loses a fifth passes at 5 %%: %+v, %d samples, %s%s", lossy.Summary, len(lossy.Samples), lossy.Failure, res.Paths[3].Failure)
	}
	for _, s := range lossy.Samples {
		if loss := s.Trials[len(s.Trials)-1].Loss(); loss < 0.15 {
			say("a loss of a fifth shows as %.2f", loss)
		}
	}
	if got := res.Paths[4].Failure; got != errBroken.Error() {
		say("broken path's row says %q", got)
	}
	return wrong
}

func TestRunKeepsWhatWasMeasured(t *testing.T) {
	needRoot(t)
	ctx, cancel := context.WithCancel(context.Background())
	c := Config{Paths: []Path{Bare{}}, Workloads: []Workload{TCP(1, 10*time.Millisecond)}, Rounds: 50}
	res, err := Run(ctx, c, func(done, _ int, _ string) {
		if done == 3 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) || !res.Cut || res.Cells[0].Summary.N == 0 || res.Cells[0].Summary.N > 3 {
		t.Errorf("cut run: %v, cut %t, %+v", err, res.Cut, res.Cells[0].Summary)
	}
}

func TestRunWithNothing(t *testing.T) {
	needRoot(t)
	c := Config{Paths: []Path{broken{}}, Workloads: Quick(0), Rounds: 1}
	if _, err := Run(context.Background(), c, func(int, int, string) {}); !errors.Is(err, ErrNothing) {
		t.Errorf("no path started: %v", err)
	}
}
