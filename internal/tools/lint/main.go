// Lint checks widths: comments have at most 100 columns, preformatted Go comments and Markdown
// prose 120, and README.md at most 190 lines. A tab has four columns. It checks the tracked files
// below a folder, that no package of the folder's module is a hall whose files all use one another,
// and that the console's tables have no members but their own. It exits with 1 on findings.
//
//	go -C internal/tools run ./lint ../..
package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: lint FOLDER")
		os.Exit(2)
	}
	findings, err := check(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	for _, f := range findings {
		fmt.Println(f)
	}
	if len(findings) > 0 {
		os.Exit(1)
	}
}

// finding is a line that is too wide, or a page that is too long.
type finding struct {
	file string
	line int
	what string
}

func (f finding) String() string { return fmt.Sprintf("%s:%d: %s", f.file, f.line, f.what) }

// exempt lists generated and third-party files, and folders whose comments are not wrapped yet.
var exempt = []string{
	"sdk/python/attestd/__init__.pyi",                    // generated
	"web/console/", "web/console_test/", "web/verifier/", // not wrapped yet
}

func isExempt(file string) bool {
	for _, prefix := range exempt {
		if strings.HasPrefix(file, prefix) {
			return true
		}
	}
	return strings.Contains("/"+file, "/testdata/")
}

// check checks all tracked files below a folder.
func check(folder string) (findings []finding, err error) {
	out, err := exec.Command("git", "-C", folder, "ls-files", "-z", "--cached", "--others", "--exclude-standard").Output()
	if err != nil {
		return nil, fmt.Errorf("git ls-files: %w", err)
	}
	for _, file := range strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		if isExempt(file) || kindOf(file) == nil {
			continue
		}
		text, err := os.ReadFile(filepath.Join(folder, filepath.FromSlash(file)))
		if os.IsNotExist(err) {
			continue // deleted but not yet in git
		}
		if err != nil {
			return nil, err
		}
		for _, f := range kindOf(file)(text) {
			f.file = file
			findings = append(findings, f)
		}
	}
	halls, err := circles(folder)
	if err != nil {
		return nil, err
	}
	objects, err := tables(folder)
	return append(append(findings, halls...), objects...), err
}

// kindOf returns the check for a file, or nil.
func kindOf(file string) func(text []byte) []finding {
	switch path.Ext(file) {
	case ".go":
		return goComments
	case ".js", ".mjs", ".ts", ".css":
		return slashComments
	case ".py", ".pyi", ".sh", ".yml", ".toml":
		return markedComments("#")
	case ".sql":
		return sqlComments
	case ".md":
		if file == "README.md" {
			return readme
		}
		return markdown
	}
	if file == ".ci/run" {
		return markedComments("#")
	}
	return nil
}

const (
	maxComment      = 100
	maxPreformatted = 120
	maxProse        = 120
	maxReadme       = 190
	tabWidth        = 4
)

// width returns the number of columns of a line.
func width(line string) (columns int) {
	for _, r := range line {
		if r == '\t' {
			columns += tabWidth - columns%tabWidth
			continue
		}
		columns++
	}
	return columns
}

// tooWide returns a finding if a line is too wide.
func tooWide(number int, line string, most int, what string) []finding {
	if n := width(line); n > most {
		return []finding{{line: number, what: fmt.Sprintf("%s of %d columns, at most %d", what, n, most)}}
	}
	return nil
}

func lines(text []byte) []string {
	return strings.Split(string(bytes.TrimSuffix(text, []byte("\n"))), "\n")
}
