package bench

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the golden files")

// known is a result in which everything that a report can say occurs.
func known() Result {
	r := Result{
		Environment: Environment{Kernel: "6.18", CPU: "a CPU", CPUs: 2, Go: "go1", Wire: "a wire", MTU: 1500, Queues: 1, Clock: "a clock", Note: "note"},
		Began:       time.Date(2026, 12, 1, 3, 0, 0, 0, time.UTC), Rounds: 7,
		Paths: []PathRow{{Name: "fast", Granted: "native copy"}, {Name: "slow", Granted: "UDP"}, {Name: "gone", Failure: "cannot start"}},
	}
	for _, w := range []string{"pps-64", "rtt"} {
		for i, p := range r.Paths {
			c := Cell{Path: p.Name, Workload: w, Unit: "kpps", CPUPer: "packet", LowerIsBetter: w == "rtt"}
			for k := range 7 {
				if p.Failure != "" {
					break
				}
				s := Sample{Value: float64(100 + 50*i + k), CPUSystem: 1000, CPUDaemons: 400}
				if w == "rtt" {
					s.Latency = map[string]float64{"p50": s.Value, "p99": 2 * s.Value}
				} else {
					s.Trials = []Trial{{Sent: 100, Received: 80, Delivered: 2e5}}
					s.SenderLimited = k == 0
				}
				c.Samples = append(c.Samples, s)
			}
			r.Cells = append(r.Cells, c)
		}
	}
	r.finish(time.Minute)
	return r
}

func TestGoldenReports(t *testing.T) {
	r := known()
	for name, write := range map[string]func(*bytes.Buffer) error{
		"results.md":  func(b *bytes.Buffer) error { return r.WriteMarkdown(b) },
		"results.csv": func(b *bytes.Buffer) error { return r.WriteCSV(b) },
		"report.html": func(b *bytes.Buffer) error { return r.WriteHTML(b) },
		"table.txt":   func(b *bytes.Buffer) error { return r.WriteTable(b) },
	} {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(b.Bytes(), want) {
			t.Errorf("%s differs (-update writes it):\n%s", name, b.Bytes())
		}
	}
}

func TestJSONRoundTrip(t *testing.T) {
	var b, again bytes.Buffer
	if err := known().WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	back, err := ReadJSON(&b)
	if err != nil {
		t.Fatal(err)
	}
	if err := back.WriteJSON(&again); err != nil || again.String() != text {
		t.Errorf("read back differently: %v", err)
	}
}

func TestCompare(t *testing.T) {
	before, after := known(), known()
	for i := range after.Cells[0].Samples {
		after.Cells[0].Samples[i].Value *= 0.8 // pps-64 of fast
		after.Cells[4].Samples[i].Value *= 0.8 // rtt of slow: lower is better
		after.Cells[1].Samples[i].Value *= 1.01
	}
	after.finish(time.Minute)
	changes, compared := Compare(before, after, 0.05)
	if compared != 4 || len(changes) != 2 || !changes[0].Worse || changes[1].Worse {
		t.Fatalf("compared %d, changes %v", compared, changes)
	}
	if s := changes[0].String(); !strings.HasPrefix(s, "WORSE") || !strings.Contains(s, "-20 %") {
		t.Errorf("change reads %q", s)
	}
	if changes, _ := Compare(before, before, 0); len(changes) != 0 {
		t.Errorf("a run differs from itself: %v", changes)
	}
}

func TestParseCPU(t *testing.T) {
	if got := parseSystem("cpu  10 20 30 400 50 6 7 8 0 0\ncpu0 1\n"); got != 73*tick {
		t.Errorf("system %s", got)
	}
	if got := parseProcess("12 (a) b) S 1 2 3 4 5 6 7 8 9 10 100 50 0 0"); got != 150*tick {
		t.Errorf("process %s", got)
	}
	for _, s := range []string{"", "cpu", "12 (x) S"} {
		if parseSystem(s) != 0 || parseProcess(s) != 0 {
			t.Errorf("%q counts", s)
		}
	}
}
