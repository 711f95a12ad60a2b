package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// attempt is a step whose failed tests have a second chance.
type attempt struct {
	Step               string
	Folder             string   // the working directory
	Environment, Flags []string // of go test
	Least, Passed      int
	Failed             []failure
}

// write puts an attempt of this working directory and environment into a folder.
func write(folder string, a attempt) error {
	var err error
	if a.Folder, err = os.Getwd(); err != nil {
		return err
	}
	a.Environment = os.Environ()
	content, err := json.Marshal(a)
	if err != nil {
		return err
	}
	file, err := os.CreateTemp(folder, "*.json") // its owner's alone: the environment may be secret
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	return errors.Join(err, file.Close())
}

// retry runs again what failed in the steps of a folder, and fails if anything fails again.
func retry(out io.Writer, folder string) error {
	files, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil {
		return err
	}
	var failed []error
	for _, name := range files {
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		var a attempt
		if err := json.Unmarshal(content, &a); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		failed = append(failed, a.retry(out))
	}
	return errors.Join(failed...)
}

// retry runs each package of an attempt by itself: the tests that failed, or the whole package.
func (a attempt) retry(out io.Writer) error {
	byPackage := map[string][]failure{}
	for _, f := range a.Failed {
		byPackage[f.Package] = append(byPackage[f.Package], f)
	}
	var twice []string
	for _, pkg := range slices.Sorted(maps.Keys(byPackage)) {
		failures := byPackage[pkg]
		arguments := slices.Concat([]string{"test", pkg}, a.Flags, []string{"-json", "-count=1"})
		whole := failures[0].Test == ""
		if !whole {
			var names []string
			for _, f := range failures {
				names = append(names, f.Test)
			}
			arguments = append(arguments, "-parallel=1", "-run=^("+strings.Join(names, "|")+")$")
		}
		command := exec.Command("go", arguments...)
		command.Dir, command.Env = a.Folder, a.Environment
		r, err := goTest(out, command)
		if err != nil {
			return fmt.Errorf("%s: %w", a.Step, err)
		}
		a.Passed += len(r.passed)
		for _, f := range failures {
			// a test that is skipped now has not passed
			if r.passed[test{pkg, f.Test}] || whole && len(r.failed)+r.unbuilt == 0 {
				fmt.Fprintf(out, "passed only by itself: %s; its first failure was:\n%s", f, f.Output)
			} else {
				twice = append(twice, f.String())
			}
		}
	}
	switch {
	case len(twice) > 0:
		return fmt.Errorf("%s: failed twice: %s", a.Step, strings.Join(twice, ", "))
	case a.Passed < a.Least:
		return fmt.Errorf("%s: only %d tests passed, and %d are demanded", a.Step, a.Passed, a.Least)
	}
	return nil
}
