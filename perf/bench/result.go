package bench

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"flanx/perf/bench/stat"
)

// Result is all that a run found.
type Result struct {
	Environment Environment   `json:"environment"`
	Began       time.Time     `json:"began"`
	Took        time.Duration `json:"took_ns"`
	Rounds      int           `json:"rounds"`
	Cut         bool          `json:"cut"` // ended before all rounds were done
	Paths       []PathRow     `json:"paths"`
	Cells       []Cell        `json:"cells"` // workload by workload, in the order of Paths
}

// PathRow is what is said of a path besides figures.
type PathRow struct {
	Name    string `json:"name"`
	Copies  string `json:"copies"` // by construction, not measured
	Granted string `json:"granted,omitempty"`
	Failure string `json:"failure,omitempty"`
}

// Cell is one path under one workload.
type Cell struct {
	Path          string       `json:"path"`
	Workload      string       `json:"workload"`
	Unit          string       `json:"unit"`
	LowerIsBetter bool         `json:"lower_is_better"`
	CPUPer        string       `json:"cpu_per"`
	Summary       stat.Summary `json:"summary"`
	Rank          int          `json:"rank"` // 0: not ranked
	CPUSystem     float64      `json:"cpu_system_ns"`
	CPUDaemons    float64      `json:"cpu_daemons_ns"`
	Peak          float64      `json:"peak,omitempty"` // highest delivered in any trial, whatever was lost: median, kpps
	P99           float64      `json:"p99,omitempty"`  // of latency: median over rounds, µs
	Samples       []Sample     `json:"samples"`
	Failure       string       `json:"failure,omitempty"`
}

// Environment is what figures depend on.
type Environment struct {
	Kernel      string   `json:"kernel"`
	CPU         string   `json:"cpu"`
	CPUs        int      `json:"cpus"`
	Mitigations []string `json:"mitigations"`
	Go          string   `json:"go"`
	Version     string   `json:"version"`
	Wire        string   `json:"wire"`
	MTU         int      `json:"mtu"`
	Queues      int      `json:"queues"`
	Clock       string   `json:"clock"`
	Note        string   `json:"note"`
}

func newResult(c Config) Result {
	r := Result{Environment: environment(c), Began: time.Now().UTC().Truncate(time.Second), Rounds: c.Rounds}
	for _, p := range c.Paths {
		r.Paths = append(r.Paths, PathRow{Name: p.Name(), Copies: p.Copies()})
	}
	for _, w := range c.Workloads {
		for _, p := range c.Paths {
			r.Cells = append(r.Cells, Cell{Path: p.Name(), Workload: w.Name, Unit: w.Unit, LowerIsBetter: w.LowerIsBetter, CPUPer: w.CPUPer})
		}
	}
	return r
}

func environment(c Config) Environment {
	e := Environment{
		CPUs: runtime.NumCPU(), Go: runtime.Version(), Wire: "veth, offloads off: only whole frames cross",
		MTU: c.Wire.MTU, Queues: max(1, c.Wire.Queues), Clock: "CLOCK_MONOTONIC, at the asking end",
		Note: "both hosts, the generators and the sinks share this machine's CPUs: ratios within this run count, absolute figures do not carry to a network",
	}
	if c.Wire.Offloads {
		e.Wire = "veth with its offloads: packets of 64 KiB cross uncut, which no network does"
	}
	if e.MTU == 0 {
		e.MTU = 1500
	}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		e.Kernel = unix.ByteSliceToString(u.Release[:])
	}
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		_, rest, _ := strings.Cut(string(b), "model name")
		line, _, _ := strings.Cut(rest, "\n")
		e.CPU = strings.TrimLeft(line, " \t:")
	}
	const dir = "/sys/devices/system/cpu/vulnerabilities/"
	entries, _ := os.ReadDir(dir)
	for _, f := range entries {
		if b, err := os.ReadFile(dir + f.Name()); err == nil && strings.HasPrefix(string(b), "Mitigation") {
			e.Mitigations = append(e.Mitigations, f.Name())
		}
	}
	return e
}

// finish reduces the samples.
func (r *Result) finish(took time.Duration) {
	r.Took = took
	for i := range r.Cells {
		r.Cells[i].reduce()
	}
	for i := 0; len(r.Paths) > 0 && i < len(r.Cells); i += len(r.Paths) {
		rank(r.Cells[i:i+len(r.Paths)], r.Cells[i].LowerIsBetter)
	}
}

func (c *Cell) reduce() {
	var value, system, daemons, peak, p99 []float64
	for _, s := range c.Samples {
		value, system, daemons = append(value, s.Value), append(system, s.CPUSystem), append(daemons, s.CPUDaemons)
		best := 0.0
		for _, t := range s.Trials {
			best = max(best, t.Delivered/1e3)
		}
		peak = append(peak, best)
		p99 = append(p99, s.Latency["p99"])
	}
	if len(value) == 0 {
		return
	}
	c.Summary = stat.Summarize(value)
	c.CPUSystem, c.CPUDaemons = stat.Percentile(system, 50), stat.Percentile(daemons, 50)
	c.Peak, c.P99 = stat.Percentile(peak, 50), stat.Percentile(p99, 50)
}

func (r *Result) empty() bool {
	for _, c := range r.Cells {
		if len(c.Samples) > 0 {
			return false
		}
	}
	return true
}

func (r *Result) failures() error {
	var errs []error
	for _, p := range r.Paths {
		if p.Failure != "" {
			errs = append(errs, fmt.Errorf("path %s: %s", p.Name, p.Failure))
		}
	}
	return errors.Join(errs...)
}
