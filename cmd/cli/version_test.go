package cli

import (
	"runtime/debug"
	"strings"
	"testing"
)

// A release has its version; another build is named by its commit, where the Go command knows it.
func TestVersionComesFromTheBuild(t *testing.T) {
	t.Parallel()
	stamped := func(version string) *debug.BuildInfo {
		return &debug.BuildInfo{Main: debug.Module{Version: version}}
	}
	for _, c := range []struct {
		release string
		info    *debug.BuildInfo
		want    string
	}{
		{"1.4.0", stamped("v0.0.0-20261123120000-0123456789ab"), "1.4.0"},
		{"v1.4.0", nil, "1.4.0"},
		{"", stamped("v1.3.1-0.20261123120000-0123456789ab+dirty"), "1.3.1-0.20261123120000-0123456789ab+dirty"},
		{"", stamped("v1.4.0"), "1.4.0"},
		{"", stamped("(devel)"), "devel"},
		{"", stamped(""), "devel"},
		{"", nil, "devel"},
	} {
		if got := VersionOf(c.release, c.info); got != c.want {
			t.Errorf("release %q, build %v: version %q, want %q", c.release, c.info, got, c.want)
		}
	}
}

// version --build names the commit, and says when the source had changes that no commit has.
func TestVersionNamesCommitAndChanges(t *testing.T) {
	t.Parallel()
	info := debug.BuildInfo{GoVersion: "go1.26.4", Settings: []debug.BuildSetting{{Key: "GOOS", Value: "linux"},
		{Key: "GOARCH", Value: "arm64"}, {Key: "vcs.revision", Value: "0123abcd"}, {Key: "vcs.time", Value: "2026-11-23T12:00:00Z"},
		{Key: "vcs.modified", Value: "true"}}}
	var out strings.Builder
	printBuild(&out, &info)
	want := "commit    0123abcd, with changes\ncommitted 2026-11-23T12:00:00Z\ncompiler  go1.26.4\nsystem    linux/arm64\n"
	if out.String() != want {
		t.Errorf("printed\n%swant\n%s", out.String(), want)
	}
	info.Settings = info.Settings[:2]
	out.Reset()
	printBuild(&out, &info)
	if !strings.HasPrefix(out.String(), "commit    not recorded\ncommitted not recorded\n") {
		t.Errorf("without a commit it printed\n%s", out.String())
	}
}
