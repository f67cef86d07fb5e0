package version

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// String returns the module's version or commit, whether the tree was clean, and
// the Go version: "v1.2.3 (go1.26.8 linux/amd64)".
func String() string {
	return fmt.Sprintf("%s (%s %s/%s)", build(debug.ReadBuildInfo()), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// build names what was built.
func build(info *debug.BuildInfo, ok bool) string {
	if !ok {
		return "unknown"
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	name := info.Main.Version
	if name == "" || name == "(devel)" {
		name = "devel"
	}
	if rev := settings["vcs.revision"]; rev != "" && name == "devel" {
		name += "-" + rev[:min(12, len(rev))]
		if settings["vcs.modified"] == "true" {
			name += "-dirty"
		}
	}
	return name
}
