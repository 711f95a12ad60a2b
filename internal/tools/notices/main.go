// Command notices writes the notices of third parties: the licenses of the modules that are linked
// into attestd on any system of a release, of Go's standard library, and of what the console is
// shipped with. It fails if one has no license.
//
//	go -C internal/tools run ./notices ../..        writes web/notices.txt
package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// page is the file that is written, below the folder of the source.
const page = "web/notices.txt"

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: notices SOURCE")
		os.Exit(2)
	}
	text, err := notices(os.Args[1])
	if err == nil {
		err = os.WriteFile(filepath.Join(os.Args[1], page), text, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "notices:", err)
		os.Exit(1)
	}
}

// part is third-party software in the program: a module, or a library of the console.
type part struct {
	name     string // of a module with its version
	licenses map[string]bool
}

// notices returns the page for a source.
func notices(source string) ([]byte, error) {
	parts := map[string]*part{}
	for _, system := range []string{"linux", "darwin", "windows"} {
		for _, processor := range []string{"amd64", "arm64"} {
			if err := linked(source, system, processor, parts); err != nil {
				return nil, fmt.Errorf("%s/%s: %w", system, processor, err)
			}
		}
	}
	if err := errors.Join(goLicense(parts), console(filepath.Join(source, "web/console/vendor"), parts)); err != nil {
		return nil, err
	}
	return written(parts)
}

// licenseName matches the names of files that must accompany a copy.
var licenseName = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)([-._].*)?$`)

// isCode matches files that are named like licenses and are code.
var isCode = regexp.MustCompile(`\.(go|s|c|h)$`)

// linked adds the modules that are linked on a system.
func linked(source, system, processor string, parts map[string]*part) error {
	cmd := exec.Command("go", "list", "-deps", "-json=Dir,Module", ".")
	cmd.Dir = source
	cmd.Env = append(os.Environ(), "GOOS="+system, "GOARCH="+processor, "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return err
	}
	for list := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			Dir    string
			Module *struct {
				Path, Version, Dir string
				Main               bool
			}
		}
		if err := list.Decode(&p); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if p.Module == nil || p.Module.Main {
			continue
		}
		// A folder of the module may have a license of its own.
		for folder := p.Dir; ; folder = filepath.Dir(folder) {
			if err := add(parts, p.Module.Path+" "+p.Module.Version, folder, licenseName); err != nil {
				return err
			}
			if folder == p.Module.Dir || len(folder) < len(p.Module.Dir) {
				break
			}
		}
	}
}

// add adds the licenses in a folder to a part.
func add(parts map[string]*part, name, folder string, pattern *regexp.Regexp) error {
	known := parts[name]
	if known == nil {
		known = &part{name, map[string]bool{}}
		parts[name] = known
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.IsDir() || !pattern.MatchString(entry.Name()) || isCode.MatchString(entry.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(folder, entry.Name()))
		if err != nil {
			return err
		}
		known.licenses[normal(string(text))] = true
	}
	return nil
}

// normal returns a license with Unix line ends, without spaces at the ends of lines.
func normal(text string) string {
	var out []string
	for line := range strings.Lines(strings.ReplaceAll(text, "\r", "")) {
		out = append(out, strings.TrimRight(line, " \t\n\f"))
	}
	return strings.Trim(strings.Join(out, "\n"), "\n")
}

// goLicense adds Go's standard library.
func goLicense(parts map[string]*part) error {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return err
	}
	return add(parts, "Go's standard library", strings.TrimSpace(string(root)), licenseName)
}

// console adds the libraries of the console: LICENSE-NAME is the license of the library NAME.
func console(vendor string, parts map[string]*part) error {
	found := 0
	err := filepath.WalkDir(vendor, func(path string, entry fs.DirEntry, err error) error {
		name, is := strings.CutPrefix(filepath.Base(path), "LICENSE-")
		if err != nil || !is {
			return err
		}
		found++
		return add(parts, name+", in the console", filepath.Dir(path),
			regexp.MustCompile("^"+regexp.QuoteMeta(entry.Name())+"$"))
	})
	if err == nil && found == 0 {
		err = fmt.Errorf("%s has no licenses", vendor)
	}
	return err
}

// written returns the page: each license once, below the names of all parts that have it.
func written(parts map[string]*part) ([]byte, error) {
	holders := map[string][]string{}
	for name, p := range parts {
		if len(p.licenses) == 0 {
			return nil, fmt.Errorf("%s has no license", name)
		}
		for text := range p.licenses {
			holders[text] = append(holders[text], name)
		}
	}
	var texts []string
	for text, names := range holders {
		slices.Sort(names)
		texts = append(texts, text)
	}
	slices.SortFunc(texts, func(a, b string) int {
		return cmp.Or(slices.Compare(holders[a], holders[b]), cmp.Compare(a, b))
	})
	var out bytes.Buffer
	out.WriteString("attestd contains the work of others. These are their licenses.\n")
	for _, text := range texts {
		fmt.Fprintf(&out, "\n%s\n%s\n%s\n\n%s\n", strings.Repeat("=", 80), strings.Join(holders[text], "\n"),
			strings.Repeat("-", 80), text)
	}
	return out.Bytes(), nil
}
