// Package test holds the end-to-end tests: the built binary, its command line, and the README as it
// is typed.
package test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"attestd/cmd"
	"attestd/internal/testenv"
	"attestd/store/postgres/pgtest"
	"attestd/store/storetest"
)

// scratch is a folder that lasts as long as all tests.
var scratch string

// TestMain makes this test binary replace attestd in the scripts, so that -race and -cover reach it
// there. The other tests build the real one.
func TestMain(m *testing.M) {
	testscript.Main(inScratch{m}, map[string]func(){"attestd": program, "spooler": spooler, "sessioner": sessioner})
}

// program is what the top level's main is. A script runs it in a folder of its own, so that it
// finds the schema by the place of this file.
func program() {
	_, here, _, _ := runtime.Caller(0)
	schema, err := os.ReadFile(filepath.Join(filepath.Dir(here), "..", "schema.sql"))
	if err != nil {
		panic(err)
	}
	os.Exit(cmd.Run("1.0.0", string(schema)))
}

type inScratch struct{ *testing.M }

func (m inScratch) Run() int {
	dir, err := os.MkdirTemp("", "attestd-test-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	scratch = dir
	return pgtest.Run(m.M)
}

// The command line, described by the scripts in testdata/script. See script_test.go for the
// commands that they add to testscript's.
func TestCommandLine(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		// testscript leaves its own behind where -run names some scripts only
		WorkdirRoot: t.TempDir(),
		Setup: func(env *testscript.Env) error {
			env.Values[serverKey], env.Values[testKey] = new(*service), t
			env.Setenv("DB", "attestd.db")
			if storetest.OnPostgres() {
				db := storetest.New(t)
				env.Setenv("DB", db)
				env.Setenv("ATTESTD_DB", db)
			}
			fixtures, err := filepath.Abs("../store/testdata")
			if err != nil {
				return err
			}
			env.Setenv("FIXTURES", fixtures)
			// the scripts hold with keys that are sealed, too
			env.Setenv("ATTESTD_MASTER_KEY_FILE", os.Getenv("ATTESTD_MASTER_KEY_FILE"))
			// with -race, every process would else take a second to end
			env.Setenv("GORACE", "atexit_sleep_ms=0")
			return nil
		},
		Cmds: scriptCommands,
		Condition: func(condition string) (bool, error) {
			switch condition {
			case "postgres":
				return storetest.OnPostgres(), nil
			case "race":
				return testenv.Raced, nil
			case "quick":
				return testenv.Quick(), nil
			}
			return false, errors.New("the conditions of these scripts are postgres, quick and race")
		},
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
	})
}
