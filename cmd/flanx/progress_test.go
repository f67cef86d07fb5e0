package main

import (
	"bytes"
	"strings"
	"testing"

	"flanx/cmd/flanx/internal/demo"
)

func TestProgressLines(t *testing.T) {
	var out bytes.Buffer
	p := newProgress(&out)
	p.Plan(2)
	p.Step("one")
	p.Step("two")
	p.Row(demo.Row{Encap: "udp", Asked: "native"})
	p.Row(demo.Row{Encap: "udp", Asked: "generic", Failure: "broken"})
	p.end()
	want := "[1/2] one\n[2/2] two\n        udp, native: ok\n        udp, generic: FAILED: broken\n"
	if out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

func TestProgressBar(t *testing.T) {
	var out bytes.Buffer
	p := newProgress(&out)
	p.tty = true
	p.Plan(2)
	p.Step("begin")
	p.Step("go on")
	p.Step("more than planned")
	p.Row(demo.Row{})
	p.end()
	if s := out.String(); !strings.Contains(s, "begin") || !strings.Contains(s, "more than planned") || strings.Contains(s, "\n") {
		t.Errorf("got %q", s)
	}
}
