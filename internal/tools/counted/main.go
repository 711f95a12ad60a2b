// Command counted runs `go test` for a step of CI and summarizes it: a line for each package, and
// the output of failed tests. It fails if fewer tests passed than the file of counts requires for
// the step, so that no test is skipped unnoticed.
//
//	counted -counts .ci/counts STEP ARGUMENT…
//
// It runs `go test ARGUMENT…`. A line of the file of counts has a number and the name of a step.
// Subtests do not count, because their number may depend on the machine.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

func main() {
	counts := flag.String("counts", ".ci/counts", "`file` of the least numbers")
	flag.Parse()
	err := errors.New("the arguments are the name of the step and those of go test")
	if flag.NArg() > 1 {
		err = step(os.Stdout, *counts, flag.Arg(0), flag.Args()[1:])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "counted:", err)
		os.Exit(1)
	}
}

// step runs a step.
func step(out io.Writer, counts, name string, arguments []string) error {
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
	switch {
	case r.unbuilt > 0:
		return fmt.Errorf("%s: %d packages do not build", name, r.unbuilt)
	case len(r.failed) > 0:
		return fmt.Errorf("%s: %d tests or packages failed: %v", name, len(r.failed), r.failed)
	case len(r.passed) < least:
		return fmt.Errorf("%s: only %d tests passed, and %s demands %d: something leaves tests out", name, len(r.passed), counts, least)
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
