package replay

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"flanx/perf/replay/change"
	"flanx/perf/replay/linktype"
	"flanx/perf/replay/verify"
)

var update = flag.Bool("update", false, "write the golden summaries anew")

// capturesDir is where real captures lie, if this machine has them: beside the
// project, or where FLANX_CAPTURES says.
func capturesDir(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("FLANX_CAPTURES")
	if dir == "" {
		// perf/replay, perf, the project, and what lies beside it.
		dir = filepath.Join("..", "..", "..", "shared", "captures")
	}
	if _, err := os.Stat(filepath.Join(dir, "MANIFEST.tsv")); err != nil {
		t.Skipf("no captures here (set FLANX_CAPTURES to their folder): %v", err)
	}
	return dir
}

// manifest is one line of it: what tshark counted.
type manifest struct {
	name             string
	packets, v4, v6  int
	notPackets       int // blocks that tshark numbers as if they were packets
	lengthZero, cuts int
}

func number(t *testing.T, line, pattern string) int {
	t.Helper()
	m := regexp.MustCompile(pattern).FindStringSubmatch(line)
	if m == nil {
		return 0
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func readManifest(t *testing.T, dir string) []manifest {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, "MANIFEST.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var all []manifest
	lines := bufio.NewScanner(f)
	lines.Scan() // the column names
	for lines.Scan() {
		c := strings.Split(lines.Text(), "\t")
		packets, err := strconv.Atoi(c[8])
		if err != nil {
			t.Fatal(err)
		}
		m := manifest{name: c[0], packets: packets, v4: number(t, c[9], `(\d+) outermost-IPv4`), v6: number(t, c[9], `(\d+) IPv6`)}
		m.lengthZero = number(t, c[9], `(\d+) IPv4 total-length=0`)
		m.cuts = number(t, c[9], `(\d+) trunc`)
		if strings.HasSuffix(m.name, "ng") {
			m.notPackets = number(t, c[9], `(\d+) if/encap;`)
		}
		all = append(all, m)
	}
	return all
}

func load(t *testing.T, dir, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Every real capture goes into a tunnel and out again, and everything in it
// arrives as it was; how many, tshark has counted.
func TestCaptures(t *testing.T) {
	dir := capturesDir(t)
	for _, m := range readManifest(t, dir) {
		for _, wrap := range []string{"vxlan", "udp"} {
			t.Run(m.name+"/"+wrap, func(t *testing.T) {
				cfg := Config{Open: opener(load(t, dir, m.name)), Cut: CutSend}
				before := verify.NewJournal(1000)
				cfg.Observe = journal{before}
				out, sum, err := toFile(t, cfg, linktype.Ethernet, wrap)
				want := m.v4 + m.v6 - m.lengthZero
				if wrap == "udp" {
					want -= m.v6
				}
				if err != nil && want > 0 {
					t.Fatal(err)
				}
				if int(sum.Sent) != want || int(sum.Read) != m.packets-m.notPackets {
					t.Errorf("sent %d of %d, want %d of %d: %v", sum.Sent, sum.Read, want, m.packets-m.notPackets, sum.Skipped)
				}
				golden(t, m.name+"."+wrap+".json", sum)
				if want == 0 {
					return
				}
				after := verify.NewJournal(1000)
				inner, _, err := unwrapFile(t, out, wrap)
				if err != nil {
					t.Fatal(err)
				}
				data, _ := contents(t, inner)
				for _, d := range data {
					after.Note(wrapping(wrap).LinkType(), d, 0)
				}
				if r := verify.Compare(before, after, false); !r.OK() || int(r.Received) != want {
					t.Errorf("%s", r)
				}
			})
		}
	}
}

// Captured before hardware segmented it: one packet, once its length is written.
func TestSegmentationCapture(t *testing.T) {
	cfg := Config{Open: opener(load(t, capturesDir(t), "tcpdump_ipv4_tso_len0.pcap")), RepairLengths: true, Editor: &change.Rules{Repair: true}}
	out, sum, err := toFile(t, cfg, linktype.Ethernet, "vxlan")
	if err != nil || sum.Sent != 1 {
		t.Fatalf("%+v, %v", sum, err)
	}
	if _, sum, err = unwrapFile(t, out, "vxlan"); err != nil || sum.Sent != 1 {
		t.Errorf("%+v, %v", sum, err)
	}
}

// golden holds a summary against the one in testdata. What depends on the clock
// is left out.
func golden(t *testing.T, name string, sum *Summary) {
	t.Helper()
	s := *sum
	s.Seconds, s.PPS, s.Mbps, s.RateError, s.GapError = 0, 0, 0, 0, nil
	got, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	got = fmt.Appendln(got)
	path := filepath.Join("..", "..", "testdata", "replay", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("summary is\n%s\nwant\n%s", got, want)
	}
}
