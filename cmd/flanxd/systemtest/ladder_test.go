package systemtest

import (
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"

	"flanx/perf/lab"
)

// Each rung of the ladder can be demanded; auto takes the best, and says in one
// line what it got and why nothing better.
func TestLadder(t *testing.T) {
	tests := []struct {
		io   string
		wire lab.Wire
		way  string   // granted; empty: refused
		why  []string // in the log line, or in the message
		code int      // of the refusal
	}{
		{"native", lab.Wire{}, "native copy", nil, 0},
		{"generic", lab.Wire{}, "generic", nil, 0},
		{"udp", lab.Wire{}, "UDP socket", nil, 0},
		{"auto", lab.Wire{}, "native copy", []string{"zero-copy", "veth"}, 0},
		{"zerocopy", lab.Wire{}, "", []string{"-io zerocopy", "eth0", "veth"}, exitPrivilege},
		{"auto", lab.Wire{MTU: 9000}, "UDP socket", []string{"AF_XDP", "MTU 9000"}, 0},
		{"native", lab.Wire{MTU: 9000}, "", []string{"-io native", "MTU 9000"}, exitPrivilege},
		{"generic", lab.Wire{MTU: 9000}, "", []string{"-io generic", "MTU 9000"}, exitPrivilege},
		{"sideways", lab.Wire{}, "", []string{"-io", "sideways", "native"}, exitUsage},
	}
	parallel(t)
	for _, tt := range tests {
		name := tt.io
		if tt.wire.MTU != 0 {
			name += " with jumbo frames"
		}
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, tt.wire, vxlan, "ours", "other")
			if tt.way == "" {
				w.refused(w.hosts[0], tt.code, tt.why, "-io", tt.io)
				return
			}
			a := w.start(w.hosts[0], "-io", tt.io)
			b := w.start(w.hosts[1], "-io", tt.io)
			way, why := a.granted()
			if !strings.HasPrefix(way, tt.way) {
				t.Errorf("granted %q, want %q", way, tt.way)
			}
			if strings.Count(a.log(), "way on the wire") != 1 {
				t.Error("said it more than once")
			}
			for _, word := range tt.why {
				if !strings.Contains(why, word) {
					t.Errorf("why is %q, want %q named", why, word)
				}
			}
			reach(t, a.host, a.addr(), b.addr())
			ping(t, a.host, a.addr(), b.addr(), a.mtu-28)
			ping(t, b.host, b.addr(), a.addr(), a.mtu-28)
			a.stop()
			b.stop()
		})
	}
}

// The daemon's exit codes, as docs/flanxd.md lists them.
const (
	exitFailure   = 1
	exitUsage     = 2
	exitNetwork   = 3
	exitPrivilege = 4
	exitInUse     = 5
)

// refused holds that a daemon does not start: the exit code, a message with those
// words, and the host as it was.
func (w *world) refused(h *lab.Host, want int, words []string, args ...string) {
	w.Helper()
	before := inspect(w.T, h)
	code, said := w.launch(h, args...).end(endLimit)
	if code != want {
		w.Errorf("flanxd %s: exit code %d, want %d", args, code, want)
	}
	lines := strings.Split(strings.TrimSpace(said), "\n")
	for _, word := range words {
		if !strings.Contains(said, word) {
			w.Errorf("flanxd %s: %q is not named in the message: %s", args, word, lines[len(lines)-1])
		}
	}
	if after := inspect(w.T, h); after != before {
		w.Errorf("flanxd %s left behind:\n%s\nbefore:\n%s", args, after, before)
	}
}

// Another's XDP program stays where it is.
func TestForeignProgram(t *testing.T) {
	parallel(t)
	for _, mode := range []link.XDPAttachFlags{link.XDPDriverMode, link.XDPGenericMode} {
		w := newWorld(t, lab.Wire{}, vxlan, "ours", "other")
		foreign := attachForeign(t, w.hosts[0], mode)
		for _, io := range []string{"native", "generic"} {
			w.refused(w.hosts[0], exitInUse, []string{"another XDP program", "eth0"}, "-io", io)
		}
		a, b := w.start(w.hosts[0]), w.start(w.hosts[1])
		if way, why := a.granted(); way != "UDP socket" || !strings.Contains(why, "another XDP program") {
			t.Errorf("auto beside a foreign program: granted %q (%s)", way, why)
		}
		reach(t, a.host, a.addr(), b.addr())
		ping(t, b.host, b.addr(), a.addr(), 1422)
		a.stop()
		b.stop()
		if info, err := foreign.Info(); err != nil || info.XDP().Ifindex == 0 {
			t.Errorf("the foreign program was evicted: %+v, %v", info, err)
		}
	}
}

// attachForeign puts a program that lets everything pass on a host's eth0.
func attachForeign(t *testing.T, h *lab.Host, mode link.XDPAttachFlags) link.Link {
	t.Helper()
	const xdpPass = 2
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "foreign", Type: ebpf.XDP, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, xdpPass), asm.Return()},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = prog.Close() })
	index := device(t, h, "eth0").Index
	var l link.Link
	err = h.Do(func() (err error) {
		l, err = link.AttachXDP(link.XDPOptions{Program: prog, Interface: index, Flags: mode})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}
