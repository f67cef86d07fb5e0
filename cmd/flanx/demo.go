package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"flanx/cmd/flanx/internal/demo"
)

// newDemo is "flanx demo".
func newDemo() *cobra.Command {
	var (
		c         demo.Config
		size      = byteSize(64 << 20)
		asJSON    bool
		cleanOnly bool
	)
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Build three hosts on this machine and send packets between them, every way there is",
		Long: `Demo makes hosts out of network namespaces, joins them by a bridge and veth
pairs that behave as a real wire (no segmentation or checksum offloads), starts
an etcd and one flanxd per host, and then, for each encapsulation on each way to
the wire: waits until every node has a lease and its route, pings every node
from every other, moves random data over TCP from a pod on one host to a pod on
another, and compares SHA-256 at both ends.

It touches nothing outside these namespaces, and removes all it made, also on
Ctrl-C. It needs root. The exit status is 1 if any row failed.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cleanOnly {
				return clean(cmd)
			}
			c.Bytes = int(size)
			return play(cmd, c, asJSON)
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&c.Encaps, "encap", demo.Encaps, "encapsulations to try")
	f.StringSliceVar(&c.IOs, "io", demo.IOs, "ways on the wire to try: native, generic, udp, auto, zerocopy")
	f.IntVar(&c.Hosts, "hosts", 3, "number of hosts, 2 to 16")
	f.Var(&size, "size", "how much to move from pod to pod, to 1GiB")
	f.StringVar(&c.Flanxd, "flanxd", "", "the daemon's `path` (default: beside flanx, else in PATH)")
	f.BoolVar(&c.Keep, "keep", false, "leave the last combination running, and print how to look around")
	f.BoolVar(&cleanOnly, "clean", false, "remove what --keep left, and do nothing else")
	f.BoolVar(&asJSON, "json", false, "print the outcome as JSON")
	return cmd
}

func play(cmd *cobra.Command, c demo.Config, asJSON bool) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find own program: %w", err)
	}
	c.Etcd = []string{self, "etcd"}
	tour := &strings.Builder{} // printed below the table
	p := newProgress(cmd.ErrOrStderr())
	rep, err := demo.Run(cmd.Context(), c, p, tour)
	p.end()
	if errors.Is(err, demo.ErrConfig) {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	if len(rep.Rows) > 0 || err == nil {
		if err := print(cmd, rep, asJSON); err != nil {
			return err
		}
	}
	fmt.Fprint(cmd.ErrOrStderr(), tour)
	if err == nil && !rep.OK() {
		err = errReported
	}
	return err
}

func print(cmd *cobra.Command, rep demo.Report, asJSON bool) error {
	if !asJSON {
		return rep.WriteTable(cmd.OutOrStdout())
	}
	enc := json.NewEncoder(cmd.OutOrStdout())
	enc.SetIndent("", "  ")
	return enc.Encode(rep)
}

func clean(cmd *cobra.Command) error {
	found, err := demo.Clean()
	if err == nil && !found {
		fmt.Fprintln(cmd.ErrOrStderr(), "nothing to remove: no demo was kept")
	}
	return err
}
