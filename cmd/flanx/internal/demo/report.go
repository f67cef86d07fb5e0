package demo

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Report is the outcome of a run. Its JSON form is what "flanx demo --json"
// prints.
type Report struct {
	Hosts int   `json:"hosts"`
	Bytes int   `json:"bytes"` // moved in each row
	Rows  []Row `json:"rows"`
}

// Row is the outcome of one combination.
type Row struct {
	Encap   string `json:"encap"`
	Asked   string `json:"asked"`         // flanxd's -io
	Granted string `json:"granted"`       // as the daemons told; empty: none did
	Why     string `json:"why,omitempty"` // why nothing better was granted, as they told

	Pings         int     `json:"pings"`    // pairs of nodes tried
	PingsOK       int     `json:"pings_ok"` // pairs where every request was answered, once
	BitsPerSecond float64 `json:"bits_per_second"`
	SHA256        string  `json:"sha256"` // of what the receiver got; empty: not all arrived
	Intact        bool    `json:"intact"` // the same as what was sent

	Failure string              `json:"failure,omitempty"` // the first thing that went wrong
	Logs    map[string][]string `json:"logs,omitempty"`    // last log lines of the daemons to blame, by host
}

// OK says that nothing went wrong.
func (r Row) OK() bool { return r.Failure == "" }

// OK says that every row is OK, and that there is one.
func (r Report) OK() bool {
	for _, row := range r.Rows {
		if !row.OK() {
			return false
		}
	}
	return len(r.Rows) > 0
}

// WriteTable prints the rows as a table, and below it what the daemons of failed
// rows said last.
func (r Report) WriteTable(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(t, "ENCAPSULATION\tASKED FOR\tGRANTED\tPINGS OK\tTHROUGHPUT\tVERDICT")
	for _, row := range r.Rows {
		fmt.Fprintf(t, "%s\t%s\t%s\t%d/%d\t%s\t%s\n", row.Encap, row.Asked, orDash(row.Granted),
			row.PingsOK, row.Pings, rate(row.BitsPerSecond), row.verdict())
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("print table: %w", err)
	}
	for _, row := range r.Rows {
		row.writeLogs(w)
	}
	return nil
}

func (r Row) verdict() string {
	if r.OK() {
		return "ok, SHA-256 equal"
	}
	return "FAILED: " + r.Failure
}

func (r Row) writeLogs(w io.Writer) {
	for _, host := range sortedKeys(r.Logs) {
		fmt.Fprintf(w, "\n%s, %s: flanxd on %s said last:\n", r.Encap, r.Asked, host)
		for _, line := range r.Logs[host] {
			fmt.Fprintln(w, "  "+line)
		}
	}
}

// rate prints bits per second with three digits.
func rate(bps float64) string {
	switch {
	case bps <= 0:
		return "-"
	case bps >= 1e9:
		return fmt.Sprintf("%.2f Gbit/s", bps/1e9)
	default:
		return fmt.Sprintf("%.0f Mbit/s", bps/1e6)
	}
}

func orDash(s string) string {
	if strings.TrimSpace(s) == "" {
		return "-"
	}
	return s
}
