// Command counted runs `go test` for a step of CI and summarizes it: a line for each package, and
// the output of failed tests. It fails if fewer tests passed than the file of counts requires for
// the step, so that no test is skipped unnoticed.
//
//	counted -counts .ci/counts -failed FOLDER STEP ARGUMENT…
//	counted -retry FOLDER
//
// The first form runs `go test ARGUMENT…`, where each argument with a dash is a flag, and the
// others are packages. A line of the file of counts has a number and the name of a step. Subtests
// do not count, because their number may depend on the machine.
//
// Tests that fail while much else runs have a second chance: the first form writes them into the
// folder and does not fail. The second form runs them again, each package by itself and one test
// at a time, and fails if one of them fails again. A package that ends without the results of all
// its tests (a panic, a timeout) is run again as a whole. A build that fails, a data race, too few
// tests and too many failures are not the load's fault: with them the first form fails at once.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
)

// mostFailures is the number of failures of a step up to which they have a second chance.
const mostFailures = 10

func main() {
	counts := flag.String("counts", ".ci/counts", "`file` of the least numbers")
	failed := flag.String("failed", "", "`folder` for the tests that failed; without it they have no second chance")
	again := flag.String("retry", "", "run the failed tests of this `folder` again")
	flag.Parse()
	err := errors.New("the arguments are the name of the step and those of go test")
	switch {
	case *again != "" && flag.NArg() == 0:
		err = retry(os.Stdout, *again)
	case *again == "" && flag.NArg() > 1:
		err = first(os.Stdout, *counts, *failed, flag.Arg(0), flag.Args()[1:])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "counted:", err)
		os.Exit(1)
	}
}

// first runs a step, and writes its failed tests into a folder for retry.
func first(out io.Writer, counts, folder, name string, arguments []string) error {
	text, err := os.ReadFile(counts)
	if err != nil {
		return err
	}
	least, err := find(string(text), name)
	if err != nil {
		return fmt.Errorf("%s: %w", counts, err)
	}
	r, err := goTest(out, exec.Command("go", append([]string{"test", "-json"}, arguments...)...))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	fmt.Fprintf(out, "%s: %d tests passed, %d were skipped, %d failed; %d is the least\n", name, len(r.passed), r.skipped, len(r.failed), least)
	whole := slices.ContainsFunc(r.failed, func(f failure) bool { return f.Test == "" })
	switch {
	case r.unbuilt > 0:
		return fmt.Errorf("%s: %d packages do not build", name, r.unbuilt)
	case r.raced:
		return fmt.Errorf("%s: a data race", name)
	case !whole && len(r.passed)+len(r.failed) < least:
		return fmt.Errorf("%s: only %d tests passed, and %s demands %d: something leaves tests out", name, len(r.passed), counts, least)
	case len(r.failed) > 0 && (folder == "" || len(r.failed) > mostFailures):
		return fmt.Errorf("%s: %d tests or packages failed", name, len(r.failed))
	case len(r.failed) > 0:
		return write(folder, attempt{Step: name, Least: least, Passed: len(r.passed), Flags: flags(arguments), Failed: r.failed})
	}
	return nil
}

// find returns the count of a step.
func find(text, name string) (int, error) {
	for line := range strings.Lines(text) {
		if number, of, _ := strings.Cut(strings.TrimSpace(line), " "); strings.TrimSpace(of) == name {
			return strconv.Atoi(number)
		}
	}
	return 0, fmt.Errorf("there is no step %q", name)
}

func flags(arguments []string) (all []string) {
	for _, argument := range arguments {
		if strings.HasPrefix(argument, "-") {
			all = append(all, argument)
		}
	}
	return all
}
