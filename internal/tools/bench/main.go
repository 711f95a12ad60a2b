// Bench measures attestd: it builds the binary, runs it on a temporary file, sends it requests over
// HTTP from this process, and prints one table of figures with their targets.
//
//	go -C internal/tools run ./bench                  all figures, some minutes
//	go -C internal/tools run ./bench --quick          small sizes, under 30 s; fails when a ratio is far off
//	go -C internal/tools run ./bench --only attest    one section, of those below
//	go -C internal/tools run ./bench --json           the same figures for a program
//	go -C internal/tools run ./bench --only profile --profile DIR  where processor time goes
//	go -C internal/tools run ./bench --db postgres://…  section postgres as well, on that server
//
// Most figures are ratios to a bare net/http server that does nothing, or to the cost of a
// signature check, measured in the same run and alternating with attestd. A ratio is valid on a
// slow or busy machine; a figure per second is not.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"attestd/internal/harness"
)

// bench is one run of the benchmark.
type bench struct {
	quick   bool
	dir     string // temporary; removed at the end
	schema  string // for seeding in this process
	db      string // URL of a PostgreSQL database; "" for none
	another string // a built attestd; "" for none
	beside  bool   // section neighbours runs
	// folder for the profiles of section profile; "" for none
	profileDir string
	report     report
	stderr     io.Writer
}

// sections in the order of a run
var sections = []struct {
	name string
	run  func(*bench, context.Context) error
}{
	{"attest", (*bench).attest},
	{"against", (*bench).other},
	{"neighbours", (*bench).neighbours},
	{"profile", (*bench).profiles},
	{"append", (*bench).retries},
	{"decisions", (*bench).decisions},
	{"approvals", (*bench).approvals},
	{"forward", (*bench).forward},
	{"signed", (*bench).signed},
	{"metrics", (*bench).metrics},
	{"hooks", (*bench).hooks},
	{"otlp", (*bench).otlp},
	{"credentials", (*bench).credentials},
	{"passports", (*bench).passportLength},
	{"issuer", (*bench).issuer},
	{"length", (*bench).length},
	{"records", (*bench).records},
	{"stream", (*bench).stream},
	{"mcp", (*bench).mcp},
	{"mcp-http", (*bench).mcpHTTP},
	{"webhooks", (*bench).webhooks},
	{"backup", (*bench).backups},
	{"export", (*bench).export},
	{"postgres", (*bench).postgres},
}

func main() {
	if len(os.Args) == 4 && os.Args[1] == bareMode {
		os.Exit(runBare(os.Args[2], os.Args[3]))
	}
	if len(os.Args) == 3 && os.Args[1] == tesseraMode {
		os.Exit(runTessera(os.Args[2]))
	}
	if len(os.Args) == 2 && os.Args[1] == toolMode {
		os.Exit(runTool())
	}
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run returns 0 for a completed run, whether it met its targets or not, 1 for a failed run or a
// quick one with a ratio far off, and 2 for wrong usage.
func run(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	quick := flags.Bool("quick", false, "small sizes, under 30 s; fail when a ratio is far off")
	asJSON := flags.Bool("json", false, "print JSON instead of the table")
	only := flags.String("only", "", "run some `sections`, with commas between them: "+sectionNames())
	db := flags.String("db", "", "`URL` of a PostgreSQL database whose server section postgres measures, as a role that may create databases")
	another := flags.String("against", "", "a built attestd, beside which section against measures in turns: a `file`")
	profileDir := flags.String("profile", "", "a `folder` for processor profiles of the server, which section profile makes and sums up")
	beside := flags.Bool("neighbours", false, "download PocketBase, and run section neighbours")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if flags.NArg() > 0 || *only != "" && slices.ContainsFunc(strings.Split(*only, ","), func(name string) bool { return !isSection(name) }) {
		fmt.Fprintln(stderr, "bench: there are no arguments, and --only takes some of", sectionNames())
		return 2
	}
	if *only == "against" && *another == "" {
		fmt.Fprintln(stderr, "bench: --only against needs --against, a built attestd")
		return 2
	}
	if *only == "profile" && *profileDir == "" {
		fmt.Fprintln(stderr, "bench: --only profile needs --profile, a folder for the profiles")
		return 2
	}
	if *only == "neighbours" && !*beside {
		fmt.Fprintln(stderr, "bench: --only neighbours needs --neighbours, which downloads what it measures beside")
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	b := &bench{quick: *quick, db: *db, another: *another, profileDir: *profileDir, beside: *beside, stderr: stderr}
	err := b.measure(ctx, *only)
	if err != nil {
		fmt.Fprintln(stderr, "bench:", b.withoutPaths(err))
		return 1
	}
	if *asJSON {
		err = b.report.writeJSON(stdout)
	} else {
		err = b.report.writeTable(stdout)
	}
	if err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return 1
	}
	if far := b.report.farOff(); b.quick && len(far) > 0 {
		fmt.Fprintf(stderr, "bench: far off its target: %s\n", strings.Join(far, "; "))
		return 1
	}
	return 0
}

func sectionNames() string {
	var names []string
	for _, s := range sections {
		names = append(names, s.name)
	}
	return strings.Join(names, ", ")
}

func isSection(name string) bool {
	for _, s := range sections {
		if s.name == name {
			return true
		}
	}
	return false
}

// measure runs some sections, or all. It always removes the temporary folder. The children of a
// section end with it.
func (b *bench) measure(ctx context.Context, only string) (err error) {
	if b.dir, err = os.MkdirTemp("", "attestd-bench-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.dir)) }()
	b.say("building attestd")
	if err := b.build(ctx); err != nil {
		return err
	}
	if b.report.Machine, err = describeMachine(b.dir); err != nil {
		return err
	}
	b.report.Quick = b.quick
	start := time.Now()
	for _, s := range sections {
		if only != "" && !slices.Contains(strings.Split(only, ","), s.name) {
			continue
		}
		b.say(s.name)
		if err := s.run(b, ctx); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	b.report.Seconds = time.Since(start).Round(100 * time.Millisecond).Seconds()
	return nil
}

// build compiles the module's programs, and reads the schema for seeding.
func (b *bench) build(ctx context.Context) error {
	root, err := harness.Root(ctx)
	if err != nil {
		return err
	}
	schema, err := os.ReadFile(filepath.Join(root, "schema.sql"))
	if err != nil {
		return err
	}
	b.schema = string(schema)
	return errors.Join(harness.Build(ctx, b.binary()), harness.BuildSmall(ctx, b.small()))
}

// binary returns the path of attestd. The suffix is required on Windows and harmless elsewhere.
func (b *bench) binary() string { return filepath.Join(b.dir, "attestd.exe") }

// small returns the path of attestd-agent.
func (b *bench) small() string { return filepath.Join(b.dir, "attestd-agent.exe") }

// say reports the progress.
func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(b.stderr, "· "+format+"\n", args...)
}

// withoutPaths removes the path of the temporary folder from an error, so that its text can be
// shared.
func (b *bench) withoutPaths(err error) string {
	return strings.ReplaceAll(err.Error(), b.dir, "(temporary folder)")
}

// pick returns short for a quick run, otherwise long.
func pick[T any](quick bool, short, long T) T {
	if quick {
		return short
	}
	return long
}
