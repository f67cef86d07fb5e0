package main

import (
	bin "encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"flanx/encap/header"
)

// datagram is a UDP packet from 10.0.0.1 to 10.1.0.1.
func datagram(payload string) []byte {
	b := make([]byte, 28+len(payload))
	header.IPv4(b).Encode(header.IPv4Fields{
		TotalLength: uint16(len(b)), TTL: 64, Protocol: header.ProtocolUDP, Src: [4]byte{10, 0, 0, 1}, Dst: [4]byte{10, 1, 0, 1},
	})
	copy(b[20:], []byte{0x27, 0x10, 0x00, 0x35, 0, byte(8 + len(payload)), 0, 0})
	copy(b[28:], payload)
	return b
}

// captureFile writes n raw IP packets, one each millisecond, and returns the path.
func captureFile(t testing.TB, n int, cut int) string {
	t.Helper()
	o := bin.LittleEndian
	var b []byte
	for _, v := range []uint32{0xa1b2c3d4, 4<<16 | 2, 0, 0, 65535, 101} {
		b = o.AppendUint32(b, v)
	}
	for i := range n {
		p := datagram("packet " + strings.Repeat("x", i%100))
		for _, v := range []uint32{uint32(i / 1000), uint32(i % 1000 * 1000), uint32(len(p)), uint32(len(p))} {
			b = o.AppendUint32(b, v)
		}
		b = append(b, p...)
	}
	path := filepath.Join(t.TempDir(), "in.pcap")
	if err := os.WriteFile(path, b[:len(b)-cut], 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// summaryOf reads what --json printed.
func summaryOf(t *testing.T, stdout string) (s struct {
	outcome
	Sent uint64 `json:"packets_sent"`
},
) {
	t.Helper()
	if err := json.Unmarshal([]byte(stdout), &s); err != nil {
		t.Fatalf("%v: %s", err, stdout)
	}
	return s
}

func TestReplayUsage(t *testing.T) {
	in := captureFile(t, 1, 0)
	tests := []struct {
		name   string
		args   []string
		code   int
		stderr string
	}{
		{"no capture", nil, exitUsage, "one capture"},
		{"nowhere", []string{in}, exitUsage, "--to"},
		{"unknown way", []string{in, "--to", "disk:x"}, exitUsage, "--to"},
		{"unknown encapsulation", []string{in, "--to", "file:x", "--encap", "gre"}, exitUsage, `"gre"`},
		{"underlay as it is", []string{in, "--to", "underlay:eth9"}, exitUsage, "--encap"},
		{"wrapped into a device", []string{in, "--to", "dev:eth9", "--encap", "udp"}, exitUsage, "--encap"},
		{"unwrapped onto a wire", []string{in, "--to", "dev:eth9", "--decap", "udp"}, exitUsage, "--decap"},
		{"AF_XDP on a TUN", []string{in, "--to", "tun:x", "--io", "xdp"}, exitUsage, "--io"},
		{"two paces", []string{in, "--to", "file:x", "--pps", "1", "--top"}, exitUsage, "only one"},
		{"filter", []string{in, "--to", "file:x", "--include", "ether proto 1"}, exitUsage, "ether"},
		{"map", []string{in, "--to", "file:x", "--map-net", "10.0.0.0/8"}, exitUsage, "FROM=TO"},
		{"peer", []string{in, "--to", "file:/dev/null", "--encap", "udp", "--peer", "10.0.0.0/8"}, exitUsage, "CIDR=IP"},
		{"cut", []string{in, "--to", "file:x", "--cut", "away"}, exitUsage, "skip, pad or send"},
		{"address", []string{in, "--to", "file:x", "--dst-mac", "12"}, exitUsage, "--dst-mac"},
		{"over itself", []string{in, "--to", "file:" + in}, exitUsage, "written over"},
		{"standard input twice", []string{"-", "--to", "file:x", "--loop", "2"}, exitUsage, "--preload"},
		{"nothing to watch", []string{in, "--to", "file:x", "--verify", "dev:eth9"}, exitUsage, "--verify"},
		{"no such file", []string{"/nonexistent", "--to", "file:/dev/null"}, exitFailed, "/nonexistent"},
		{"no such interface", []string{in, "--to", "dev:none9"}, exitFailed, "none9"},
		{"no such namespace", []string{in, "--to", "dev:lo", "--netns", "none9"}, exitFailed, "none9"},
		{"no capture file", []string{"/etc/passwd", "--to", "file:/dev/null"}, exitFailed, "not a capture file"},
		{"nothing fits", []string{in, "--to", "file:/dev/null", "--include", "tcp"}, exitFailed, "nothing was sent: 1 filtered_out"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			code, _, stderr := flanx(t, append([]string{"replay"}, tt.args...)...)
			if code != tt.code || !strings.Contains(stderr, tt.stderr) {
				t.Errorf("exit status %d, want %d: %s", code, tt.code, stderr)
			}
		})
	}
}

// Into a tunnel, out of it, and compared: by files alone.
func TestReplayOffline(t *testing.T) {
	in := captureFile(t, 50, 0)
	for _, encapsulation := range []string{"udp", "vxlan"} {
		for _, ending := range []string{"pcap", "pcapng"} {
			t.Run(encapsulation+"/"+ending, func(t *testing.T) {
				dir := t.TempDir()
				wrapped, inner := filepath.Join(dir, "wrapped."+ending), filepath.Join(dir, "inner."+ending)
				steps := [][]string{
					{in, "--to", "file:" + wrapped, "--encap", encapsulation, "--peer", "10.1.0.0/16=192.0.2.9"},
					{wrapped, "--to", "file:" + inner, "--decap", encapsulation},
					{in, "--to", "file:/dev/null", "--verify", "file:" + inner},
					{in, "--to", "file:/dev/null", "--encap", encapsulation, "--verify", "file:" + wrapped},
				}
				for _, args := range steps {
					code, stdout, stderr := flanx(t, append([]string{"replay", "--json"}, args...)...)
					if code != exitOK {
						t.Fatalf("%v: exit status %d\n%s%s", args, code, stdout, stderr)
					}
					s := summaryOf(t, stdout)
					if s.Sent != 50 || s.Verify != nil && s.Verify.Received != 50 {
						t.Errorf("%v: %s", args, stdout)
					}
				}
			})
		}
	}
}

func TestReplayDiffers(t *testing.T) {
	code, stdout, _ := flanx(t, "replay", captureFile(t, 9, 0), "--to", "file:/dev/null", "--verify", "file:"+captureFile(t, 5, 0))
	if code != exitDiffers || !strings.Contains(stdout, "5 of 9 received; 4 lost") {
		t.Errorf("exit status %d: %s", code, stdout)
	}
}

func TestReplayDamaged(t *testing.T) {
	code, stdout, stderr := flanx(t, "replay", captureFile(t, 9, 3), "--to", "file:/dev/null")
	if code != exitDamaged || !strings.Contains(stdout, "8 of 8 packets sent") || !strings.Contains(stderr, "cut off after packet 8") {
		t.Errorf("exit status %d: %s%s", code, stdout, stderr)
	}
}

func TestReplayDryRun(t *testing.T) {
	code, stdout, _ := flanx(t, "replay", captureFile(t, 9, 0), "--dry-run", "--to", "dev:nowhere0", "--exclude", "greater 40")
	if code != exitOK || !strings.Contains(stdout, "would be sent") {
		t.Errorf("exit status %d: %s", code, stdout)
	}
}

// Peers come from a cluster's file too.
func TestReplayCluster(t *testing.T) {
	cluster := filepath.Join(t.TempDir(), "cluster.json")
	text := `{"network": {"Network": "10.0.0.0/8", "SubnetLen": 16, "Backend": {"Type": "vxlan"}},
		"nodes": [{"subnet": "10.1.0.0/16", "publicIP": "192.0.2.7", "vtepMAC": "02:00:00:00:00:07"}]}`
	if err := os.WriteFile(cluster, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "out.pcap")
	code, _, stderr := flanx(t, "replay", captureFile(t, 2, 0), "--to", "file:"+out, "--encap", "vxlan", "--cluster", cluster)
	if code != exitOK {
		t.Fatalf("exit status %d: %s", code, stderr)
	}
	b, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	frame := b[24+16:]
	if got := header.IPv4(frame[14:]).Dst(); got != [4]byte{192, 0, 2, 7} {
		t.Errorf("to %v", got)
	}
	if got := header.Ethernet(frame[14+20+8+8:]).Dst(); got != [6]byte{2, 0, 0, 0, 0, 7} {
		t.Errorf("inner frame to %x", got)
	}
}
