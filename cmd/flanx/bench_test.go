package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"flanx/perf/bench"
)

// runOf is a result of one row with seven samples around a value.
func runOf(t *testing.T, value float64) string {
	t.Helper()
	r := bench.Result{Cells: []bench.Cell{{Path: "p", Workload: "w", Unit: "kpps"}}}
	r.Cells[0].Summary.N, r.Cells[0].Summary.Median = 7, value
	r.Cells[0].Summary.Low, r.Cells[0].Summary.High = value-1, value+1
	name := filepath.Join(t.TempDir(), "r.json")
	file, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := r.WriteJSON(file); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestBenchCommandLine(t *testing.T) {
	hundred, eighty := runOf(t, 100), runOf(t, 80)
	for _, c := range []struct {
		name string
		args []string
		exit int
		says string
	}{
		{"regression", []string{"compare", hundred, eighty}, exitRegression, "WORSE"},
		{"improvement", []string{"compare", eighty, hundred}, exitOK, "better"},
		{"below the threshold", []string{"compare", hundred, eighty, "--threshold", "30"}, exitOK, "0 changed"},
		{"one file", []string{"compare", hundred}, exitUsage, "two files"},
		{"no such file", []string{"compare", hundred, "/nonexistent"}, exitFailed, "/nonexistent"},
		{"rounds", []string{"--rounds", "0"}, exitUsage, "--rounds 0"},
		{"loss", []string{"--loss", "101"}, exitUsage, "--loss 101"},
		{"no flanxd", []string{"--flanxd", "/nonexistent"}, exitFailed, "make build"},
		{"no such workload", []string{"--flanxd", "/bin/true", "--workload", "x"}, exitUsage, `no workload "x"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			exit := run(context.Background(), append([]string{"bench"}, c.args...), &out, &out)
			if exit != c.exit || !strings.Contains(out.String(), c.says) {
				t.Errorf("exit %d, want %d and %q:\n%s", exit, c.exit, c.says, out.String())
			}
		})
	}
}
