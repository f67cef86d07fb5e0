package version

import (
	"fmt"
	"runtime/debug"
	"strings"
)

// String says what the Go toolchain stamped into the binary: module version or
// commit, whether the tree was changed, and the Go version.
func String() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return describe(info)
}

func describe(info *debug.BuildInfo) string {
	v := info.Main.Version
	if v == "" || v == "(devel)" {
		v = "devel"
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	rev := settings["vcs.revision"]
	rev = rev[:min(12, len(rev))]
	if !strings.Contains(v, rev) { // a pseudo-version says both already
		v += " commit " + rev
		if settings["vcs.modified"] == "true" {
			v += " (modified)"
		}
	}
	return fmt.Sprintf("%s %s %s/%s", v, info.GoVersion, settings["GOOS"], settings["GOARCH"])
}
