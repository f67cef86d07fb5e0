package replay

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"flanx/perf/replay/linktype"
)

// Summary is what came of a replay. Its JSON is what "flanx replay --json"
// prints.
type Summary struct {
	Capture string `json:"capture,omitempty"`
	To      string `json:"to,omitempty"`
	DryRun  bool   `json:"dry_run,omitempty"`

	Format string `json:"format"`
	Read   uint64 `json:"packets_read"` // in all loops
	Sent   uint64 `json:"packets_sent"` // taken by the port
	Bytes  uint64 `json:"bytes_sent"`   // with the headers that the port was given
	Loops  uint64 `json:"loops"`        // complete ones
	Capped uint64 `json:"capped_gaps"`  // pauses that were shortened
	// Skipped counts what was not sent, by reason.
	Skipped map[string]uint64 `json:"skipped"`
	// UnknownLinks counts records of link types that no IP packet is found in.
	UnknownLinks map[string]uint64 `json:"unknown_link_types,omitempty"`

	Asked       Rate    `json:"asked"`
	Seconds     float64 `json:"seconds"` // from the first packet to the last
	PPS         float64 `json:"achieved_pps"`
	Mbps        float64 `json:"achieved_mbps"`
	RateError   float64 `json:"rate_error_percent"` // of a rate that was asked for
	GapError    *Errors `json:"gap_error_microseconds,omitempty"`
	Interrupted bool    `json:"interrupted,omitempty"`
	Damage      string  `json:"damage,omitempty"` // what is wrong with the file

	first, last int64
}

// Rate is what was asked for.
type Rate struct {
	Kind  string  `json:"kind"` // original, speed, pps, mbps or top
	Value float64 `json:"value,omitempty"`
}

// Errors are how far the time from one packet to the next was from the
// schedule, in microseconds.
type Errors struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

func (s *Summary) countLink(linkType uint16) {
	if s.UnknownLinks == nil {
		s.UnknownLinks = map[string]uint64{}
	}
	s.UnknownLinks[linktype.Name(linkType)]++
}

// finish adds up.
func (s *Summary) finish(p *player) {
	drops := p.batch.Drops()
	s.Sent = p.given
	for _, n := range drops {
		s.Sent -= min(n, s.Sent)
	}
	s.Skipped = skipped(&p.reasons, drops)
	s.Capped = p.sched.Capped()
	s.Asked = p.asked()
	s.Seconds = time.Duration(s.last - s.first).Seconds()
	if s.Seconds > 0 && s.Sent > 1 {
		// The last packet takes no time: n packets make n-1 gaps.
		s.PPS = float64(s.Sent-1) / s.Seconds
		s.Mbps = float64(s.Bytes) * float64(s.Sent-1) / float64(s.Sent) * 8 / s.Seconds / 1e6
	}
	switch s.Asked.Kind {
	case "pps":
		s.RateError = deviation(s.PPS, s.Asked.Value)
	case "mbps":
		s.RateError = deviation(s.Mbps, s.Asked.Value)
	case "original", "speed":
		if p.lastDue > 0 {
			s.RateError = deviation(float64(p.lastDue), float64(s.last-s.first))
		}
	}
	if p.errors.Count() > 0 {
		s.GapError = &Errors{
			P50: micro(p.errors.Percentile(50)), P99: micro(p.errors.Percentile(99)), Max: micro(p.errors.Max()),
		}
	}
}

func micro(ns int64) float64 { return float64(ns) / 1e3 }

// deviation is by how many percent got differs from want.
func deviation(got, want float64) float64 {
	if got == 0 || want == 0 {
		return 0
	}
	return (got/want - 1) * 100
}

func (p *player) asked() Rate {
	c := p.cfg.Pace
	switch {
	case c.Top:
		return Rate{Kind: "top"}
	case c.PPS > 0:
		return Rate{Kind: "pps", Value: c.PPS}
	case c.Mbps > 0:
		return Rate{Kind: "mbps", Value: c.Mbps}
	case c.Speed > 0 && c.Speed != 1:
		return Rate{Kind: "speed", Value: c.Speed}
	}
	return Rate{Kind: "original", Value: 1}
}

// nothing says why nothing was sent.
func (s *Summary) nothing() error {
	var why []string
	for _, name := range slices.Sorted(maps.Keys(s.UnknownLinks)) {
		why = append(why, fmt.Sprintf("%d records are of %s, in which no IP packet is looked for", s.UnknownLinks[name], name))
	}
	for _, reason := range slices.Sorted(maps.Keys(s.Skipped)) {
		if reason != UnknownLink.String() {
			why = append(why, fmt.Sprintf("%d %s", s.Skipped[reason], reason))
		}
	}
	if len(why) == 0 {
		why = []string{"the capture has no packets"}
	}
	return fmt.Errorf("%w: %s", ErrNothingSent, strings.Join(why, ", "))
}

// WriteText prints the summary for people.
func (s *Summary) WriteText(w io.Writer) error {
	b := &strings.Builder{}
	verb := "sent"
	if s.DryRun {
		verb = "would be sent"
	}
	fmt.Fprintf(b, "%d of %d packets %s, %d bytes", s.Sent, s.Read, verb, s.Bytes)
	if s.Loops > 1 {
		fmt.Fprintf(b, ", in %d loops", s.Loops)
	}
	if s.Interrupted {
		b.WriteString(", interrupted")
	}
	b.WriteByte('\n')
	if s.PPS > 0 && !s.DryRun {
		fmt.Fprintf(b, "in %.6f s: %.1f packets/s, %.3f Mbit/s", s.Seconds, s.PPS, s.Mbps)
		if s.Asked.Kind != "top" {
			fmt.Fprintf(b, "; asked for %s %v, off by %+.3f %%", s.Asked.Kind, s.Asked.Value, s.RateError)
		}
		b.WriteByte('\n')
	}
	if e := s.GapError; e != nil && !s.DryRun {
		fmt.Fprintf(b, "time between packets off by: median %.1f µs, p99 %.1f µs, most %.1f µs\n", e.P50, e.P99, e.Max)
	}
	if s.Capped > 0 {
		fmt.Fprintf(b, "%d pauses were shortened (--max-gap)\n", s.Capped)
	}
	for _, reason := range slices.Sorted(maps.Keys(s.Skipped)) {
		fmt.Fprintf(b, "not sent: %d %s\n", s.Skipped[reason], reason)
	}
	for _, name := range slices.Sorted(maps.Keys(s.UnknownLinks)) {
		fmt.Fprintf(b, "no IP is looked for in %s\n", name)
	}
	if s.Damage != "" {
		fmt.Fprintf(b, "file: %s\n", s.Damage)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
