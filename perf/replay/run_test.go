package replay

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"flanx/dataplane/memport"
	"flanx/dataplane/packet"
	"flanx/encap/header"
	"flanx/perf/replay/capture"
	"flanx/perf/replay/change"
	"flanx/perf/replay/linktype"
	"flanx/perf/replay/pace"
	"flanx/perf/replay/verify"
)

// What goes into a tunnel comes out of it, at the same times.
func TestThereAndBack(t *testing.T) {
	a, b := ipv4("first"), ipv4("second, longer")
	file := pcapOf(linktype.Ethernet,
		record{at: 1e9 + 7, data: framed(header.EtherTypeIPv4, a)},
		record{at: 2e9, data: append(framed(header.EtherTypeIPv4, b), 0, 0, 0)}, // padded
		record{at: 3e9, data: framed(header.EtherTypeARP, make([]byte, 28))},
	)
	for _, wrap := range []string{"udp", "vxlan"} {
		t.Run(wrap, func(t *testing.T) {
			out, sum, err := toFile(t, Config{Open: opener(file)}, linktype.Ethernet, wrap)
			if err != nil || sum.Sent != 2 || sum.Read != 3 || sum.Skipped["not_ip"] != 1 {
				t.Fatalf("%+v, %v", sum, err)
			}
			inner, _, err := unwrapFile(t, out, wrap)
			if err != nil {
				t.Fatal(err)
			}
			data, times := contents(t, inner)
			if len(data) != 2 || times[0] != 1e9+7 || times[1] != 2e9 {
				t.Fatalf("%d packets at %v", len(data), times)
			}
			for i, want := range [][]byte{a, b} {
				got, ok := linktype.FindIP(wrapping(wrap).LinkType(), data[i])
				if !ok || !bytes.Equal(got[28:], want[28:]) || len(got) != len(want) {
					t.Errorf("packet %d: %x, want %x", i, got, want)
				}
			}
		})
	}
}

func TestSkipped(t *testing.T) {
	whole := ipv4("payload")
	claims := ipv4("payload")
	header.IPv4(claims).SetTotalLength(1000)
	segmented := ipv4("payload")
	header.IPv4(segmented).SetTotalLength(0)
	tests := []struct {
		name   string
		link   int
		rec    record
		change func(*Config)
		reason string // empty: it is sent
	}{
		{"whole", linktype.Raw, record{data: whole}, nil, ""},
		{"empty", linktype.Raw, record{length: 60}, nil, "empty"},
		{"cut", linktype.Raw, record{data: whole[:30], length: 35}, nil, "cut_record"},
		{"cut and padded", linktype.Raw, record{data: whole[:30], length: 35}, func(c *Config) { c.Cut = CutPad }, ""},
		{"cut and sent", linktype.Raw, record{data: whole[:30], length: 35}, func(c *Config) { c.Cut = CutSend }, ""},
		{"claims too much", linktype.Raw, record{data: claims}, nil, "bad_length"},
		{"length 0", linktype.Raw, record{data: segmented}, nil, "bad_length"},
		{"length 0, repaired", linktype.Raw, record{data: segmented}, func(c *Config) { c.RepairLengths = true }, ""},
		{"header cut", linktype.Raw, record{data: whole[:12]}, nil, "bad_length"},
		{"wifi", 105, record{data: whole}, nil, "unknown_link_type"},
		{"filtered", linktype.Raw, record{data: whole}, func(c *Config) { c.Filter, _ = change.Parse("tcp") }, "filtered_out"},
		{"frame too long for any", linktype.Ethernet, record{data: framed(header.EtherTypeIPv4, make([]byte, 70000))}, nil, "too_long"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := Config{Open: opener(pcapOf(tt.link, tt.rec)), Output: Output{Shape: Packets}}
			if tt.link == linktype.Ethernet {
				cfg.Output.Shape = Frames
			}
			if tt.change != nil {
				tt.change(&cfg)
			}
			_, sum, err := toFile(t, cfg, linktype.Raw, "")
			switch {
			case tt.reason == "" && (err != nil || sum.Sent != 1):
				t.Errorf("%+v, %v", sum, err)
			case tt.reason != "" && (!errors.Is(err, ErrNothingSent) || sum.Skipped[tt.reason] != 1):
				t.Errorf("%+v, %v", sum, err)
			}
		})
	}
}

func TestUnknownLinkIsNamed(t *testing.T) {
	_, _, err := toFile(t, Config{Open: opener(pcapOf(105, record{data: ipv4("x")}))}, linktype.Ethernet, "")
	if err == nil || !strings.Contains(err.Error(), "IEEE802_11 (105)") {
		t.Errorf("%v", err)
	}
}

// What was captured without Ethernet gets a header with the addresses asked for.
func TestFramesOfOtherLinks(t *testing.T) {
	out, _, err := toFile(t, Config{Open: opener(pcapOf(linktype.Raw, record{data: ipv4("x")}))}, linktype.Ethernet, "")
	if err != nil {
		t.Fatal(err)
	}
	data, _ := contents(t, out)
	if !bytes.Equal(data[0], append([]byte{255, 255, 255, 255, 255, 255, 0, 0, 0, 0, 0, 0, 8, 0}, ipv4("x")...)) {
		t.Errorf("%x", data[0])
	}
}

// The packets before the damage are sent, and the damage is told.
func TestDamagedFile(t *testing.T) {
	file := pcapOf(linktype.Raw, record{data: ipv4("one")}, record{data: ipv4("two")})
	_, sum, err := toFile(t, Config{Open: opener(file[:len(file)-1]), Output: Output{Shape: Packets}}, linktype.Raw, "")
	if sum == nil || sum.Sent != 1 || !errors.Is(err, capture.ErrTruncated) || !strings.Contains(err.Error(), "after packet 1") {
		t.Errorf("%+v, %v", sum, err)
	}
}

func TestLoopsAndLimits(t *testing.T) {
	file := pcapOf(linktype.Raw, record{data: ipv4("one")}, record{data: ipv4("two")}, record{data: ipv4("three")})
	tests := []struct {
		name        string
		cfg         Config
		sent, loops uint64
	}{
		{"once", Config{}, 3, 1},
		{"four times", Config{Loops: 4}, 12, 4},
		{"preloaded", Config{Loops: 4, Preload: 1 << 20}, 12, 4},
		{"limited", Config{Loops: -1, Limit: 100}, 100, 33},
		{"batches of one", Config{Loops: 2, Batch: 1}, 6, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := tt.cfg
			cfg.Open = opener(file)
			cfg.Output.Shape = Packets
			out, sum, err := toFile(t, cfg, linktype.Raw, "")
			if err != nil || sum.Sent != tt.sent || sum.Loops != tt.loops {
				t.Errorf("%+v, %v", sum, err)
			}
			if data, _ := contents(t, out); uint64(len(data)) != tt.sent {
				t.Errorf("%d in the file", len(data))
			}
		})
	}
	_, _, err := toFile(t, Config{Open: opener(file), Preload: 100}, linktype.Raw, "")
	if !errors.Is(err, ErrPreload) {
		t.Errorf("preload of 100 bytes: %v", err)
	}
}

// Asked for a rate, the rate is kept, and the original timing too.
func TestPaceIsKept(t *testing.T) {
	var recs []record
	for i := range 50 {
		recs = append(recs, record{at: int64(i) * 2e6, data: ipv4("tick")})
	}
	tests := []struct {
		name string
		pace pace.Config
		want time.Duration
	}{
		{"original", pace.Config{}, 98 * time.Millisecond},
		{"double speed", pace.Config{Speed: 2}, 49 * time.Millisecond},
		{"packets per second", pace.Config{PPS: 1000}, 49 * time.Millisecond},
		{"megabits per second", pace.Config{Mbps: 0.256}, 49 * time.Millisecond},
		{"in bursts", pace.Config{PPS: 1000, Burst: 7}, 49 * time.Millisecond},
		{"with capped gaps", pace.Config{MaxGap: time.Millisecond}, 49 * time.Millisecond},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out, _ := toMemory(t, 1024)
			sum, err := Run(t.Context(), Config{Open: opener(pcapOf(linktype.Raw, recs...)), Output: out, Pace: tt.pace})
			if err != nil || sum.Sent != 50 {
				t.Fatalf("%+v, %v", sum, err)
			}
			// Early is always wrong; late is what a busy machine does.
			took := time.Duration(sum.Seconds * 1e9)
			if took < tt.want-3*time.Millisecond || took > tt.want+200*time.Millisecond {
				t.Errorf("took %s, want %s", took, tt.want)
			}
		})
	}
}

// A pause of years is no prison (appneta/tcpreplay#549).
func TestInterrupted(t *testing.T) {
	file := pcapOf(linktype.Raw, record{data: ipv4("a")}, record{at: 1e18, data: ipv4("b")})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	out, _ := toMemory(t, 16)
	began := time.Now()
	sum, err := Run(ctx, Config{Open: opener(file), Output: out})
	if err != nil || sum.Sent != 1 || !sum.Interrupted || time.Since(began) > time.Second {
		t.Errorf("%+v, %v after %s", sum, err, time.Since(began))
	}
}

func TestDuration(t *testing.T) {
	file := pcapOf(linktype.Raw, record{data: ipv4("a")}, record{at: 60e9, data: ipv4("b")})
	out, _ := toMemory(t, 16)
	sum, err := Run(t.Context(), Config{Open: opener(file), Output: out, Duration: 30 * time.Millisecond})
	if err != nil || sum.Sent != 1 || sum.Interrupted {
		t.Errorf("%+v, %v", sum, err)
	}
}

// A port that takes nothing ends the replay with a word, and no frame is lost.
func TestStuckPort(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	out, _ := toMemory(t, 16)
	out.Port.(*memport.Port).SetFaults(memport.Faults{Full: true})
	sum, err := Run(ctx, Config{Open: opener(pcapOf(linktype.Raw, record{data: ipv4("a")})), Output: out, Pace: pace.Config{Top: true}})
	if !sum.Interrupted || sum.Sent != 0 {
		t.Errorf("%+v, %v", sum, err)
	}
	if out.Pool.Free() != 128 {
		t.Errorf("%d of 128 frames free", out.Pool.Free())
	}
}

func TestBrokenPort(t *testing.T) {
	out, _ := toMemory(t, 16)
	out.Port.(*memport.Port).SetFaults(memport.Faults{Err: packet.ErrPortGone})
	_, err := Run(t.Context(), Config{Open: opener(pcapOf(linktype.Raw, record{data: ipv4("a")})), Output: out})
	if !errors.Is(err, packet.ErrPortGone) {
		t.Errorf("%v", err)
	}
}

// journal is an Observer.
type journal struct{ *verify.Journal }

func (j journal) Sent(data []byte, at int64) { j.Note(linktype.Raw, data, at) }

// What the wire does to packets is found out.
func TestVerified(t *testing.T) {
	var recs []record
	for i := range 90 {
		recs = append(recs, record{data: ipv4(strings.Repeat("x", i))})
	}
	tests := []struct {
		name   string
		faults memport.Faults
		want   verify.Report
	}{
		{"nothing", memport.Faults{}, verify.Report{Sent: 90, Received: 90}},
		{"loss", memport.Faults{Lose: 9}, verify.Report{Sent: 90, Received: 80, Lost: 10}},
		{"copies", memport.Faults{Repeat: 9}, verify.Report{Sent: 90, Received: 90, Duplicated: 10}},
		{"disorder", memport.Faults{Swap: 9}, verify.Report{Sent: 90, Received: 90, Reordered: 10}},
		{"damage", memport.Faults{Damage: 9}, verify.Report{Sent: 90, Received: 80, Corrupted: 10}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out, far := toMemory(t, 1024)
			out.Port.(*memport.Port).SetFaults(tt.faults)
			sent, received := verify.NewJournal(1000), verify.NewJournal(1000)
			if _, err := Run(t.Context(), Config{Open: opener(pcapOf(linktype.Raw, recs...)), Output: out, Observe: journal{sent}, Pace: pace.Config{Top: true}}); err != nil {
				t.Fatal(err)
			}
			buf := make([]byte, 2048)
			for {
				n, err := far.Read(buf)
				if err != nil {
					break
				}
				received.Note(linktype.Raw, buf[:n], 0)
			}
			got := verify.Compare(sent, received, false)
			if *got != tt.want {
				t.Errorf("%+v, want %+v", *got, tt.want)
			}
		})
	}
}

func TestConfigRefused(t *testing.T) {
	out, _ := toMemory(t, 16)
	open := opener(nil)
	for name, cfg := range map[string]Config{
		"nothing":       {},
		"no codec":      {Open: open, Output: Output{Port: out.Port, Pool: out.Pool, Shape: Wrapped}},
		"batch":         {Open: open, Output: out, Batch: 5000},
		"two paces":     {Open: open, Output: out, Pace: pace.Config{Top: true, PPS: 1}},
		"negative rate": {Open: open, Output: out, Pace: pace.Config{Mbps: -1}},
	} {
		if _, err := Run(t.Context(), cfg); !errors.Is(err, ErrConfig) && !errors.Is(err, pace.ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzReplay plays any file through both codecs and back.
func FuzzReplay(f *testing.F) {
	f.Add(pcapOf(linktype.Ethernet, record{data: framed(header.EtherTypeIPv4, ipv4("x"))}))
	f.Add(pcapOf(linktype.NFLOG, record{data: []byte{2, 0, 0, 0, 24, 0, 9, 0, 0x45}}))
	f.Fuzz(func(t *testing.T, file []byte) {
		for _, wrap := range []string{"udp", "vxlan"} {
			for cut := CutSkip; cut <= CutSend; cut++ {
				cfg := Config{Open: opener(file), Cut: cut, RepairLengths: true, Editor: &change.Rules{Repair: true, TTL: 9}, Limit: 100}
				out, _, _ := toFile(t, cfg, linktype.Ethernet, wrap)
				_, _, _ = unwrapFile(t, out, wrap)
			}
		}
	})
}

// The loop itself takes no memory per packet.
func TestFlatMemory(t *testing.T) {
	var recs []record
	for range 64 {
		recs = append(recs, record{data: ipv4("payload")})
	}
	file := pcapOf(linktype.Raw, recs...)
	allocs := func(loops int) float64 {
		return testing.AllocsPerRun(3, func() {
			_, _, _ = toFile(t, Config{Open: opener(file), Loops: loops, Preload: 1 << 20}, linktype.Raw, "vxlan")
		})
	}
	few, many := allocs(10), allocs(110)
	if per := (many - few) / 6400; per > 0.05 {
		t.Errorf("%.2f allocations per packet", per)
	}
}
