package demo

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"flanx/perf/lab"
)

// stopWait is how long a daemon may take to end after SIGTERM. It promises 2 s;
// the rest is for a machine that has other things to do.
const stopWait = 5 * time.Second

// daemon is a flanxd process on a node, in one combination.
type daemon struct {
	node    *node
	process *lab.Process
	logFile string
	envFile string
	subnet  subnet // once leased
}

// startDaemon starts flanxd as an operator would. dir is the combination's, where
// each host has a folder of its own.
func (s *stage) startDaemon(ctx context.Context, n *node, dir, prefix, io string) (*daemon, error) {
	dir = filepath.Join(dir, n.host.Name())
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make folder of %s: %w", n.host.Name(), err)
	}
	d := &daemon{node: n, logFile: filepath.Join(dir, "flanxd.log"), envFile: filepath.Join(dir, "subnet.env")}
	log, err := os.Create(d.logFile)
	if err != nil {
		return nil, fmt.Errorf("make log of %s: %w", n.host.Name(), err)
	}
	defer log.Close()
	d.process, err = n.host.Start(context.WithoutCancel(ctx), lab.Spec{
		Path: s.flanxd,
		Args: []string{
			"-io", io, "-etcd-endpoints", s.endpoint, "-etcd-prefix", prefix,
			"-subnet-file", d.envFile, "-iface", "eth0",
		},
		Stdout: log, Stderr: log,
	})
	return d, err
}

func (d *daemon) name() string { return d.node.host.Name() }

func (d *daemon) log() []string { return readLines(d.logFile) }

// lease returns the complaint that the daemon has no subnet yet, or no route into
// the overlay.
func (d *daemon) lease() error {
	b, err := os.ReadFile(d.envFile)
	if err != nil {
		return fmt.Errorf("no lease on %s: %w", d.name(), err)
	}
	if d.subnet, err = parseSubnet(b); err != nil {
		return fmt.Errorf("lease of %s: %w", d.name(), err)
	}
	dev, err := d.overlay()
	if err == nil && dev == "eth0" {
		err = fmt.Errorf("no route into %s on %s: it would go out by %s", d.subnet.network, d.name(), dev)
	}
	return err
}

// overlay returns the device by which the node sends into the overlay: the route
// to the network's last address, which no node of ours holds.
func (d *daemon) overlay() (string, error) {
	return d.node.host.RouteDevice(last(d.subnet.network))
}

// stop ends the daemon with SIGTERM, and complains if it did not end well, or
// left its device behind.
func (d *daemon) stop() error {
	if err := d.process.Stop(stopWait); err != nil {
		return fmt.Errorf("stop flanxd on %s: %w", d.name(), err)
	}
	if !d.subnet.network.IsValid() {
		return nil // it never came so far
	}
	if dev, err := d.overlay(); err == nil {
		return fmt.Errorf("flanxd on %s left its route by %s behind", d.name(), dev)
	}
	return nil
}
