package version

import (
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
)

func TestBuild(t *testing.T) {
	info := func(version string, settings ...debug.BuildSetting) *debug.BuildInfo {
		return &debug.BuildInfo{Main: debug.Module{Version: version}, Settings: settings}
	}
	rev := debug.BuildSetting{Key: "vcs.revision", Value: "0123456789abcdef0123"}
	dirty := debug.BuildSetting{Key: "vcs.modified", Value: "true"}
	clean := debug.BuildSetting{Key: "vcs.modified", Value: "false"}
	tests := []struct {
		name string
		info *debug.BuildInfo
		ok   bool
		want string
	}{
		{"released", info("v1.2.3", rev, clean), true, "v1.2.3"},
		{"between releases", info("v1.2.4-0.20261201000000-0123456789ab+dirty", rev, dirty), true, "v1.2.4-0.20261201000000-0123456789ab+dirty"},
		{"commit", info("(devel)", rev, clean), true, "devel-0123456789ab"},
		{"changed", info("", rev, dirty), true, "devel-0123456789ab-dirty"},
		{"short revision", info("", debug.BuildSetting{Key: "vcs.revision", Value: "01"}), true, "devel-01"},
		{"without version control", info("(devel)"), true, "devel"},
		{"nothing known", nil, false, "unknown"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := build(test.info, test.ok); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
	if s := String(); !strings.Contains(s, runtime.Version()) || !strings.Contains(s, runtime.GOARCH) {
		t.Errorf("version %q", s)
	}
}
