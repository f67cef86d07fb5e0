package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"flanx/dataplane/host"
	"flanx/perf/lab"
	"flanx/perf/lab/labtest"
)

// replayLive runs "flanx replay" from the first of two hosts.
func replayLive(t *testing.T, from *lab.Host, args ...string) (code int, s struct {
	outcome
	Sent uint64 `json:"packets_sent"`
}, said string,
) {
	t.Helper()
	args = append([]string{"replay", "--json", "--netns", from.Namespace()}, args...)
	code, stdout, stderr := flanx(t, args...)
	if stdout == "" {
		return code, s, stderr
	}
	return code, summaryOf(t, stdout), stdout + stderr
}

// Every way onto a wire delivers everything, once and in order, seen from the
// other end.
func TestReplayOverWire(t *testing.T) {
	_, hosts := labtest.Hosts(t, lab.Wire{}, "a", "b")
	a, b := hosts[0], hosts[1]
	in := captureFile(t, 1500, 0)
	far := "netns:" + b.Namespace() + "/eth0"
	peer := "10.1.0.0/16=" + b.Addr().String()
	tests := []struct {
		name string
		args []string
	}{
		{"frames by packet socket", []string{"--to", "dev:eth0", "--io", "packet"}},
		{"frames by AF_XDP", []string{"--to", "dev:eth0", "--io", "xdp"}},
		{"udp by AF_XDP", []string{"--to", "underlay:eth0", "--io", "xdp", "--encap", "udp", "--peer", peer}},
		{"udp by UDP socket", []string{"--to", "underlay:eth0", "--io", "udp", "--encap", "udp", "--peer", peer}},
		{"vxlan by AF_XDP", []string{"--to", "underlay:eth0", "--io", "xdp", "--encap", "vxlan", "--peer", peer}},
		{"vxlan by UDP socket", []string{"--to", "underlay:eth0", "--io", "udp", "--encap", "vxlan", "--peer", peer}},
		{"vxlan by the best way", []string{"--to", "underlay:eth0", "--encap", "vxlan", "--peer", peer}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			args := append([]string{in, "--pps", "20000", "--verify", far}, tt.args...)
			code, s, said := replayLive(t, a, args...)
			if code != exitOK || s.Sent != 1500 || s.Verify == nil || s.Verify.Received != 1500 {
				t.Fatalf("exit status %d: %s", code, said)
			}
			t.Logf("rate off by %.3f %%, latency p99 %.0f µs", s.RateError, s.Verify.Latency.P99)
		})
	}
}

// Real captures go over a wire, and the other end sees as many as tshark counted.
func TestReplayCapturesOverWire(t *testing.T) {
	dir := os.Getenv("FLANX_CAPTURES")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared", "captures")
	}
	manifest, err := os.ReadFile(filepath.Join(dir, "MANIFEST.tsv"))
	if err != nil {
		t.Skipf("no captures here (set FLANX_CAPTURES to their folder): %v", err)
	}
	_, hosts := labtest.Hosts(t, lab.Wire{MTU: 65535}, "a", "b")
	far := "netns:" + hosts[1].Namespace() + "/eth0"
	for _, line := range strings.Split(strings.TrimSpace(string(manifest)), "\n")[1:] {
		c := strings.Split(line, "\t")
		t.Run(c[0], func(t *testing.T) {
			code, s, said := replayLive(t, hosts[0], filepath.Join(dir, c[0]), "--to", "dev:eth0", "--io", "packet",
				"--cut", "send", "--pps", "20000", "--verify", far)
			if code != exitOK || s.Verify == nil || s.Verify.Received != s.Sent {
				t.Fatalf("exit status %d: %s", code, said)
			}
			want, _ := strconv.ParseUint(c[8], 10, 64)
			switch c[0] {
			case "hadriel_le_test202.pcapng":
				want -= 3 // blocks that are no packets, which tshark numbers
			case "pcpp_sll.pcap":
				want -= 7 // ARP, of which cooked capture keeps no frame
			}
			if s.Sent != want {
				t.Errorf("%d sent, want %d: %s", s.Sent, want, said)
			}
		})
	}
}

// What is sent to a TUN is there to be read, as what pods send is.
func TestReplayToTUN(t *testing.T) {
	_, hosts := labtest.Hosts(t, lab.Wire{}, "a", "b")
	var fd int
	err := hosts[0].Do(func() error {
		dev, err := host.OpenTUN(host.TUNConfig{Name: "flannel0"})
		if err != nil {
			return err
		}
		fd = dev.Take(0)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if _, err := hosts[0].Output(t.Context(), "ip", "link", "set", "flannel0", "up"); err != nil {
		t.Fatal(err)
	}
	code, s, said := replayLive(t, hosts[0], captureFile(t, 20, 0), "--to", "tun:flannel0", "--pps", "1000")
	if code != exitOK || s.Sent != 20 {
		t.Fatalf("exit status %d: %s", code, said)
	}
	buf, found := make([]byte, 2048), 0
	for {
		n, err := unix.Read(fd, buf)
		if err != nil {
			break
		}
		if bytes.Contains(buf[:n], []byte("packet ")) && buf[0] == 0x45 {
			found++
		}
	}
	if found != 20 {
		t.Errorf("%d of 20 packets came out", found)
	}
}

// Ctrl-C ends it at once, with the summary; also while it waits for a far packet.
func TestReplayInterrupted(t *testing.T) {
	_, hosts := labtest.Hosts(t, lab.Wire{}, "a", "b")
	for _, pace := range []string{"--top", "--pps=0.5"} {
		t.Run(pace, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			var stdout, stderr bytes.Buffer
			began := time.Now()
			code := run(ctx, []string{
				"replay", captureFile(t, 100, 0), "--netns", hosts[0].Namespace(), "--to", "dev:eth0", "--loop", "0", pace,
			}, &stdout, &stderr)
			if took := time.Since(began); took > 2*time.Second {
				t.Errorf("took %s", took)
			}
			if code != exitOK || !strings.Contains(stdout.String(), "interrupted") {
				t.Errorf("exit status %d: %s%s", code, &stdout, &stderr)
			}
		})
	}
}

// A link that is down is said, soon, and nothing hangs.
func TestReplayLinkDown(t *testing.T) {
	_, hosts := labtest.Hosts(t, lab.Wire{}, "a", "b")
	if _, err := hosts[0].Output(t.Context(), "ip", "link", "set", "eth0", "down"); err != nil {
		t.Fatal(err)
	}
	for _, way := range []string{"packet", "xdp"} {
		began := time.Now()
		code, _, said := replayLive(t, hosts[0], captureFile(t, 100, 0), "--to", "dev:eth0", "--io", way, "--top")
		if code != exitFailed || time.Since(began) > 5*time.Second {
			t.Errorf("%s: exit status %d after %s: %s", way, code, time.Since(began), said)
		}
	}
}

// A peer that is not there is said before anything is sent.
func TestReplayUnreachablePeer(t *testing.T) {
	_, hosts := labtest.Hosts(t, lab.Wire{}, "a", "b")
	code, _, said := replayLive(t, hosts[0], captureFile(t, 1, 0), "--to", "underlay:eth0", "--io", "xdp",
		"--encap", "udp", "--peer", "10.1.0.0/16=10.99.0.77")
	if code != exitFailed || !strings.Contains(said, "10.99.0.77") {
		t.Errorf("exit status %d: %s", code, said)
	}
}
