package version

import (
	"runtime/debug"
	"testing"
)

func TestDescribe(t *testing.T) {
	set := func(kv ...string) (s []debug.BuildSetting) {
		for i := 0; i < len(kv); i += 2 {
			s = append(s, debug.BuildSetting{Key: kv[i], Value: kv[i+1]})
		}
		return s
	}
	tests := []struct {
		name, want string
		info       debug.BuildInfo
	}{
		{"a release", "v1.2.3 commit 0123456789ab go1.26.0 linux/arm64", debug.BuildInfo{
			GoVersion: "go1.26.0", Main: debug.Module{Version: "v1.2.3"},
			Settings: set("vcs.revision", "0123456789abcdef", "GOOS", "linux", "GOARCH", "arm64"),
		}},
		{"a changed tree", "devel commit 0123 (modified) go1.26.0 linux/amd64", debug.BuildInfo{
			GoVersion: "go1.26.0", Main: debug.Module{Version: "(devel)"},
			Settings: set("vcs.revision", "0123", "vcs.modified", "true", "GOOS", "linux", "GOARCH", "amd64"),
		}},
		{"a pseudo-version", "v0.0.0-20261201014622-0123456789ab+dirty go1.26.0 linux/amd64", debug.BuildInfo{
			GoVersion: "go1.26.0", Main: debug.Module{Version: "v0.0.0-20261201014622-0123456789ab+dirty"},
			Settings: set("vcs.revision", "0123456789abcdef", "vcs.modified", "true", "GOOS", "linux", "GOARCH", "amd64"),
		}},
		{"no stamp", "devel go1.26.0 linux/amd64", debug.BuildInfo{
			GoVersion: "go1.26.0", Settings: set("GOOS", "linux", "GOARCH", "amd64"),
		}},
	}
	for _, tt := range tests {
		if got := describe(&tt.info); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}
