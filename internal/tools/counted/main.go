// Command counted summarizes the output of `go test -json`: a line for each package, and the output
// of failed tests. It fails if a test failed, or if fewer tests passed than the file of counts
// requires for the step, so that no test is skipped unnoticed.
//
//	go test -json ./... | counted -counts .ci/counts "go test"
//
// A line of the file has a number and the name of a step. Subtests do not count, because their
// number may depend on the machine.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

func main() {
	counts := flag.String("counts", ".ci/counts", "`file` of the least numbers")
	flag.Parse()
	err := errors.New("one argument is the name of the step")
	if flag.NArg() == 1 {
		err = step(os.Stdin, os.Stdout, *counts, flag.Arg(0))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "counted:", err)
		os.Exit(1)
	}
}

// step reads the output of a test run and compares it with the count of the step.
func step(in io.Reader, out io.Writer, counts, name string) error {
	text, err := os.ReadFile(counts)
	if err != nil {
		return err
	}
	least, err := find(string(text), name)
	if err != nil {
		return fmt.Errorf("%s: %w", counts, err)
	}
	r := run{out: out, said: map[test][]string{}}
	if err := r.read(in); err != nil {
		return err
	}
	fmt.Fprintf(out, "%s: %d tests passed, %d were skipped, %d failed; %d is the least\n", name, r.passed, r.skipped, r.failed, least)
	switch {
	case r.failed > 0 || r.broken > 0:
		return fmt.Errorf("%s: %d tests and %d packages failed", name, r.failed, r.broken)
	case r.passed < least:
		return fmt.Errorf("%s: only %d tests passed, and %s demands %d: something leaves tests out", name, r.passed, counts, least)
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

// event is an event of cmd/internal/test2json or of a build.
type event struct {
	Action, Package, ImportPath, Test, Output string
	Elapsed                                   float64
}

// test is a test of a package; its name is "" for the package's own output.
type test struct{ pkg, name string }

// run is the state of a test run.
type run struct {
	out                             io.Writer
	passed, skipped, failed, broken int
	said                            map[test][]string // output of unfinished tests
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
		r.take(e)
	}
	return lines.Err()
}

func (r *run) take(e event) {
	of := test{e.Package, e.Test}
	top, _, within := strings.Cut(e.Test, "/")
	switch e.Action {
	case "build-output":
		fmt.Fprint(r.out, e.Output)
		return
	case "output":
		r.said[of] = append(r.said[of], e.Output)
		return
	case "pass", "skip", "fail":
	default:
		return
	}
	said := r.said[of]
	delete(r.said, of)
	switch {
	case e.Test == "" && e.Action == "fail":
		r.broken++
		// a package that panics or is stopped ends without events for its running tests
		for under, output := range r.said {
			if under.pkg == e.Package {
				fmt.Fprint(r.out, strings.Join(output, ""))
				delete(r.said, under)
			}
		}
		fmt.Fprint(r.out, strings.Join(said, ""))
	case e.Test == "" && e.Action == "pass":
		fmt.Fprintf(r.out, "ok   %6.1fs %s\n", e.Elapsed, e.Package)
	case e.Test == "":
	case within && e.Action == "fail": // shown with the test around it
		around := test{e.Package, top}
		r.said[around] = append(r.said[around], said...)
	case within:
	case e.Action == "pass":
		r.passed++
	case e.Action == "skip":
		r.skipped++
	default:
		r.failed++
		fmt.Fprint(r.out, strings.Join(said, ""))
	}
}
