package test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"attestd/internal/harness"
	"attestd/internal/testenv"
	"attestd/store/storetest"
)

// Servers of one version and one set of settings are replaced by those of another, one at a time
// and under load, as packaging/kubernetes/many.yaml has it. Every acknowledged record is there and
// exported once, all logs and lines verify, and companies that registered at any time at any server
// can be changed at each one. The command ./rolling of the tools does the same from the versions of
// earlier schemas.
func TestRollingUpgradeUnderLoad(t *testing.T) {
	testenv.Needs(t, testenv.Slow, testenv.Plain)
	t.Parallel()
	current, err := binary(t)
	must(t, err)
	root, err := harness.Root(t.Context())
	must(t, err)
	dir := t.TempDir()
	former := filepath.Join(dir, "former")
	must(t, harness.BuildRelease(t.Context(), root, former, "1.9.0"))
	manifest, err := os.ReadFile("../packaging/kubernetes/many.yaml")
	must(t, err)
	var flags []string // of the manifest's servers, but for what places and registers them
	for line := range strings.Lines(string(manifest)) {
		flag, is := strings.CutPrefix(strings.TrimSpace(line), "- --")
		if name, _, _ := strings.Cut(flag, "="); is && slices.Contains([]string{"trusted-proxies", "stream", "no-recover-endpoint"}, name) {
			flags = append(flags, "--"+flag)
		}
	}
	if len(flags) != 3 {
		t.Fatalf("the manifest has changed: %q", flags)
	}
	done, err := harness.Rolling{Old: former, New: current, URL: storetest.Shared(t), Each: 60,
		OldFlags: flags,
		NewFlags: []string{"--trusted-proxies", "192.0.2.0/24", "--allowed-origins", "https://other.example", "--keep-passports", "48h"},
		Say:      t.Logf}.Run(t.Context(), dir)
	must(t, err)
	if done.Companies < 5 || done.Records < 500 || done.Exported < done.Records {
		t.Errorf("%+v", done)
	}
	t.Logf("%+v", done)
}
