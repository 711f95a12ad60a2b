// Package testenv lets a test say what it needs: programs, rights, time, a configuration. A test
// that lacks something is skipped with the reason. In CI (the environment variable CI is "true")
// all programs are installed, so there a test that lacks one fails instead. No product code imports
// it.
//
// Tests run in one of four configurations: plain, with the race detector (-race), on PostgreSQL
// (ATTESTD_TEST_DB=postgres), and with sealed keys (ATTESTD_MASTER_KEY_FILE). The last two are not
// plain. What shows the same in all of them says Plain, and what the race detector sees nothing of
// says NotRaced.
package testenv

import (
	"flag"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"testing"
)

var (
	long  = flag.Bool("long", false, "run the slow tests, and more rounds of the others: CI's form")
	night = flag.Bool("night", false, "run every test, with all its rounds: hours")
)

// CI says whether the tests run where every program is installed.
func CI() bool { return os.Getenv("CI") == "true" }

// Long says whether -long or -night is given.
func Long() bool { return *long || *night }

// Night says whether -night is given.
func Night() bool { return *night }

// Rounds is how often a test tries what depends on chance: few times, with -night often, and with
// -long a quarter of the way between the two.
func Rounds(few, often int) int {
	switch {
	case Night():
		return often
	case Long():
		return few + (often-few)/4
	}
	return few
}

// MoreAtOnce lets twice as many tests run at once as there are cores, unless -parallel says how
// many: for packages whose tests wait for other processes most of the time. TestMain calls it.
func MoreAtOnce() {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	// go test itself gives the flag only where its user does
	if !given {
		_ = flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0)))
	}
}

// OnPostgreSQL says whether the suites run on PostgreSQL.
func OnPostgreSQL() bool { return os.Getenv("ATTESTD_TEST_DB") == "postgres" }

// Need is what a test may need.
type Need struct {
	lacks   func() string // why it is not there, "" where it is
	program bool          // CI has it
}

var (
	// Slow is time: the test runs with -long alone.
	Slow = Need{lacks: unless(Long, "slow: runs with -long")}
	// Hours is more time than CI has: the test runs with -night alone.
	Hours = Need{lacks: unless(Night, "long: runs with -night")}
	// NotRaced is about what the race detector sees nothing of, such as other processes, or what it
	// makes many times slower and other raced tests cover.
	NotRaced = Need{lacks: unless(func() bool { return !Raced }, "not for the race detector")}
	// Plain is about what is the same on each engine and with sealed keys: one run shows it.
	Plain = Need{lacks: unless(plain, "runs in the plain configuration: it shows the same there")}
	// Root is the user who may mount, and give files away.
	Root = Need{lacks: unless(func() bool { return os.Geteuid() == 0 }, "only root may do this")}

	PostgreSQL = Need{program: true, lacks: func() string { _, err := PostgreSQLPrograms(); return reason(err) }}
	Browser    = Need{program: true, lacks: func() string { _, err := chromium(); return reason(err) }}
	Node       = Program("node")
	Git        = Program("git")
	Curl       = Program("curl")
)

// Program is the need for a program of $PATH.
func Program(name string) Need {
	return Need{program: true, lacks: func() string { _, err := exec.LookPath(name); return reason(err) }}
}

// Needs skips a test that lacks something, or fails it in CI where that is a program.
func Needs(t testing.TB, needs ...Need) {
	t.Helper()
	for _, n := range needs {
		why := n.lacks()
		switch {
		case why == "":
		case n.program:
			Missing(t, why)
		default:
			t.Skip(why)
		}
	}
}

// Missing skips a test for want of something that CI installs; in CI it fails. It is for what a
// test looks for itself, such as a package of npm; why says how to get it.
func Missing(t testing.TB, why string) {
	t.Helper()
	if CI() {
		t.Fatal("in CI nothing is missing: ", why)
	}
	t.Skip(why)
}

// Path is where a program of $PATH is.
func Path(t testing.TB, name string) string {
	t.Helper()
	Needs(t, Program(name))
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func plain() bool { return !OnPostgreSQL() && os.Getenv("ATTESTD_MASTER_KEY_FILE") == "" }

func unless(holds func() bool, why string) func() string {
	return func() string {
		if holds() {
			return ""
		}
		return why
	}
}

func reason(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
