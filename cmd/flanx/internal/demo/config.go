package demo

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"
)

// Keep's lab, so that Clean finds it.
const keptName = "demo"

// What is combined by default.
var (
	Encaps = []string{"vxlan", "udp"}
	IOs    = []string{"native", "generic", "udp"}
)

// otherIOs are good for --io, but not part of the default: what they come to
// depends on the machine.
var otherIOs = []string{"auto", "zerocopy"}

// maxHosts keeps addresses and patience in bounds.
const maxHosts = 16

// ErrConfig is wrapped by every error that says a Config makes no sense.
var ErrConfig = errors.New("cannot run such a demo")

// Config says what to show.
type Config struct {
	Encaps []string // "vxlan", "udp"; empty: both
	IOs    []string // flanxd's -io: "native", "generic", "udp", "auto", "zerocopy"; empty: the first three
	Hosts  int      // 2 to 16; 0 means 3
	Bytes  int      // moved by TCP from pod to pod, 1 to 1 GiB; 0 means 64 MiB
	Keep   bool     // leave the last combination running

	// Patience bounds the wait for leases, and then again the wait until all nodes
	// reach each other; 0 means 30 s.
	Patience time.Duration

	Flanxd string   // path of the daemon; empty: beside our own program, else in PATH
	Etcd   []string // command line that runs an etcd server as Serve does, before its own arguments
}

// complete fills in the defaults and refuses what cannot be.
func (c *Config) complete() error {
	if len(c.Encaps) == 0 {
		c.Encaps = Encaps
	}
	if len(c.IOs) == 0 {
		c.IOs = IOs
	}
	if c.Hosts == 0 {
		c.Hosts = 3
	}
	if c.Bytes == 0 {
		c.Bytes = 64 << 20
	}
	if c.Patience == 0 {
		c.Patience = 30 * time.Second
	}
	if err := known("encapsulation", c.Encaps, Encaps); err != nil {
		return err
	}
	if err := known("way on the wire", c.IOs, slices.Concat(IOs, otherIOs)); err != nil {
		return err
	}
	if c.Hosts < 2 || c.Hosts > maxHosts {
		return fmt.Errorf("%w: %d hosts, want 2 to %d", ErrConfig, c.Hosts, maxHosts)
	}
	if c.Bytes < 1 || c.Bytes > 1<<30 {
		return fmt.Errorf("%w: %d bytes to move, want 1 to 1 GiB", ErrConfig, c.Bytes)
	}
	return nil
}

func known(what string, asked, have []string) error {
	for _, a := range asked {
		if !slices.Contains(have, a) {
			return fmt.Errorf("%w: unknown %s %q, want one of %v", ErrConfig, what, a, have)
		}
	}
	return nil
}

// findFlanxd returns the daemon's path.
func (c *Config) findFlanxd() (string, error) {
	if c.Flanxd != "" {
		path, err := exec.LookPath(c.Flanxd)
		if err != nil {
			return "", fmt.Errorf("find flanxd: %w", err)
		}
		return filepath.Abs(path)
	}
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find flanxd: %w", err)
	}
	beside := filepath.Join(filepath.Dir(self), "flanxd")
	if _, err := os.Stat(beside); err == nil {
		return beside, nil
	}
	path, err := exec.LookPath("flanxd")
	if err != nil {
		return "", fmt.Errorf("find flanxd: it is neither %s nor in PATH: build it with \"make build\", or name it with --flanxd", beside)
	}
	return path, nil
}
