package bench

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"flanx/perf/bench/naive"
	"flanx/perf/gen"
	"flanx/perf/lab"
)

// Path is one way of carrying packets between two hosts.
type Path interface {
	// Name is unique within a run.
	Name() string
	// Copies says where packets are copied between the inner stack and the wire,
	// by the path's construction: it is not measured.
	Copies() string
	// Start makes the path between the two hosts, which are its own. What it
	// starts in them ends with the lab.
	Start(ctx context.Context, w *Wire) (Ends, error)
}

// Wire is what a path gets: two hosts that nobody else uses, joined.
type Wire struct {
	A, B *lab.Host
	Dir  string // for files
}

// Ends is a path in service: two addresses that reach each other over it.
type Ends struct {
	A, B    netip.Addr
	Granted string // how it got on the wire, in its own words
	PIDs    []int  // of daemons, whose CPU time is counted
}

// Where the overlay's hosts live, as flannel numbers them.
var (
	overlayA = netip.MustParseAddr("10.244.1.0")
	overlayB = netip.MustParseAddr("10.244.2.0")
)

// Bare is the wire without any tunnel.
type Bare struct{}

// Name is part of Path.
func (Bare) Name() string { return "bare" }

// Copies is part of Path.
func (Bare) Copies() string { return "none: one kernel stack to the other" }

// Start is part of Path.
func (Bare) Start(_ context.Context, w *Wire) (Ends, error) {
	return Ends{A: w.A.Addr(), B: w.B.Addr(), Granted: "veth"}, nil
}

// KernelVXLAN is the kernel's own device, set up as flannel's vxlan backend does.
type KernelVXLAN struct{}

// Name is part of Path.
func (KernelVXLAN) Name() string { return "kernel-vxlan" }

// Copies is part of Path.
func (KernelVXLAN) Copies() string { return "none: headers are put in front in the kernel" }

// Start is part of Path.
func (KernelVXLAN) Start(ctx context.Context, w *Wire) (Ends, error) {
	for _, s := range []struct {
		host            *lab.Host
		own, other      netip.Addr
		ownMAC, peerMAC string
		peer            netip.Addr
	}{
		{w.A, overlayA, overlayB, "02:00:00:00:01:01", "02:00:00:00:01:02", w.B.Addr()},
		{w.B, overlayB, overlayA, "02:00:00:00:01:02", "02:00:00:00:01:01", w.A.Addr()},
	} {
		script := fmt.Sprintf(`ip link add flannel.1 address %s type vxlan id 1 dstport 8472 local %s dev eth0 nolearning
			ip addr add %s/32 dev flannel.1
			ip link set flannel.1 up
			ip neigh add %s lladdr %s dev flannel.1 nud permanent
			bridge fdb add %[5]s dev flannel.1 dst %[6]s self permanent
			ip route add %[4]s/24 via %[4]s dev flannel.1 onlink`, s.ownMAC, s.host.Addr(), s.own, s.other, s.peerMAC, s.peer)
		if err := runLines(ctx, s.host, script); err != nil {
			return Ends{}, err
		}
	}
	return Ends{A: overlayA, B: overlayB, Granted: "kernel"}, nil
}

// runLines runs a command per line, without a shell.
func runLines(ctx context.Context, h *lab.Host, script string) error {
	for line := range strings.Lines(script) {
		words := strings.Fields(line)
		if _, err := h.Output(ctx, words[0], words[1:]...); err != nil {
			return err
		}
	}
	return nil
}

// Naive is package naive's tunnel, run as Command local peer.
type Naive struct{ Command []string }

// Name is part of Path.
func (Naive) Name() string { return "naive-go" }

// Copies is part of Path.
func (Naive) Copies() string {
	return "2 each way: TUN read or write, and UDP socket write or read"
}

// Start is part of Path.
func (n Naive) Start(ctx context.Context, w *Wire) (Ends, error) {
	ends := Ends{A: overlayA, B: overlayB, Granted: "TUN, UDP socket"}
	for _, s := range []struct {
		host, peer *lab.Host
		own, other netip.Addr
	}{{w.A, w.B, overlayA, overlayB}, {w.B, w.A, overlayB, overlayA}} {
		args := append(n.Command[1:len(n.Command):len(n.Command)], s.host.Addr().String()+":8285", s.peer.Addr().String()+":8285")
		p, err := s.host.Start(context.WithoutCancel(ctx), lab.Spec{Path: n.Command[0], Args: args})
		if err != nil {
			return ends, err
		}
		ends.PIDs = append(ends.PIDs, p.PID())
		err = await(ctx, 5*time.Second, func() error { return runLines(ctx, s.host, "ip link show "+naive.Device) })
		if err != nil {
			return ends, err
		}
		script := fmt.Sprintf("ip addr add %s/32 dev %s\nip link set %[2]s mtu 1472 up\nip route add %[3]s/24 dev %[2]s", s.own, naive.Device, s.other)
		if err := runLines(ctx, s.host, script); err != nil {
			return ends, err
		}
	}
	return ends, nil
}

// Flanxd is our daemon, one on each host, with the members in a file.
type Flanxd struct {
	Program   string
	Encap, IO string
	Args      []string // more flags
}

// Name is part of Path.
func (f Flanxd) Name() string { return "flanx-" + f.IO + "-" + f.Encap }

// Copies is part of Path.
func (f Flanxd) Copies() string {
	if f.IO == "udp" {
		return "2 each way: TUN read or write, and UDP socket write or read, for a run of packets at a time"
	}
	return "2 each way on copy-mode AF_XDP, 1 on zero-copy: TUN read or write in the frame, and the kernel between frame and skb"
}

// Start is part of Path.
func (f Flanxd) Start(ctx context.Context, w *Wire) (Ends, error) {
	ends := Ends{A: overlayA, B: overlayB}
	file := filepath.Join(w.Dir, "cluster.json")
	if err := os.WriteFile(file, f.cluster(w), 0o644); err != nil {
		return ends, fmt.Errorf("write cluster file: %w", err)
	}
	for _, h := range []*lab.Host{w.A, w.B} {
		log, err := os.Create(filepath.Join(w.Dir, h.Name()+".log"))
		if err != nil {
			return ends, fmt.Errorf("make log of %s: %w", h.Name(), err)
		}
		args := append([]string{
			"-io", f.IO, "-static-config", file, "-state-file", "none", "-iface", "eth0",
			"-subnet-file", filepath.Join(w.Dir, h.Name()+".env"),
		}, f.Args...)
		p, err := h.Start(context.WithoutCancel(ctx), lab.Spec{Path: f.Program, Args: args, Stdout: log, Stderr: log})
		_ = log.Close() // the daemon has its own descriptor
		if err != nil {
			return ends, err
		}
		ends.PIDs = append(ends.PIDs, p.PID())
		err = await(ctx, 10*time.Second, func() error {
			select {
			case <-p.Done():
				return fmt.Errorf("%w: %s", errEnded, lastLine(log.Name()))
			default:
			}
			_, err := os.Stat(filepath.Join(w.Dir, h.Name()+".env"))
			return err
		})
		if err != nil {
			return ends, fmt.Errorf("start flanxd on %s: %w", h.Name(), err)
		}
	}
	ends.Granted = granted(filepath.Join(w.Dir, w.A.Name()+".log"))
	return ends, nil
}

func (f Flanxd) cluster(w *Wire) []byte {
	node := func(subnet netip.Addr, h *lab.Host, n int) string {
		vtep := ""
		if f.Encap == "vxlan" {
			vtep = fmt.Sprintf(`, "vtepMAC": "02:00:00:00:00:%02x"`, n)
		}
		return fmt.Sprintf(`{"subnet": "%s/24", "publicIP": "%s"%s}`, subnet, h.Addr(), vtep)
	}
	return fmt.Appendf(nil, `{"network": {"Network": "10.244.0.0/16", "Backend": {"Type": "%s"}}, "nodes": [%s, %s]}`,
		f.Encap, node(overlayA, w.A, 1), node(overlayB, w.B, 2))
}

// reach waits until the path carries packets.
func reach(ctx context.Context, w *Wire, e Ends) error {
	return await(ctx, 10*time.Second, func() error {
		res, err := gen.Ping(ctx, w.A.Do, gen.PingConfig{From: e.A, To: e.B, Count: 1, Timeout: 200 * time.Millisecond})
		if err == nil && !res.OK() {
			err = fmt.Errorf("%w from %s at %s", errSilent, e.B, e.A)
		}
		return err
	})
}
