package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// output of a program that other people read captures with; its complaints are
// failures.
func readBy(t *testing.T, program string, args ...string) string {
	t.Helper()
	cmd := exec.Command(program, args...)
	var complaint strings.Builder
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %v: %v: %s", program, args, err, &complaint)
	}
	if said := complaint.String(); strings.Contains(said, "cut short") || strings.Contains(said, "truncated") || strings.Contains(said, "damaged") {
		t.Errorf("%s: %s", program, said)
	}
	return string(out)
}

var number = regexp.MustCompile(`Number of packets:\s+(\d+)`)

// What is written opens clean in tshark, capinfos and tcpdump, with every packet
// seen inside the tunnel and every checksum right.
func TestReplayReadByOthers(t *testing.T) {
	for _, program := range []string{"tshark", "capinfos", "tcpdump"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not installed (apt install tshark tcpdump)", program)
		}
	}
	captures := []string{captureFile(t, 50, 0)}
	if dir := filepath.Join("..", "..", "..", "shared", "captures"); os.Getenv("FLANX_CAPTURES") != "" {
		captures = append(captures, glob(t, os.Getenv("FLANX_CAPTURES"))...)
	} else {
		captures = append(captures, glob(t, dir)...)
	}
	dir := t.TempDir()
	for i, in := range captures {
		// Each reader takes a second to start: the two forms take turns.
		for _, ending := range []string{"pcapng", "pcap"}[i%2 : i%2+1] {
			t.Run(filepath.Base(in)+"/"+ending, func(t *testing.T) {
				out := filepath.Join(dir, "out."+ending)
				code, stdout, stderr := flanx(t, "replay", "--json", in, "--to", "file:"+out, "--encap", "vxlan", "--fix", "--cut", "pad")
				if code != exitOK {
					t.Fatalf("exit status %d: %s", code, stderr)
				}
				want := int(summaryOf(t, stdout).Sent)
				if m := number.FindStringSubmatch(readBy(t, "capinfos", "-M", "-c", out)); m == nil || m[1] != strconv.Itoa(want) {
					t.Errorf("capinfos counts %v, want %d", m, want)
				}
				seen := readBy(t, "tshark", "-r", out, "-d", "udp.port==8472,vxlan", "-o", "udp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE",
					"-Y", "vxlan.vni == 1 && udp.checksum.status == 1", "-T", "fields", "-e", "frame.number")
				if n := strings.Count(seen, "\n"); n != want {
					t.Errorf("tshark sees %d sound packets of the tunnel, want %d", n, want)
				}
				readBy(t, "tcpdump", "-n", "-r", out)
			})
		}
	}
}

func glob(t *testing.T, dir string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "*.pcap*"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}
