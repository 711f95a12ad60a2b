package harness

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/dustin/go-humanize"
	"golang.org/x/term"
)

// Case is one attack.
type Case struct {
	Name  string
	About string
	// an error means that the attack could not be carried out
	Run func(context.Context, *Run) error
}

// Run is one case in progress.
type Run struct {
	Lab    *Lab
	Short  bool
	Chance *rand.Rand // seeded; only for the goroutine of the case

	name   string
	screen io.Writer // for progress; nil without a terminal

	mu       sync.Mutex
	shown    time.Time
	counts   []count
	text     string
	failures []string
	more     int // failures beyond maxFailures
}

type count struct {
	what string
	n    int64
}

// maxFailures bounds the listed failures of a case.
const maxFailures = 40

// Count adds a figure to the summary.
func (r *Run) Count(n int, what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts = append(r.counts, count{what, int64(n)})
}

// Failf reports a failure.
func (r *Run) Failf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.failures) == maxFailures {
		r.more++
		return
	}
	// one line
	r.failures = append(r.failures, strings.Join(strings.Fields(fmt.Sprintf(format, args...)), " "))
}

// Print adds a text below the summary.
func (r *Run) Print(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.text = text
}

// Step shows the progress of the case on a terminal.
func (r *Run) Step(done, total int, what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.screen == nil || time.Since(r.shown) < 100*time.Millisecond {
		return
	}
	r.shown = time.Now()
	fmt.Fprintf(r.screen, "%s%s: %d/%d %s", clearLine, r.name, done, total, what)
}

// outcome is the printed result of a case.
type outcome struct {
	Attack   string           `json:"attack"`
	Held     bool             `json:"held"`
	Seconds  float64          `json:"seconds"`
	Counts   map[string]int64 `json:"counts"`
	Text     string           `json:"text,omitempty"`
	Failures []string         `json:"failures,omitempty"`
}

// Options has the common flags of the tools.
type Options struct {
	Short, Long, JSON bool
	Only              string
	Seed              uint64
}

// Flags defines the common flags. A command may add its own before Main parses them.
func Flags(name, about string, cases []Case) (*flag.FlagSet, *Options) {
	o := new(Options)
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.BoolVar(&o.Short, "short", false, "the form for CI")
	flags.BoolVar(&o.Long, "long", false, "the whole form (this is the default)")
	flags.BoolVar(&o.JSON, "json", false, "print one JSON object for each attack")
	flags.StringVar(&o.Only, "only", "", "run only these `names`, separated by commas")
	flags.Uint64Var(&o.Seed, "seed", uint64(time.Now().UnixNano()), "`number` that chance follows")
	flags.Usage = func() {
		fmt.Fprintf(flags.Output(), "%s\n\nUsage: go -C internal/tools run ./%s [flags]\n\nFlags:\n", about, name)
		flags.PrintDefaults()
		fmt.Fprintln(flags.Output(), "\nAttacks:")
		for _, c := range cases {
			fmt.Fprintf(flags.Output(), "  %-15s %s\n", c.Name, c.About)
		}
		fmt.Fprintln(flags.Output(), "\nExit status: 0 when all held, 1 when one did not or could not be carried out, 2 for a mistake of usage.")
	}
	return flags, o
}

// Main runs the selected cases and returns the exit status.
func Main(flags *flag.FlagSet, o *Options, cases []Case) int {
	switch err := flags.Parse(os.Args[1:]); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	}
	chosen, err := choose(cases, o.Only)
	if err != nil || flags.NArg() > 0 || o.Short && o.Long {
		fmt.Fprintf(os.Stderr, "%s: there are no arguments, --only takes the names that --help lists, and a run is either short or long\n", flags.Name())
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	screen := terminal()
	if screen != nil {
		fmt.Fprint(screen, "building attestd")
	}
	lab, err := NewLab(ctx)
	if screen != nil {
		fmt.Fprint(screen, clearLine)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, flags.Name()+":", err)
		return 1
	}
	defer lab.Close()
	var failed []string
	for _, c := range chosen {
		r := &Run{Lab: lab, Short: o.Short, Chance: rand.New(rand.NewPCG(o.Seed, 0)), name: c.Name, screen: screen}
		result := r.carryOut(ctx, c)
		if !result.Held {
			failed = append(failed, c.Name)
		}
		if o.JSON {
			// a write error means that the reader has closed the pipe
			_ = json.NewEncoder(os.Stdout).Encode(result)
		} else {
			r.print(result)
		}
		if ctx.Err() != nil {
			return 1
		}
	}
	if len(failed) > 0 {
		fmt.Fprintf(os.Stderr, "%s: not all held; repeat with --seed %d --only %s\n", flags.Name(), o.Seed,
			strings.Join(failed, ","))
		return 1
	}
	return 0
}

func choose(cases []Case, only string) ([]Case, error) {
	if only == "" {
		return cases, nil
	}
	var chosen []Case
	for name := range strings.SplitSeq(only, ",") {
		at := slices.IndexFunc(cases, func(c Case) bool { return c.Name == name })
		if at < 0 {
			return nil, fmt.Errorf("no attack has the name %q", name)
		}
		chosen = append(chosen, cases[at])
	}
	return chosen, nil
}

// clearLine clears the current line of a terminal.
const clearLine = "\r\x1b[K"

// terminal returns the terminal for progress, or nil.
func terminal() io.Writer {
	if term.IsTerminal(int(os.Stderr.Fd())) {
		return os.Stderr
	}
	return nil
}

func (r *Run) carryOut(ctx context.Context, c Case) outcome {
	start := time.Now()
	if err := c.Run(ctx, r); err != nil {
		r.Failf("could not be carried out: %v", err)
	}
	if r.screen != nil {
		fmt.Fprint(r.screen, clearLine)
	}
	result := outcome{Attack: c.Name, Held: len(r.failures) == 0, Seconds: time.Since(start).Round(100 * time.Millisecond).Seconds(), Counts: map[string]int64{}, Text: r.text}
	for _, f := range r.failures {
		result.Failures = append(result.Failures, strings.ReplaceAll(f, r.Lab.Dir, "(temporary folder)"))
	}
	if r.more > 0 {
		result.Failures = append(result.Failures, fmt.Sprintf("and %d more", r.more))
	}
	for _, n := range r.counts {
		result.Counts[n.what] = n.n
	}
	return result
}

// print writes the summary of a case and its failures.
func (r *Run) print(result outcome) {
	word := "held"
	if !result.Held {
		word = "FAILED"
	}
	var parts []string
	for _, n := range r.counts {
		parts = append(parts, humanize.Comma(n.n)+" "+n.what)
	}
	fmt.Printf("%-15s %-6s %s (%.1f s)\n", result.Attack, word, strings.Join(parts, ", "), result.Seconds)
	if result.Text != "" {
		fmt.Println(result.Text)
	}
	for _, f := range result.Failures {
		fmt.Printf("    %s\n", f)
	}
}
