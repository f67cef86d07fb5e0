package config

import (
	"flag"
	"fmt"
	"slices"
	"strings"
)

// Help returns what flanxd -help prints.
func Help() string {
	var b strings.Builder
	b.WriteString(`flanxd makes this host a node of a flannel-compatible overlay network.

Usage: flanxd [flags]

Every flag but -version can be given as a variable too: FLANNELD_ and the flag's
name in capitals, with _ for -, as in FLANNELD_ETCD_PREFIX. The command line wins.
`)
	for _, g := range groups {
		fmt.Fprintf(&b, "\n%s:\n", g.title)
		for _, f := range g.flags() {
			what, usage := flag.UnquoteUsage(f)
			fmt.Fprintf(&b, "  %s\n        %s%s\n", strings.TrimSpace("-"+f.Name+" "+what), usage, defaultNote(f))
		}
	}
	return b.String()
}

// flags returns the group's flags in alphabetical order.
func (g group) flags() []*flag.Flag {
	var all []*flag.Flag
	fs := emptySet()
	g.declare(fs, &raw{})
	fs.VisitAll(func(f *flag.Flag) { all = append(all, f) })
	return all
}

func defaultNote(f *flag.Flag) string {
	if slices.Contains([]string{"", "false"}, f.DefValue) {
		return ""
	}
	return " (default " + f.DefValue + ")"
}

// Table returns the flags as the manual lists them: Markdown, a table for each
// group.
func Table() string {
	var b strings.Builder
	for _, g := range groups {
		fmt.Fprintf(&b, "### %s\n\n| flag | default | meaning |\n|---|---|---|\n", g.title)
		for _, f := range g.flags() {
			what, usage := flag.UnquoteUsage(f)
			def := f.DefValue
			if def != "" {
				def = "`" + def + "`"
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", strings.TrimSpace("-"+f.Name+" "+what), def, usage)
		}
		b.WriteString("\n")
	}
	return b.String()
}
