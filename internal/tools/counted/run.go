package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// event is an event of cmd/internal/test2json or of a build.
type event struct {
	Action, Package, Test, Output, FailedBuild string
	Elapsed                                    float64
}

// test is a test of a package; its name is "" for the package's own output.
type test struct{ pkg, name string }

// failure is a failed test, or a package that ended without the results of all its tests: there
// Test is "".
type failure struct{ Package, Test string }

func (f failure) String() string { return strings.TrimSpace(f.Package + " " + f.Test) }

// run is the state of a test run. What passed in a package that failed as a whole does not count.
type run struct {
	out              io.Writer
	skipped, unbuilt int
	passed           map[test]bool
	failed           []failure
	output           map[test][]string // output of unfinished tests
}

// goTest runs `go test -json` and reads what it prints. That tests fail is no error.
func goTest(out io.Writer, command *exec.Cmd) (*run, error) {
	command.Stderr = os.Stderr
	printed, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	r := run{out: out, passed: map[test]bool{}, output: map[test][]string{}}
	if err := r.read(printed); err != nil {
		return nil, err
	}
	// go itself fails if tests do
	if err := command.Wait(); err != nil && len(r.failed)+r.unbuilt == 0 {
		return nil, fmt.Errorf("go test: %w", err)
	}
	return &r, nil
}

func (r *run) read(in io.Reader) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			fmt.Fprintln(r.out, lines.Text()) // go itself says why it does not start
			continue
		}
		r.handle(e)
	}
	return lines.Err()
}

func (r *run) handle(e event) {
	of := test{e.Package, e.Test}
	top, _, within := strings.Cut(e.Test, "/")
	switch e.Action {
	case "build-output":
		fmt.Fprint(r.out, e.Output)
		return
	case "output":
		r.output[of] = append(r.output[of], e.Output)
		return
	case "pass", "skip", "fail":
	default:
		return
	}
	lines := r.output[of]
	delete(r.output, of)
	switch {
	case e.Test == "" && e.Action == "fail":
		r.packageFailed(e, lines)
	case e.Test == "" && e.Action == "pass":
		fmt.Fprintf(r.out, "ok   %6.1fs %s\n", e.Elapsed, e.Package)
	case e.Test == "":
	case within && e.Action == "fail": // shown with the test around it
		around := test{e.Package, top}
		r.output[around] = append(r.output[around], lines...)
	case within:
	case e.Action == "pass":
		r.passed[of] = true
	case e.Action == "skip":
		r.skipped++
	default:
		fmt.Fprint(r.out, strings.Join(lines, ""))
		r.failed = append(r.failed, failure{e.Package, e.Test})
	}
}

// packageFailed handles the end of a package. One that has run all its tests prints FAIL on its own
// line; one that panics or is stopped does not, and gives no events of its running tests.
func (r *run) packageFailed(e event, lines []string) {
	inside := func(f failure) bool { return f.Package == e.Package }
	switch {
	case e.FailedBuild != "":
		r.unbuilt++
		fmt.Fprint(r.out, strings.Join(lines, ""))
		return
	case slices.Contains(lines, "FAIL\n") && slices.ContainsFunc(r.failed, inside):
		return
	}
	for under, output := range r.output {
		if under.pkg == e.Package {
			fmt.Fprint(r.out, strings.Join(output, ""))
			delete(r.output, under)
		}
	}
	fmt.Fprint(r.out, strings.Join(lines, ""))
	maps.DeleteFunc(r.passed, func(t test, _ bool) bool { return t.pkg == e.Package })
	r.failed = append(slices.DeleteFunc(r.failed, inside), failure{Package: e.Package})
}
