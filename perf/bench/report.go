package bench

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// WriteJSON writes all of it.
func (r Result) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", " ")
	return enc.Encode(r)
}

// ReadJSON reads what WriteJSON wrote.
func ReadJSON(rd io.Reader) (r Result, err error) {
	err = json.NewDecoder(rd).Decode(&r)
	return r, err
}

var csvHead = []string{"workload", "path", "n", "median", "low", "high", "unit", "rank", "cpu_system_ns", "cpu_daemons_ns", "cpu_per", "peak_kpps", "p99_us", "failure"}

// WriteCSV writes one line per path and workload.
func (r Result) WriteCSV(w io.Writer) error {
	cw := csv.NewWriter(w)
	lines := [][]string{csvHead}
	for _, c := range r.Cells {
		f := func(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }
		lines = append(lines, []string{
			c.Workload, c.Path, strconv.Itoa(c.Summary.N), f(c.Summary.Median), f(c.Summary.Low), f(c.Summary.High), c.Unit,
			strconv.Itoa(c.Rank), f(c.CPUSystem), f(c.CPUDaemons), c.CPUPer, f(c.Peak), f(c.P99), r.failure(c),
		})
	}
	return cw.WriteAll(lines)
}

// failure says why a cell is empty, or incomplete.
func (r Result) failure(c Cell) string {
	for _, p := range r.Paths {
		if p.Name == c.Path && p.Failure != "" {
			return p.Failure
		}
	}
	return c.Failure
}

var markdownHead = `| path | median | 95 % interval | rank | CPU system | CPU daemons | more |
|---|---|---|---|---|---|---|
`

// WriteMarkdown writes one table per workload, and what the figures depend on.
func (r Result) WriteMarkdown(w io.Writer) error {
	b := &strings.Builder{}
	e := r.Environment
	fmt.Fprintf(b, "# flanx bench, %s\n\n%s. Kernel %s, %d × %s, %s, %s. Wire: %s; MTU %d, %d queue(s). Mitigations: %s. Latency clock: %s. %d rounds, interleaved, %s.\n\n",
		r.Began.Format("2006-01-02 15:04 MST"), e.Note, e.Kernel, e.CPUs, e.CPU, e.Go, e.Version, e.Wire, e.MTU, e.Queues, strings.Join(e.Mitigations, ", "), e.Clock, r.Rounds, r.Took.Round(1e9))
	for _, note := range r.notes() {
		fmt.Fprintf(b, "**%s**\n\n", note)
	}
	for i, c := range r.Cells {
		if i%len(r.Paths) == 0 {
			fmt.Fprintf(b, "## %s (%s)\n\nCPU in ns per %s.\n\n%s", c.Workload, c.Unit, c.CPUPer, markdownHead)
		}
		f := fields(r, c)
		fmt.Fprintf(b, "| %s |\n", strings.ReplaceAll(strings.Join(f, "\x00"), "|", "/"))
		if i%len(r.Paths) == len(r.Paths)-1 {
			b.WriteByte('\n')
		}
	}
	b.WriteString("## Paths\n\nCopies follow from how a path is built; they were not measured.\n\n| path | on the wire by | copies |\n|---|---|---|\n")
	for _, p := range r.Paths {
		fmt.Fprintf(b, "| %s | %s | %s |\n", p.Name, p.Granted+p.Failure, p.Copies)
	}
	_, err := io.WriteString(w, strings.ReplaceAll(b.String(), "\x00", " | "))
	return err
}

// WriteTable writes one block per workload for a terminal.
func (r Result) WriteTable(w io.Writer) error {
	b := &strings.Builder{}
	for i, c := range r.Cells {
		if i%len(r.Paths) == 0 {
			fmt.Fprintf(b, "\n%s, %s; CPU in ns per %s\n%-22s %9s %19s %4s %8s %8s  %s\n",
				c.Workload, c.Unit, c.CPUPer, "path", "median", "95 % interval", "rank", "system", "daemons", "more")
		}
		f := fields(r, c)
		fmt.Fprintf(b, "%-22s %9s %19s %4s %8s %8s  %s\n", f[0], f[1], f[2], f[3], f[4], f[5], f[6])
	}
	b.WriteByte('\n')
	for _, note := range r.notes() {
		fmt.Fprintln(b, note)
	}
	fmt.Fprintln(b, r.Environment.Note)
	_, err := io.WriteString(w, b.String())
	return err
}

// notes say what keeps figures from being comparable.
func (r Result) notes() []string {
	var notes []string
	if r.Cut {
		notes = append(notes, "Ended before all rounds were done: rows differ in the number of measurements.")
	}
	for _, c := range r.Cells {
		if c.Summary.N > 0 && c.Rank == 0 {
			return append(notes, "Rows without a rank have fewer than 7 measurements: too few to say which is better.")
		}
	}
	return notes
}

// fields are a cell's columns.
func fields(r Result, c Cell) []string {
	if c.Summary.N == 0 {
		why := r.failure(c)
		if why == "" {
			why = "not measured"
		}
		return []string{c.Path, "–", "–", "–", "–", "–", why}
	}
	place := "–"
	if c.Rank > 0 {
		place = strconv.Itoa(c.Rank)
	}
	more := fmt.Sprintf("n=%d", c.Summary.N)
	switch {
	case len(c.Samples) > 0 && c.Samples[0].Latency != nil:
		more += fmt.Sprintf(", p99 %.1f µs", c.P99)
	case c.Peak > 0:
		more += fmt.Sprintf(", peak with loss %.1f kpps", c.Peak)
	}
	if n := limited(c); n > 0 {
		more += fmt.Sprintf(", sender was the limit in %d", n)
	}
	if c.Failure != "" {
		more += ", a round failed: " + c.Failure
	}
	return []string{
		c.Path, fmt.Sprintf("%.2f", c.Summary.Median), fmt.Sprintf("%.2f to %.2f", c.Summary.Low, c.Summary.High),
		place, fmt.Sprintf("%.0f", c.CPUSystem), fmt.Sprintf("%.0f", c.CPUDaemons), more,
	}
}

// limited counts the samples in which the path was not the limit.
func limited(c Cell) (n int) {
	for _, s := range c.Samples {
		if s.SenderLimited {
			n++
		}
	}
	return n
}
