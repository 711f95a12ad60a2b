// Package testenv declares what a test needs: programs, rights, time, a configuration. A test
// that lacks something is skipped with the reason. In CI (the environment variable CI is "true")
// all programs are installed, so there a test that lacks one fails instead. No product code imports
// it.
//
// Tests run in one of four configurations: plain, with the race detector (-race), on PostgreSQL
// (ATTESTD_TEST_DB=postgres), and with sealed keys (ATTESTD_MASTER_KEY_FILE). The last two are not
// plain. A test with the same result in all of them needs Plain, and one without anything to detect
// for the race detector needs NotRaced.
package testenv

import (
	"flag"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
)

var (
	long  = flag.Bool("long", false, "run the slow tests, and more rounds of the others: CI's form")
	night = flag.Bool("night", false, "run every test, with all its rounds: hours")
)

// CI reports whether the tests run in CI, where every program is installed.
func CI() bool { return os.Getenv("CI") == "true" }

// Long reports whether -long or -night is set.
func Long() bool { return *long || *night }

// Night reports whether -night is set.
func Night() bool { return *night }

// Quick reports whether the tests run in their quick form: plain go test on the embedded database.
func Quick() bool { return !Long() && !Raced && !OnPostgreSQL() }

// Rounds returns the number of rounds of a randomized test: few, often with -night, and with -long
// a tenth of the way between the two.
func Rounds(few, often int) int {
	switch {
	case Night():
		return often
	case Long():
		return few + (often-few)/10
	}
	return few
}

// MoreAtOnce sets the number of parallel tests to twice the number of cores, unless -parallel is
// set. It is for packages whose tests mostly wait for other processes. TestMain calls it.
func MoreAtOnce() {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	// go test passes the flag only if the user has set it
	if !given {
		_ = flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0)))
	}
}

// OnPostgreSQL reports whether the suites run on PostgreSQL.
func OnPostgreSQL() bool { return os.Getenv("ATTESTD_TEST_DB") == "postgres" }

// Need is a requirement of a test.
type Need struct {
	lacks   func() string // why it is not there, "" where it is
	program bool          // it is installed in CI
}

var (
	// Slow is for tests that run only with -long.
	Slow = Need{lacks: unless(Long, "slow: runs with -long")}
	// NotQuick is for tests that show most on PostgreSQL or with the race detector: they run there,
	// and with -long.
	NotQuick = Need{lacks: unless(func() bool { return !Quick() },
		"not in the quick run: runs with -long, with -race and on PostgreSQL")}
	// Hours is for tests that take more time than CI has: they run only with -night.
	Hours = Need{lacks: unless(Night, "long: runs with -night")}
	// NotRaced is for tests in which the race detector finds nothing, such as those of other
	// processes, and for tests that it makes much slower and that others cover.
	NotRaced = Need{lacks: unless(func() bool { return !Raced }, "not for the race detector")}
	// Plain is for tests whose result does not depend on the engine or on sealed keys.
	Plain = Need{lacks: unless(plain, "runs in the plain configuration: it shows the same there")}
	// Root is for tests that mount file systems or change owners.
	Root = Need{lacks: unless(func() bool { return os.Geteuid() == 0 }, "only root may do this")}

	PostgreSQL = Need{program: true, lacks: func() string { _, err := PostgreSQLPrograms(); return reason(err) }}
	Browser    = Need{program: true, lacks: func() string { _, err := chromium(); return reason(err) }}
	Node       = Program("node")
	Git        = Program("git")
	Curl       = Program("curl")
)

// Program is the need for a program in $PATH.
func Program(name string) Need {
	return Need{program: true, lacks: func() string { _, err := exec.LookPath(name); return reason(err) }}
}

var concurrent sync.Map // names of the tests that called Concurrent

// Concurrent marks a test in which several goroutines use a database at once. With the race
// detector these are the only tests that get a database: the others would take minutes, and show
// nothing that their plain run does not. It MUST be called before the test makes the database.
func Concurrent(t testing.TB) { concurrent.Store(t.Name(), true) }

// DatabaseForRace skips a test with the race detector that is not [Concurrent], nor a subtest of
// one. Whatever makes databases for tests calls it.
func DatabaseForRace(t testing.TB) {
	t.Helper()
	name, _, _ := strings.Cut(t.Name(), "/")
	if _, marked := concurrent.Load(name); Raced && !marked && strings.HasPrefix(name, "Test") {
		t.Skip("with the race detector only tests of concurrency have a database")
	}
}

// Needs skips a test with an unmet need. In CI it fails the test if that is a program.
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

// Missing skips a test that lacks something; in CI it fails the test. It is for needs that a test
// checks itself, such as an npm package. why says how to install it.
func Missing(t testing.TB, why string) {
	t.Helper()
	if CI() {
		t.Fatal("in CI nothing is missing: ", why)
	}
	t.Skip(why)
}

// Path returns the path of a program in $PATH.
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
