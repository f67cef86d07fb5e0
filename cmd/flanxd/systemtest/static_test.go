package systemtest

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"flanx/perf/lab"
)

// Two hosts with one file and no store; a third is added to the file while they
// run.
func TestStaticConfig(t *testing.T) {
	parallel(t)
	for _, backend := range []string{"vxlan", "udp"} {
		t.Run(backend, func(t *testing.T) {
			w := newWorld(t, lab.Wire{}, vxlan, "one", "two", "three")
			file := filepath.Join(w.lab.Dir(), "cluster.json")
			writeCluster(t, file, backend, w.hosts[:2])
			a, b := w.startStatic(w.hosts[0], file), w.startStatic(w.hosts[1], file)
			if want := netip.MustParsePrefix("10.244.1.0/24"); a.subnet != want {
				t.Errorf("subnet %s, want %s as in the file", a.subnet, want)
			}
			reach(t, a.host, a.addr(), b.addr())
			ping(t, b.host, b.addr(), a.addr(), b.mtu-28)
			transfer(t, a.host, b.host, a.addr(), b.addr(), 1<<20)

			c := w.launch(w.hosts[2], "-static-config", file)
			eventually(t, patience, func() error {
				return says(c, file+" has no usable node with our public address "+c.host.Addr().String())
			})
			writeCluster(t, file, backend, w.hosts)
			c.ready()
			for _, d := range []*daemon{a, b} {
				reach(t, d.host, d.addr(), c.addr()) // each looks at the file in its own time
			}
			for _, d := range []*daemon{a, b, c} {
				d.stop()
			}
			if len(w.leases()) != 0 {
				t.Errorf("leases in the store: %v", w.leases())
			}
		})
	}
}

// startStatic starts a daemon that lives by the file.
func (w *world) startStatic(h *lab.Host, file string) *daemon {
	w.Helper()
	return w.start(h, "-static-config", file)
}

// writeCluster gives host N the subnet 10.244.N.0/24.
func writeCluster(t *testing.T, file, backend string, hosts []*lab.Host) {
	t.Helper()
	var nodes []string
	for i, h := range hosts {
		vtep := ""
		if backend == "vxlan" {
			vtep = fmt.Sprintf(`, "vtepMAC": "02:00:00:00:00:%02x"`, i+1)
		}
		nodes = append(nodes, fmt.Sprintf(`{"subnet": "10.244.%d.0/24", "publicIP": "%s"%s}`, i+1, h.Addr(), vtep))
	}
	cluster := fmt.Sprintf(`{"network": {"Network": "%s", "Backend": {"Type": "%s"}}, "nodes": [%s]}`,
		network, backend, strings.Join(nodes, ", "))
	if err := os.WriteFile(file, []byte(cluster), 0o644); err != nil {
		t.Fatal(err)
	}
}
