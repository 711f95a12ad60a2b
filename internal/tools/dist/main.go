// Command dist makes the files of a release: for each system an archive with the programs, their
// man pages and completions, another with the program for the machine of an agent alone, and a list
// of what each program is made of (CycloneDX); Debian packages; and SHA256SUMS. The same commit
// makes the same bytes in any folder, at any time, with the same version of Go.
//
//	go -C internal/tools run ./dist [-version 1.4.0] [-out FOLDER] [-systems linux/amd64,…] SOURCE
//
// A release is made of the commit that is checked out in the source, whose time all files have.
// Without -version it is named after the commit.
package main

import (
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// allSystems are the systems that releases are for.
const allSystems = "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64,windows/arm64"

// semver matches the versions of releases (https://semver.org), without build metadata.
var semver = regexp.MustCompile(`^\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$`)

// release is one run of the command.
type release struct {
	source, out string // source is the clean checkout, once it is made
	version     string // without "v"
	time        time.Time
	files       []string // names of the files of the release, below out
}

func main() {
	var r release
	flag.StringVar(&r.version, "version", "", "`version` of the release")
	flag.StringVar(&r.out, "out", "", "`folder` to write (default: dist in the folder of the source)")
	systems := flag.String("systems", allSystems, "`systems` to build for")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: dist [-version VERSION] [-out FOLDER] [-systems SYSTEM,…] SOURCE")
		os.Exit(2)
	}
	r.source = flag.Arg(0)
	if err := r.make(strings.Split(*systems, ",")); err != nil {
		fmt.Fprintln(os.Stderr, "dist:", err)
		os.Exit(1)
	}
}

func (r *release) make(systems []string) error {
	if r.version = strings.TrimPrefix(r.version, "v"); r.version != "" && !semver.MatchString(r.version) {
		return fmt.Errorf("%q is no version like 1.4.0 or 1.4.0-rc.1", r.version)
	}
	folder, err := filepath.Abs(r.source)
	if err != nil {
		return err
	}
	if r.out == "" {
		r.out = filepath.Join(folder, "dist")
	}
	if r.out, err = filepath.Abs(r.out); err != nil {
		return err
	}
	checkout, err := os.MkdirTemp("", "attestd-dist-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(checkout)
	if err := r.checkout(folder, checkout); err != nil {
		return err
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	pages, err := r.manuals()
	if err != nil {
		return err
	}
	for _, system := range systems {
		if err := r.system(system, pages); err != nil {
			return fmt.Errorf("%s: %w", system, err)
		}
	}
	return r.sums()
}

// checkout makes the source a clean checkout of the commit: neither changes and files that no
// commit has nor tags that another checkout may lack become part of a release.
func (r *release) checkout(from, to string) error {
	if _, err := git(from, "clone", "--quiet", "--shared", "--no-tags", from, to); err != nil {
		return err
	}
	commit, err := git(to, "log", "-1", "--format=%ct %H")
	if err != nil {
		return err
	}
	seconds, hash, _ := strings.Cut(commit, " ")
	unix, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return err
	}
	r.source, r.time = to, time.Unix(unix, 0).UTC()
	if r.version == "" {
		// as Go names a commit without a release
		r.version = "0.0.0-" + r.time.Format("20060102150405") + "-" + hash[:12]
	}
	fmt.Fprintf(os.Stderr, "attestd %s, of commit %s\n", r.version, hash)
	return nil
}

// system makes the files of one system.
func (r *release) system(system string, pages []file) error {
	goos, goarch, ok := strings.Cut(system, "/")
	if !ok {
		return errors.New("a system is named like linux/amd64")
	}
	var built []program
	for _, p := range programs {
		program, err := r.build(p.name, p.source, goos, goarch)
		if err != nil {
			return err
		}
		built = append(built, program)
	}
	whole, small := built[0], built[1]
	err := errors.Join(
		r.archive(whole, append([]file{whole.file(), small.file()}, pages...)),
		r.archive(small, []file{small.file()}))
	if err != nil || goos != "linux" {
		return err
	}
	debian, err := r.debian(whole, small, pages)
	if err != nil {
		return err
	}
	return r.write(fmt.Sprintf("attestd_%s_%s.deb", debianVersion(r.version), goarch), debian)
}

// archive makes the archive that is named after a program, and the list of its components.
func (r *release) archive(p program, contents []file) error {
	for _, name := range []string{"README.md", "CHANGELOG.md", "web/notices.txt"} {
		text, err := os.ReadFile(filepath.Join(r.source, name))
		if err != nil {
			return err
		}
		contents = append(contents, file{name: filepath.Base(name), text: text, mode: 0o644})
	}
	name := fmt.Sprintf("%s-%s-%s-%s", p.name, r.version, p.goos, p.goarch)
	pack, ending := tarball, ".tar.gz"
	if p.goos == "windows" {
		pack, ending = zipped, ".zip"
	}
	archive, err := pack(under(name, contents), r.time)
	if err != nil {
		return err
	}
	components, err := p.components(r.version, r.time)
	if err != nil {
		return err
	}
	return errors.Join(r.write(name+ending, archive), r.write(name+".cdx.json", components))
}

// write adds a file to the release.
func (r *release) write(name string, text []byte) error {
	r.files = append(r.files, name)
	return os.WriteFile(filepath.Join(r.out, name), text, 0o644)
}

// sums writes SHA256SUMS in the form of sha256sum.
func (r *release) sums() error {
	slices.Sort(r.files)
	var lines strings.Builder
	for _, name := range r.files {
		text, err := os.ReadFile(filepath.Join(r.out, name))
		if err != nil {
			return err
		}
		fmt.Fprintf(&lines, "%x  %s\n", sha256.Sum256(text), name)
	}
	return os.WriteFile(filepath.Join(r.out, "SHA256SUMS"), []byte(lines.String()), 0o644)
}

func git(folder string, args ...string) (string, error) {
	cmd := exec.Command("git", append([]string{"-C", folder}, args...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}
