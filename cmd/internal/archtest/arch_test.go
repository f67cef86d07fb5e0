package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// pkg is what "go list -json" tells of a package.
type pkg struct {
	ImportPath string
	Name       string
	Dir        string
	GoFiles    []string
	CgoFiles   []string
	Imports    []string

	IgnoredGoFiles []string
}

// path is the package's place below the module.
func (p pkg) path() string { return strings.TrimPrefix(p.ImportPath, module) }

// sources are all files but tests, also those of other platforms.
func (p pkg) sources() []string {
	all := slices.Concat(p.GoFiles, p.CgoFiles, p.IgnoredGoFiles)
	return slices.DeleteFunc(all, func(name string) bool { return strings.HasSuffix(name, "_test.go") })
}

// house lists every package of the module, once.
var house = sync.OnceValues(func() ([]pkg, error) { return list("./...") })

func packages(t *testing.T) []pkg {
	t.Helper()
	pkgs, err := house()
	if err != nil {
		t.Fatal(err)
	}
	return pkgs
}

// list runs "go list" in the module's root.
func list(args ...string) ([]pkg, error) {
	gomod, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return nil, fmt.Errorf("find module: %w", err)
	}
	cmd := exec.Command("go", append([]string{"list", "-json"}, args...)...)
	cmd.Dir = filepath.Dir(strings.TrimSpace(string(gomod)))
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list %s: %w: %s", strings.Join(args, " "), err, &complaint)
	}
	var pkgs []pkg
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return pkgs, nil
		} else if err != nil {
			return nil, fmt.Errorf("read go list: %w", err)
		}
		pkgs = append(pkgs, p)
	}
}

// fits matches an import path with a pattern of rules_test.go.
func fits(pattern, path string) bool {
	below, tree := strings.CutSuffix(pattern, "...")
	if !tree {
		return pattern == path
	}
	return strings.HasPrefix(path+"/", below)
}

func anyFits(patterns []string, path string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return fits(p, path) })
}

func TestRooms(t *testing.T) {
	for _, p := range packages(t) {
		i := slices.IndexFunc(rooms, func(r struct {
			room string
			may  []string
		},
		) bool {
			return fits(r.room, p.path())
		})
		if i < 0 {
			t.Errorf("%s has no room: give it a line in rules_test.go", p.path())
			continue
		}
		for _, imp := range p.Imports {
			ours, ok := strings.CutPrefix(imp, module)
			if ok && !anyFits(rooms[i].may, ours) {
				t.Errorf("%s imports %s: room %q may import only %v", p.path(), ours, rooms[i].room, rooms[i].may)
			}
		}
	}
}

func TestLibraries(t *testing.T) {
	for _, p := range packages(t) {
		for _, imp := range p.Imports {
			for _, l := range libraries {
				if !fits(l.library, imp) {
					continue
				}
				if !anyFits(l.may, p.path()) {
					t.Errorf("%s imports %s: %s belongs in %v", p.path(), imp, l.why, l.may)
				}
				break
			}
		}
	}
}

// Unsafe code is looked for by the name of its file.
func TestUnsafeOnlyWhereNamed(t *testing.T) {
	for _, p := range packages(t) {
		if len(p.CgoFiles) > 0 {
			t.Errorf("%s uses cgo in %v: the binaries are static", p.path(), p.CgoFiles)
		}
		for _, name := range p.sources() {
			f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.ImportsOnly)
			if err != nil {
				t.Fatal(err)
			}
			for _, imp := range f.Imports {
				if imp.Path.Value == `"unsafe"` && !strings.HasSuffix(name, "_unsafe.go") {
					t.Errorf("%s/%s imports unsafe: only files named *_unsafe.go may", p.path(), name)
				}
			}
		}
	}
}

func TestPackagesAreDocumented(t *testing.T) {
	for _, p := range packages(t) {
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, "doc.go"), nil, parser.ParseComments)
		if err != nil {
			t.Errorf("%s has no doc.go: %v", p.path(), err)
			continue
		}
		want := "Package " + p.Name + " "
		if p.Name == "main" {
			want = "Command " + filepath.Base(p.Dir) + " "
		}
		if doc := f.Doc.Text(); !strings.HasPrefix(doc, want) || len(doc) < 80 {
			t.Errorf("%s/doc.go: want what it is for, beginning with %q", p.path(), want)
		}
	}
}

func TestPackageNames(t *testing.T) {
	for _, p := range packages(t) {
		if slices.Contains(forbiddenNames, p.Name) || slices.Contains(forbiddenNames, filepath.Base(p.Dir)) {
			t.Errorf("%s: the name says nothing about what is inside", p.path())
		}
	}
}

func TestMainIsShort(t *testing.T) {
	for _, p := range packages(t) {
		if p.Name != "main" {
			continue
		}
		b, err := os.ReadFile(filepath.Join(p.Dir, "main.go"))
		if err != nil {
			t.Error(err)
		}
		if n := bytes.Count(b, []byte("\n")); n > maxMain {
			t.Errorf("%s/main.go has %d lines, want at most %d", p.path(), n, maxMain)
		}
	}
}

func TestDaemonCarriesNoTestParts(t *testing.T) {
	deps, err := list("-deps", "./cmd/flanxd")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range deps {
		if anyFits(notInDaemon, p.ImportPath) {
			t.Errorf("flanxd links %s", p.ImportPath)
		}
	}
}

func TestFits(t *testing.T) {
	tests := []struct {
		pattern, path string
		want          bool
	}{
		{"a", "a", true},
		{"a", "a/b", false},
		{"a", "ab", false},
		{"a/...", "a", true},
		{"a/...", "a/b/c", true},
		{"a/...", "ab", false},
		{"...", "a", true},
	}
	for _, tt := range tests {
		if got := fits(tt.pattern, tt.path); got != tt.want {
			t.Errorf("fits(%q, %q) = %v", tt.pattern, tt.path, got)
		}
	}
}
