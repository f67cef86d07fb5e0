package systemtest

import (
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"flanx/control/hostnet"
	"flanx/perf/lab"
)

// flanneld is the real one.
type flanneld struct {
	*world
	host    *lab.Host
	process *lab.Process
	out     *output
	subnet  netip.Prefix
	mtu     int
}

// startFlanneld runs it in ours' place, with the same files.
func (w *world) startFlanneld(program string, h *lab.Host) *flanneld {
	w.Helper()
	env := filepath.Join(w.dir(h), "subnet.env")
	f := &flanneld{world: w, host: h, out: &output{}}
	old, _ := hostnet.ReadSubnetFile(env) // none at the first start
	began := time.Now()
	var err error
	f.process, err = h.Start(w.Context(), lab.Spec{
		Path: program, Stdout: f.out, Stderr: f.out,
		Args: []string{"-etcd-endpoints", w.endpoint, "-etcd-prefix", w.prefix, "-iface", "eth0", "-subnet-file", env},
	})
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		if w.Failed() {
			w.Logf("log of flanneld on %s:\n%s", h.Name(), f.out)
		}
	})
	eventually(w.T, patience, func() error {
		s, err := hostnet.ReadSubnetFile(env)
		if err == nil && old.MTU != 0 {
			info, statErr := os.Stat(env)
			if err = statErr; err == nil && info.ModTime().Before(began) {
				err = os.ErrNotExist // still the former daemon's
			}
		}
		f.subnet, f.mtu = s.Subnets.V4, s.MTU
		return err
	})
	return f
}

func (f *flanneld) addr() netip.Addr { return node(f.subnet) }

func (f *flanneld) stop() {
	f.Helper()
	if err := f.process.Stop(endLimit); err != nil {
		f.Errorf("stop flanneld: %v", err)
	}
}

// The real flanneld and ours in one cluster, and each in the other's place on a
// host that the other left. This one is skipped where there is no flanneld, under
// CI too: nothing of flannel's is part of this project.
func TestFlanneld(t *testing.T) {
	program := os.Getenv("FLANNELD")
	if program == "" {
		t.Skip("FLANNELD names no flanneld (with iptables in PATH) to run beside ours")
	}
	parallel(t)
	for _, tt := range []struct {
		name, config string
		offloads     bool
		io           string
	}{
		{"vxlan native", vxlan, false, "native"},
		{"vxlan native with offloads", vxlan, true, "native"},
		{"vxlan generic", vxlan, false, "generic"},
		{"vxlan udp socket", vxlan, false, "udp"},
		{"udp native", udp, false, "native"},
		{"udp native with offloads", udp, true, "native"},
		{"udp udp socket", udp, false, "udp"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, lab.Wire{Offloads: tt.offloads}, tt.config, "ours", "theirs")
			d, f := w.start(w.hosts[0], "-io", tt.io), w.startFlanneld(program, w.hosts[1])
			converse(t, d, f)

			// Ours in theirs' place: same subnet; the other node, now a flanx too, and
			// before it the lease's MAC, need not change.
			theirs, value := f.subnet, leaseOf(w, f.subnet)
			f.stop()
			second := w.start(w.hosts[1], "-io", tt.io)
			if now := leaseOf(w, theirs); second.subnet != theirs || now != value {
				t.Errorf("in flanneld's place: subnet %s, lease\n%s; it had %s,\n%s", second.subnet, now, theirs, value)
			}
			reach(t, d.host, d.addr(), second.addr())
			ping(t, second.host, second.addr(), d.addr(), 56)
			second.stop()

			// And back.
			back := w.startFlanneld(program, w.hosts[1])
			if back.subnet != theirs {
				t.Errorf("flanneld in our place has subnet %s, want %s", back.subnet, theirs)
			}
			converse(t, d, back)
			back.stop()
			d.stop()
		})
	}
}

func leaseOf(w *world, subnet netip.Prefix) string {
	w.Helper()
	value, _ := w.lease(subnet)
	return value
}

// converse holds that packets and streams pass both ways.
func converse(t *testing.T, d *daemon, f *flanneld) {
	t.Helper()
	if d.mtu != f.mtu {
		t.Errorf("MTU %d on ours, %d on theirs", d.mtu, f.mtu)
	}
	before := checksumErrors(t, d.host) + checksumErrors(t, f.host)
	reach(t, d.host, d.addr(), f.addr())
	for _, size := range []int{8, 56, d.mtu - 28, d.mtu - 27} {
		ping(t, d.host, d.addr(), f.addr(), size)
		ping(t, f.host, f.addr(), d.addr(), size)
	}
	transfer(t, d.host, f.host, d.addr(), f.addr(), 1<<20)
	transfer(t, f.host, d.host, f.addr(), d.addr(), 1<<20)
	if after := checksumErrors(t, d.host) + checksumErrors(t, f.host); after != before {
		t.Errorf("%d packets with wrong checksums arrived", after-before)
	}
}
