package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"flanx/dataplane/packet"
	"flanx/dataplane/xsk"
	"flanx/perf/lab"
	"flanx/perf/lab/labtest"
	"flanx/perf/replay/capture"
)

// wantsComparison skips what only "make replay-compare" runs: it takes minutes
// and a machine that does nothing else.
func wantsComparison(t *testing.T) {
	t.Helper()
	if os.Getenv("FLANX_COMPARE") == "" {
		t.Skip(`a measurement: run it by "make replay-compare"`)
	}
}

const rounds = 5

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}

// minimal writes a capture of n frames of 60 bytes (64 with the check sequence).
func minimal(t *testing.T, n int) string {
	t.Helper()
	in := captureFile(t, n, 0)
	out := filepath.Join(t.TempDir(), "frames.pcap")
	if code, _, stderr := flanx(t, "replay", in, "--to", "file:"+out, "--include", "less 60", "--dst-mac", "02:00:00:00:00:99"); code != exitOK {
		t.Fatal(stderr)
	}
	return out
}

// xskAlone is how many frames a second AF_XDP sends by itself from a host.
func xskAlone(t *testing.T, h *lab.Host, size int) float64 {
	t.Helper()
	pool, err := packet.NewPool(xdpFrames, packet.FrameSize2K)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	var port *xsk.Port
	err = h.Do(func() error {
		iface, err := net.InterfaceByName("eth0")
		if err != nil {
			return err
		}
		port, err = xsk.Open(xsk.Config{IfIndex: iface.Index, FillTarget: 64, TXLimit: xdpFrames / 2}, pool)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer port.Close()
	b := packet.NewBatch(pool, 64)
	frame := make([]byte, size)
	copy(frame, []byte{2, 0, 0, 0, 0, 0x99, 2, 0, 0, 0, 0, 1, 8, 0})
	began, sent := time.Now(), 0
	for time.Since(began) < 2*time.Second {
		for b.Room() > 0 {
			i, space, ok := b.Extend()
			if !ok {
				break
			}
			b.Resize(i, copy(space, frame))
		}
		sent += b.Len()
		if err := port.Send(b); err != nil {
			t.Fatal(err)
		}
		for port.Room() < 64 {
			if err := port.Flush(); err != nil {
				t.Fatal(err)
			}
		}
	}
	return float64(sent) / time.Since(began).Seconds()
}

// achieved runs "flanx replay" as a process of its own in a host.
func achieved(t *testing.T, program string, h *lab.Host, args ...string) outcome {
	t.Helper()
	out, err := h.Output(t.Context(), program, append([]string{"replay", "--json"}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	var o outcome
	if err := json.Unmarshal(out, &o); err != nil {
		t.Fatal(err)
	}
	return o
}

var rated = regexp.MustCompile(`([0-9.]+) pps`)

// tcpreplay runs Debian's and returns the rate that it reports.
func tcpreplay(t *testing.T, h *lab.Host, args ...string) float64 {
	t.Helper()
	out, err := h.Output(t.Context(), "tcpreplay", append([]string{"-i", "eth0"}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	m := rated.FindSubmatch(out)
	if m == nil {
		t.Fatalf("no rate in %s", out)
	}
	pps, err := strconv.ParseFloat(string(m[1]), 64)
	if err != nil {
		t.Fatal(err)
	}
	return pps
}

// The top rate: ours, AF_XDP's alone and tcpreplay's, in turns.
func TestCompareTopRate(t *testing.T) {
	wantsComparison(t)
	program := binary(t)
	_, hosts := labtest.Hosts(t, lab.Wire{}, "a", "b")
	file := minimal(t, 1000)
	var alone, xdp, plain, theirs []float64
	for range rounds {
		alone = append(alone, xskAlone(t, hosts[0], 60))
		xdp = append(xdp, achieved(t, program, hosts[0], file, "--to", "dev:eth0", "--io", "xdp", "--top", "--preload", "64MiB", "--loop", "0", "--duration", "2s").PPS)
		plain = append(plain, achieved(t, program, hosts[0], file, "--to", "dev:eth0", "--io", "packet", "--top", "--preload", "64MiB", "--loop", "0", "--duration", "2s").PPS)
		theirs = append(theirs, tcpreplay(t, hosts[0], "-t", "--preload-pcap", "--loop=4000", file))
	}
	a, x, p, r := median(alone), median(xdp), median(plain), median(theirs)
	t.Logf("median of %d, packets/s: AF_XDP alone %.0f; flanx by AF_XDP %.0f, by packet socket %.0f; tcpreplay -t %.0f", rounds, a, x, p, r)
	t.Logf("flanx ÷ AF_XDP alone %.3f; flanx ÷ tcpreplay %.2f", x/a, x/r)
	if x/a < 0.9 {
		t.Errorf("replay by AF_XDP is %.3f of AF_XDP alone, want 0.9", x/a)
	}
	if x/r < 3 {
		t.Errorf("replay is %.2f times tcpreplay, want 3", x/r)
	}
}

// arrivals records a run with tcpdump at the far end and returns how far each
// gap was from the one asked for: p99 in microseconds, and the rate.
func arrivals(t *testing.T, h *lab.Host, want time.Duration, send func()) (p99, pps float64) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "far.pcap")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	dump, err := h.Start(ctx, lab.Spec{Path: "tcpdump", Args: []string{
		"-i", "eth0", "-w", path, "--time-stamp-precision=nano", "-B", "65536", "-s", "96", "-Z", "root", "ether", "dst", "02:00:00:00:00:99",
	}})
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second)
	send()
	time.Sleep(500 * time.Millisecond)
	_ = dump.Stop(5 * time.Second) // what it has written is what counts
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := capture.New(f)
	if err != nil {
		t.Fatal(err)
	}
	var errs []float64
	var rec capture.Record
	var first, last int64
	for {
		if err := r.Next(&rec); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if first == 0 {
			first = rec.Time
		} else {
			errs = append(errs, math.Abs(float64(rec.Time-last-int64(want)))/1e3)
		}
		last = rec.Time
	}
	slices.Sort(errs)
	return errs[len(errs)*99/100], float64(len(errs)) / (float64(last-first) / 1e9)
}

// A rate of 10,000 a second: how well both keep it, as seen from the far end.
func TestComparePacing(t *testing.T) {
	wantsComparison(t)
	program := binary(t)
	_, hosts := labtest.Hosts(t, lab.Wire{}, "a", "b")
	file := minimal(t, 1000)
	var ours, theirs, oursRate, theirsRate []float64
	for range rounds {
		e, r := arrivals(t, hosts[1], 100*time.Microsecond, func() {
			achieved(t, program, hosts[0], file, "--to", "dev:eth0", "--io", "xdp", "--pps", "10000", "--loop", "50", "--preload", "64MiB")
		})
		ours, oursRate = append(ours, e), append(oursRate, r)
		e, r = arrivals(t, hosts[1], 100*time.Microsecond, func() {
			tcpreplay(t, hosts[0], "--pps=10000", "--preload-pcap", "--loop=50", file)
		})
		theirs, theirsRate = append(theirs, e), append(theirsRate, r)
	}
	t.Logf("median of %d at 10,000/s: flanx p99 of gap error %.1f µs, %.1f packets/s; tcpreplay %.1f µs, %.1f packets/s",
		rounds, median(ours), median(oursRate), median(theirs), median(theirsRate))
	if median(ours) > median(theirs) {
		t.Errorf("gap error %.1f µs is worse than tcpreplay's %.1f", median(ours), median(theirs))
	}
	if off := math.Abs(median(oursRate)/10000 - 1); off > 0.01 {
		t.Errorf("rate off by %.2f %%", off*100)
	}
}

// Four GiB through the tunnel's codec take no more memory than a little file.
func TestCompareMemory(t *testing.T) {
	wantsComparison(t)
	program := binary(t)
	resident := func(size int64) float64 {
		pipe := exec.CommandContext(t.Context(), program, "replay", "-", "--to", "file:/dev/null", "--encap", "vxlan")
		stdin, err := pipe.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := pipe.Start(); err != nil {
			t.Fatal(err)
		}
		feed(t, stdin, size)
		if err := errors.Join(stdin.Close(), pipe.Wait()); err != nil {
			t.Fatal(err)
		}
		return float64(pipe.ProcessState.SysUsage().(*syscall.Rusage).Maxrss) / 1024 // KiB, getrusage(2)
	}
	small, large := resident(16<<20), resident(4<<30)
	t.Logf("most resident: %.1f MiB for 16 MiB, %.1f MiB for 4 GiB", small, large)
	if large > small+16 {
		t.Errorf("%.1f MiB for 4 GiB, %.1f MiB for 16 MiB", large, small)
	}
}

// feed writes a capture of about size bytes.
func feed(t *testing.T, w io.Writer, size int64) {
	t.Helper()
	b, err := os.ReadFile(captureFile(t, 10000, 0))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	records := b[24:]
	for n := int64(0); n < size; n += int64(len(records)) {
		if _, err := w.Write(records); err != nil {
			t.Fatal(err)
		}
	}
}
