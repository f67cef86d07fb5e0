package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"flanx/cmd/internal/config"
)

var update = flag.Bool("update", false, "rewrite the generated parts of the manual")

const manual = "../../docs/flanxd.md"

// TestManual holds the manual's tables against the code: every flag and exit
// code is in them, and none that is not.
func TestManual(t *testing.T) {
	b, err := os.ReadFile(manual)
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for name, want := range map[string]string{"flags": config.Table(), "exit codes": exitTable()} {
		begin, end := "<!-- "+name+" -->\n", "<!-- end of "+name+" -->\n"
		before, rest, ok := strings.Cut(text, begin)
		got, after, ok2 := strings.Cut(rest, end)
		if !ok || !ok2 {
			t.Fatalf("%s has no part between %q and %q", manual, begin, end)
		}
		if got != want && !*update {
			t.Errorf("%s: %s differ from the code (go test ./cmd/flanxd -update rewrites them)", manual, name)
		}
		text = before + begin + want + end + after
	}
	if *update {
		if err := os.WriteFile(manual, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func exitTable() string {
	var b strings.Builder
	b.WriteString("| code | meaning |\n|---|---|\n")
	for _, m := range meanings {
		fmt.Fprintf(&b, "| %d | %s |\n", m.code, m.meaning)
	}
	return b.String()
}

// Every code that can be returned has a meaning, and the other way round.
func TestEveryExitCodeHasAMeaning(t *testing.T) {
	known := map[exitCode]bool{exitOK: true, exitFailure: true}
	for _, c := range codes {
		known[c.code] = true
	}
	for _, m := range meanings {
		if !known[m.code] {
			t.Errorf("code %d is never returned", m.code)
		}
		delete(known, m.code)
	}
	if len(known) > 0 {
		t.Errorf("codes without meaning: %v", known)
	}
}
