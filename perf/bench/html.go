package bench

import (
	"fmt"
	"html/template"
	"io"
)

// WriteHTML writes one page that needs nothing else: styles and plots are inline,
// there is no script, and it follows the reader's light or dark scheme and prints.
func (r Result) WriteHTML(w io.Writer) error {
	return page.Execute(w, pageData{r, r.notes(), r.plots()})
}

type pageData struct {
	Result
	Notes []string
	Plots []plot
}

// plot is one workload's bars.
type plot struct {
	Workload, Unit, CPUPer string
	LowerIsBetter          bool
	Height                 int
	Bars                   []bar
}

// bar is one path: lengths are in the plot's units.
type bar struct {
	Path, Label, Note        string
	Length, LowX, HighX      float64
	CPUSystem, CPUDaemons    float64
	Low, High                float64
	Rank, N                  int
	TextY, BarY, TopY, FootY int
}

// How a plot is laid out, in SVG user units.
const (
	barHeight = 26
	barLeft   = 170
	barWidth  = 460
)

func (r Result) plots() []plot {
	var plots []plot
	for i := 0; len(r.Paths) > 0 && i < len(r.Cells); i += len(r.Paths) {
		plots = append(plots, r.plot(r.Cells[i:i+len(r.Paths)]))
	}
	return plots
}

func (r Result) plot(cells []Cell) plot {
	c := cells[0]
	p := plot{Workload: c.Workload, Unit: c.Unit, CPUPer: c.CPUPer, LowerIsBetter: c.LowerIsBetter, Height: len(cells)*barHeight + 6}
	top := 0.0
	for _, c := range cells {
		top = max(top, c.Summary.High)
	}
	for i, c := range cells {
		p.Bars = append(p.Bars, r.bar(c, i*barHeight, top))
	}
	return p
}

func (r Result) bar(c Cell, y int, top float64) bar {
	f := fields(r, c)
	b := bar{
		Path: c.Path, Label: f[1], Note: f[6], TextY: y + 18, BarY: y + 5, TopY: y + 9, FootY: y + 19,
		CPUSystem: c.CPUSystem, CPUDaemons: c.CPUDaemons, Rank: c.Rank, N: c.Summary.N,
		Low: c.Summary.Low, High: c.Summary.High,
	}
	if top > 0 {
		at := func(v float64) float64 { return barLeft + v/top*barWidth }
		b.Length, b.LowX, b.HighX = at(c.Summary.Median)-barLeft, at(c.Summary.Low), at(c.Summary.High)
	}
	return b
}

var page = template.Must(template.New("report").Funcs(template.FuncMap{
	"fixed": func(v float64) string { return fmt.Sprintf("%.2f", v) },
	"whole": func(v float64) string { return fmt.Sprintf("%.0f", v) },
}).Parse(`<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>flanx bench</title>
<style>
:root{color-scheme:light dark;--ink:#1b1f24;--paper:#fff;--soft:#5b6570;--line:#d5dae0;--bar:#2f6fb3;--mark:#1b1f24}
@media(prefers-color-scheme:dark){:root{--ink:#e4e8ec;--paper:#14181c;--soft:#9aa5b0;--line:#343b43;--bar:#4f93d8;--mark:#e4e8ec}}
@media print{:root{--ink:#000;--paper:#fff;--soft:#333;--line:#999;--bar:#777;--mark:#000}section{break-inside:avoid}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:56rem;margin:2rem auto;padding:0 1rem}
svg{width:100%;height:auto}svg text{font:13px system-ui,sans-serif;fill:var(--ink)}
table{border-collapse:collapse;width:100%;font-size:13px}td,th{border-bottom:1px solid var(--line);padding:.2rem .5rem;text-align:right}
td:first-child,th:first-child,td:last-child,th:last-child{text-align:left}.note{color:var(--soft)}
</style>
<h1>flanx bench</h1>
<p class="note">{{.Began.Format "2006-01-02 15:04 MST"}}. {{.Environment.Note}}. Kernel {{.Environment.Kernel}}, {{.Environment.CPUs}} × {{.Environment.CPU}}, {{.Environment.Go}}, {{.Environment.Version}}. Wire: {{.Environment.Wire}}; MTU {{.Environment.MTU}}. Latency clock: {{.Environment.Clock}}. Bars are medians, the strokes on them 95 % intervals.</p>
{{range .Notes}}<p><strong>{{.}}</strong></p>{{end}}
{{range .Plots}}<section><h2>{{.Workload}}</h2><p class="note">{{.Unit}}, {{if .LowerIsBetter}}less{{else}}more{{end}} is better. CPU in ns per {{.CPUPer}}.</p>
<svg viewBox="0 0 720 {{.Height}}" role="img" aria-label="{{.Workload}}">{{range .Bars}}
<text x="162" y="{{.TextY}}" text-anchor="end">{{.Path}}</text><rect x="170" y="{{.BarY}}" width="{{fixed .Length}}" height="18" fill="var(--bar)"/>{{if .N}}<path d="M{{fixed .LowX}} {{.TopY}}V{{.FootY}}M{{fixed .HighX}} {{.TopY}}V{{.FootY}}M{{fixed .LowX}} {{.TextY}}H{{fixed .HighX}}" stroke="var(--mark)" fill="none" stroke-width="1.5"/>{{end}}
<text x="640" y="{{.TextY}}">{{.Label}}</text>{{end}}
</svg>
<table><tr><th>path<th>median<th>interval<th>rank<th>CPU system<th>CPU daemons<th>more</tr>{{range .Bars}}
<tr><td>{{.Path}}<td>{{.Label}}<td>{{fixed .Low}} to {{fixed .High}}<td>{{if .Rank}}{{.Rank}}{{else}}–{{end}}<td>{{whole .CPUSystem}}<td>{{whole .CPUDaemons}}<td>{{.Note}}</tr>{{end}}
</table></section>{{end}}
<section><h2>Where packets are copied</h2><p class="note">By construction, not measured.</p><table>{{range .Paths}}<tr><td>{{.Name}}<td>{{.Granted}}{{.Failure}}<td>{{.Copies}}</tr>{{end}}</table></section>
</html>
`))
