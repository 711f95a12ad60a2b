package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// source returns a checkout with a small program and what a release takes from a source.
func source(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module attestd\n\ngo 1.26\n")
	write("main.go", "package main\n\nvar release string\n\nfunc main() { println(release) }\n")
	write("cmd/attestd-agent/main.go", "package main\n\nvar release string\n\nfunc main() { println(release) }\n")
	write("cmd/manuals/main.go", `package main

import "os"

func main() {
	os.MkdirAll(os.Args[1]+"/man", 0o755)
	os.WriteFile(os.Args[1]+"/man/attestd.1", []byte(os.Args[2]), 0o644)
}
`)
	write(".gitignore", "/dist\n")
	for _, name := range []string{"README.md", "CHANGELOG.md", "web/notices.txt"} {
		write(name, "text of "+name+"\n")
	}
	for _, copied := range []string{"packaging", "docs/monitoring"} {
		if err := os.CopyFS(filepath.Join(folder, copied), os.DirFS(filepath.Join("../../..", copied))); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"-c", "user.name=a", "-c", "user.email=a@localhost", "commit", "-qm", "one"}} {
		cmd := exec.Command("git", args...)
		cmd.Dir = folder
		// the same commit in each folder
		cmd.Env = append(os.Environ(), "GIT_AUTHOR_DATE=1767225600 +0000", "GIT_COMMITTER_DATE=1767225600 +0000")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	return folder
}

// made returns the sum of each file of a release.
func made(t *testing.T, r release, systems ...string) map[string]string {
	t.Helper()
	if err := r.make(systems); err != nil {
		t.Fatal(err)
	}
	sums := map[string]string{}
	err := filepath.WalkDir(r.out, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(r.out, path)
		sums[name] = fmt.Sprintf("%x", sha256.Sum256(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return sums
}

// The same commit makes the same files, byte for byte, from two folders with other modes and times.
func TestReleaseIsReproducible(t *testing.T) {
	t.Parallel()
	systems := []string{"linux/" + runtime.GOARCH, "windows/amd64"}
	one, two := source(t), source(t)
	long := time.Now().Add(-1000 * time.Hour)
	if err := os.Chtimes(filepath.Join(two, "main.go"), long, long); err != nil {
		t.Fatal(err)
	}
	a := made(t, release{source: one, version: "v1.4.0"}, systems...)
	b := made(t, release{source: two, version: "1.4.0", out: t.TempDir()}, systems...)
	for name, sum := range a {
		if b[name] != sum {
			t.Errorf("%s differs", name)
		}
	}
	if len(a) != len(b) || len(a) != 14 {
		t.Errorf("files %v and %v", a, b)
	}
	if entries, err := os.ReadDir(filepath.Join(one, "dist/bin/data")); err != nil || len(entries) > 0 {
		t.Errorf("the folder of an image's volume: %v, %v", entries, err)
	}
	check := exec.Command("sha256sum", "--check", "--strict", "SHA256SUMS")
	check.Dir = filepath.Join(one, "dist")
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("sha256sum: %v\n%s", err, out)
	}
	// what runs is the release that it says
	for _, name := range []string{"attestd", "attestd-agent"} {
		program := exec.Command(filepath.Join(one, "dist/bin/linux-"+runtime.GOARCH, name))
		if out, _ := program.CombinedOutput(); runtime.GOOS == "linux" && string(out) != "1.4.0\n" {
			t.Errorf("the program %s is of release %q", name, out)
		}
	}
	for archive, want := range map[string]string{"attestd-1.4.0": "attestd attestd-agent", "attestd-agent-1.4.0": "attestd-agent"} {
		archive += "-linux-" + runtime.GOARCH
		out, err := exec.Command("tar", "-tzf", filepath.Join(one, "dist", archive+".tar.gz")).Output()
		var programs []string
		for _, name := range strings.Fields(string(out)) {
			if base := strings.TrimPrefix(name, archive+"/"); strings.HasPrefix(base, "attestd") {
				programs = append(programs, base)
			}
		}
		if strings.Join(programs, " ") != want || err != nil {
			t.Errorf("%s has the programs %q, want %s: %v", archive, programs, want, err)
		}
	}
	var list componentList
	text, err := os.ReadFile(filepath.Join(one, "dist/attestd-1.4.0-windows-amd64.cdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	program1, err := os.ReadFile(filepath.Join(one, "dist/bin/windows-amd64/attestd.exe"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &list); err != nil || list.Metadata.Component.Hashes[0].Content != fmt.Sprintf("%x", sha256.Sum256(program1)) ||
		!bytes.Contains(text, []byte(`"pkg:golang/std@`)) {
		t.Errorf("the list of components is %s, %v", text, err)
	}
}

// A release is made of a commit: changes, files and tags that it does not have are no part of it.
// Without a version, the files are named after the commit.
func TestReleaseIsOfTheCommitAlone(t *testing.T) {
	t.Parallel()
	folder := source(t)
	want := made(t, release{source: folder, out: t.TempDir()}, "linux/arm64")
	named := false
	for name := range want {
		named = named || strings.HasPrefix(name, "attestd-0.0.0-20260101000000-") && strings.HasSuffix(name, "-linux-arm64.tar.gz")
	}
	if !named {
		t.Errorf("no file is named after the commit: %v", want)
	}
	if err := os.WriteFile(filepath.Join(folder, "main.go"), []byte("package main\n\nfunc main() {}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "more.go"), []byte("package other\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := git(folder, "tag", "v9.0.0"); err != nil {
		t.Fatal(err)
	}
	if got := made(t, release{source: folder, out: t.TempDir()}, "linux/arm64"); !maps.Equal(got, want) {
		t.Errorf("changes became part of the release: %v, want %v", got, want)
	}
}

// A version reaches file names and the linker's command line, so that anything else is refused.
func TestReleaseRefusesStrangeVersions(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"1.4", "1.4.0 -X main.schema=", "../1.4.0", "1.4.0_1", "latest"} {
		r := release{source: t.TempDir(), version: version}
		if err := r.make([]string{"linux/amd64"}); err == nil || !strings.Contains(err.Error(), "is no version") {
			t.Errorf("%q: %v", version, err)
		}
	}
	if got := debianVersion("1.4.0-rc.1"); got != "1.4.0~rc.1" {
		t.Errorf("a release candidate is %s in Debian's order, which is after the release", got)
	}
}
