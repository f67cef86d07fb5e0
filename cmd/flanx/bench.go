package main

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"flanx/cmd/internal/version"
	"flanx/perf/bench"
	"flanx/perf/bench/naive"
)

// newBench is "flanx bench".
func newBench() *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure which way of carrying packets between two hosts is best on this machine",
		Long: `Bench makes two network namespaces and a wire for each path (the bare wire, the
kernel's VXLAN, a naive tunnel in Go, and flanxd on each way to the wire with each
encapsulation), and measures them in interleaved rounds: TCP throughput, the
highest rate of packets below a loss, and round-trip times. What counts is what
the receiver counted; figures are medians with 95 % intervals, and paths are
ranked only where intervals do not overlap and there are 7 rounds or more.

It prints a table and writes results.json, results.csv, results.md and report.html
to --out.
Ctrl-C keeps what was measured. It needs root, ip(8) and bridge(8).`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	fl := cmd.Flags()
	fl.BoolVar(&f.quick, "quick", false, "end within a minute: 2 rounds of three workloads, not ranked")
	fl.StringSliceVar(&f.workloads, "workload", nil, "measure only these: tcp-1, tcp-8, pps-64, pps-imix, pps-mtu, rtt-hot-1cpu, rtt-hot-2cpu, rtt-cold-2cpu")
	fl.IntVar(&f.rounds, "rounds", 7, "rounds of a full run, 1 to 100")
	fl.Float64Var(&f.loss, "loss", 0.1, "loss in per cent that a packet rate may have, 0 to 100")
	fl.BoolVar(&f.offloads, "raw-veth", false, "leave the wire's offloads on: 64 KiB packets cross it, as on no network")
	fl.StringVar(&f.out, "out", "flanx-bench", "`folder` to write the results to")
	fl.StringVar(&f.flanxd, "flanxd", "", "the daemon's `path` (default: beside flanx, else in PATH)")
	cmd.AddCommand(newBenchCompare(), newBenchNaive())
	return cmd
}

type benchFlags struct {
	quick, offloads bool
	rounds          int
	loss            float64
	out, flanxd     string
	workloads       []string
}

// quickLimit bounds measuring; starting and ending nine paths takes the rest of
// the minute.
const quickLimit = 40 * time.Second

func (f *benchFlags) run(cmd *cobra.Command) error {
	if f.rounds < 1 || f.rounds > 100 || f.loss < 0 || f.loss > 100 {
		return fmt.Errorf("%w: --rounds %d is not 1 to 100, or --loss %g not 0 to 100", errUsage, f.rounds, f.loss)
	}
	c, err := f.config()
	if err != nil {
		return err
	}
	stderr := cmd.ErrOrStderr()
	fmt.Fprintf(stderr, "%d paths, %d workloads, %d rounds: about %s\n", len(c.Paths), len(c.Workloads), c.Rounds, c.Estimate().Round(time.Second))
	p := newProgress(stderr)
	began := time.Now()
	res, err := bench.Run(cmd.Context(), c, func(done, of int, what string) {
		if p.steps == 0 {
			p.Plan(of)
		}
		p.done = done
		if done > 0 {
			left := time.Since(began) / time.Duration(done) * time.Duration(of-done)
			what += fmt.Sprintf(" (%s left)", left.Round(time.Second))
		}
		p.Step(what)
	})
	p.end()
	res.Environment.Version = version.String()
	if errors.Is(err, bench.ErrNothing) {
		return err
	}
	return errors.Join(f.write(cmd.OutOrStdout(), res), err)
}

func (f *benchFlags) write(stdout io.Writer, res bench.Result) error {
	if err := os.MkdirAll(f.out, 0o755); err != nil {
		return fmt.Errorf("make folder for results: %w", err)
	}
	for name, write := range map[string]func(io.Writer) error{
		"results.json": res.WriteJSON, "results.csv": res.WriteCSV, "results.md": res.WriteMarkdown,
		"report.html": res.WriteHTML,
	} {
		if err := writeFile(filepath.Join(f.out, name), write); err != nil {
			return fmt.Errorf("write results: %w", err)
		}
	}
	return res.WriteTable(stdout)
}

func writeFile(path string, write func(io.Writer) error) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(file), file.Close())
}

func (f *benchFlags) config() (bench.Config, error) {
	self, err := os.Executable()
	if err != nil {
		return bench.Config{}, fmt.Errorf("find own program: %w", err)
	}
	flanxd := f.flanxd
	if flanxd == "" {
		flanxd = filepath.Join(filepath.Dir(self), "flanxd")
		if _, err := os.Stat(flanxd); err != nil {
			flanxd = "flanxd"
		}
	}
	if flanxd, err = exec.LookPath(flanxd); err != nil {
		return bench.Config{}, fmt.Errorf("find flanxd: %w: build it with \"make build\", or name it with --flanxd", err)
	}
	c := bench.Config{Rounds: f.rounds, Paths: []bench.Path{
		bench.Bare{}, bench.KernelVXLAN{}, bench.Naive{Command: []string{self, "bench", "naive"}},
	}}
	c.Wire.Offloads = f.offloads
	for _, io := range []string{"udp", "generic", "native"} {
		for _, encap := range []string{"udp", "vxlan"} {
			c.Paths = append(c.Paths, bench.Flanxd{Program: flanxd, IO: io, Encap: encap})
		}
	}
	c.Workloads = bench.Full(f.loss / 100)
	if f.quick {
		c.Rounds, c.Limit, c.Workloads = 2, quickLimit, bench.Quick(f.loss/100)
	}
	return c, f.only(&c)
}

// only leaves the workloads that were named.
func (f *benchFlags) only(c *bench.Config) error {
	if len(f.workloads) == 0 {
		return nil
	}
	have := c.Workloads
	c.Workloads = nil
	for _, name := range f.workloads {
		i := slices.IndexFunc(have, func(w bench.Workload) bool { return w.Name == name })
		if i < 0 {
			return fmt.Errorf("%w: no workload %q in this run; see \"flanx bench --help\"", errUsage, name)
		}
		c.Workloads = append(c.Workloads, have[i])
	}
	return nil
}

// newBenchCompare is "flanx bench compare".
func newBenchCompare() *cobra.Command {
	var threshold float64
	cmd := &cobra.Command{
		Use:   "compare OLD.json NEW.json",
		Short: "Print what changed beyond noise between two runs; exit status 3 on a regression",
		Args:  cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return fmt.Errorf("%w: compare takes two files, not %d", errUsage, len(args))
			}
			return compareRuns(cmd.OutOrStdout(), args[0], args[1], threshold/100)
		},
	}
	cmd.Flags().Float64Var(&threshold, "threshold", 5, "change in per cent that counts")
	return cmd
}

// exitRegression is the exit status of compare when a path became worse.
const exitRegression = 3

var errRegression = errors.New("worse than before")

func compareRuns(w io.Writer, before, after string, threshold float64) error {
	var runs [2]bench.Result
	for i, name := range []string{before, after} {
		file, err := os.Open(name)
		if err != nil {
			return fmt.Errorf("read results: %w", err)
		}
		runs[i], err = bench.ReadJSON(file)
		_ = file.Close()
		if err != nil {
			return fmt.Errorf("read results %s: %w", name, err)
		}
	}
	changes, compared := bench.Compare(runs[0], runs[1], threshold)
	if compared == 0 {
		return fmt.Errorf("%w: no row was measured 7 times in both", bench.ErrNothing)
	}
	worse := 0
	for _, c := range changes {
		fmt.Fprintln(w, c)
		if c.Worse {
			worse++
		}
	}
	fmt.Fprintf(w, "%d rows compared, %d changed, %d worse\n", compared, len(changes), worse)
	if worse > 0 {
		return &exitError{exitRegression, errRegression}
	}
	return nil
}

// newBenchNaive is one end of the naive path, run by bench in a namespace.
func newBenchNaive() *cobra.Command {
	return &cobra.Command{
		Use: "naive LOCAL PEER", Hidden: true, Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			local, err := netip.ParseAddrPort(args[0])
			if err != nil {
				return fmt.Errorf("%w: %w", errUsage, err)
			}
			peer, err := netip.ParseAddrPort(args[1])
			if err != nil {
				return fmt.Errorf("%w: %w", errUsage, err)
			}
			t, err := naive.Open(local, peer)
			if err != nil {
				return err
			}
			return t.Run(cmd.Context())
		},
	}
}
