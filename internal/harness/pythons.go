package harness

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Python is an interpreter that the Python client supports. It may lack the package cryptography.
type Python struct {
	Name    string // such as python3.14
	Program string
}

const (
	// names folders like pyenv's: each has folders with a bin/python3
	pythonsIn = "ATTESTD_TEST_PYTHONS"
	oldest    = 9  // oldest supported minor version of Python 3
	newest    = 14 // minor version in CI
)

// Pythons returns the installed Pythons from 3.9 on, one of each minor version: those in PATH
// first, then those in the folders of the environment variable. In CI a missing newest one is an
// error.
func Pythons(ctx context.Context) (all []Python, err error) {
	var candidates []string
	for minor := oldest; minor < 30; minor++ {
		candidates = append(candidates, fmt.Sprint("python3.", minor))
	}
	for _, folder := range filepath.SplitList(os.Getenv(pythonsIn)) {
		found, err := filepath.Glob(filepath.Join(folder, "*", "bin", "python3"))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", pythonsIn, err)
		}
		candidates = append(candidates, found...)
	}
	minors := []int{0}
	for _, program := range candidates {
		// A shim of pyenv is in PATH even if its version is not selected. Then it fails.
		out, err := exec.CommandContext(ctx, program, "-c", "import sys; print(sys.version_info[1])").Output()
		minor, _ := strconv.Atoi(strings.TrimSpace(string(out)))
		if err != nil || minor < oldest || slices.Contains(minors, minor) {
			continue
		}
		minors = append(minors, minor)
		all = append(all, Python{fmt.Sprint("python3.", minor), program})
	}
	if os.Getenv("CI") == "true" && slices.Max(minors) < newest {
		return nil, fmt.Errorf("in CI there is a Python 3.%d: go -C internal/tools/python run . FOLDER/newest, and %s=FOLDER", newest, pythonsIn)
	}
	return all, nil
}
