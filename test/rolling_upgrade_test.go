package test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"attestd/internal/harness"
	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store/storetest"
)

// Servers of one version and one set of settings are replaced by those of another, one at a time
// and under load, as packaging/kubernetes/many.yaml has it. Every acknowledged record is there and
// exported once, all logs and lines verify, and companies that registered at any time at any server
// can be changed at each one.
func TestRollingUpgradeUnderLoad(t *testing.T) {
	testenv.Needs(t, testenv.Slow, testenv.Plain)
	t.Parallel()
	current, err := binary(t)
	must.OK(t, err)
	root, err := harness.Root(t.Context())
	must.OK(t, err)
	dir := t.TempDir()
	former := filepath.Join(dir, "former")
	must.OK(t, harness.BuildRelease(t.Context(), root, former, "1.9.0"))
	manifest, err := os.ReadFile("../packaging/kubernetes/many.yaml")
	must.OK(t, err)
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
	must.OK(t, err)
	if done.Companies < 5 || done.Records < 500 || done.Exported < done.Records {
		t.Errorf("%+v", done)
	}
	t.Logf("%+v", done)
}

// lastOfSchema is, for each schema, the commit after the last one whose programs make it. Schema 15
// was never one that a program made.
var lastOfSchema = map[string]string{
	"14": "06330b68", "16": "119137a3", "17": "e14d065c", "18": "f26dc93e", "19": "85f4fb86", "20": "e7725d70",
}

// The same holds from the last version of each earlier schema, which is built from the history.
func TestRollingUpgradeFromEarlierSchemas(t *testing.T) {
	testenv.Needs(t, testenv.Hours, testenv.Plain, testenv.NotRaced, testenv.Git)
	current, err := binary(t)
	must.OK(t, err)
	root, err := harness.Root(t.Context())
	must.OK(t, err)
	for schema, after := range lastOfSchema {
		t.Run("schema "+schema, func(t *testing.T) {
			dir := t.TempDir()
			source, former := filepath.Join(dir, "source"), filepath.Join(dir, "former")
			must.OK(t, os.Mkdir(source, 0o700))
			unpack := exec.Command("sh", "-c", `git -C "$0" archive "$1" | tar -x -C "$2"`, root, after+"^", source)
			if out, err := unpack.CombinedOutput(); err != nil || len(out) > 0 {
				t.Fatalf("this needs the whole history: %v: %s", err, out)
			}
			must.OK(t, harness.BuildRelease(t.Context(), source, former, "1.0.0"))
			done, err := harness.Rolling{Old: former, New: current, URL: storetest.Shared(t), Each: 400,
				OldFlags: []string{"--allowed-origins", "https://former.example"},
				NewFlags: []string{"--allowed-origins", "https://current.example", "--trusted-proxies", "192.0.2.0/24", "--keep-passports", "48h"},
				Say:      t.Logf}.Run(t.Context(), dir)
			must.OK(t, err)
			t.Logf("%+v", done)
		})
	}
}
