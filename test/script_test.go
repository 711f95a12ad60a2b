package test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"attestd/store/storetest"
)

// scriptCommands are what the scripts say beyond testscript's own commands.
var scriptCommands = map[string]func(ts *testscript.TestScript, neg bool, args []string){
	// exits STATUS PROGRAM ARG…: run it; it must exit with STATUS.
	"exits": func(ts *testscript.TestScript, neg bool, args []string) {
		arguments(ts, neg, len(args) >= 2, "exits STATUS PROGRAM ARG…")
		var exited *exec.ExitError
		status := 0
		if err := ts.Exec(args[1], args[2:]...); errors.As(err, &exited) {
			status = exited.ExitCode()
		} else {
			ts.Check(err)
		}
		if strconv.Itoa(status) != args[0] {
			ts.Fatalf("exit status %d, want %s", status, args[0])
		}
	},
	// serve FLAG…: start `attestd serve` on a free port. $URL and $ADDRESS say where it is, stderr
	// has its output.
	"serve": func(ts *testscript.TestScript, neg bool, args []string) {
		arguments(ts, neg, true, "serve FLAG…")
		slot := running(ts)
		if *slot != nil {
			ts.Fatalf("a server is running")
		}
		program, err := exec.LookPath("attestd")
		ts.Check(err)
		cmd := exec.Command(program, append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)...)
		cmd.Dir, cmd.Env = ts.MkAbs("."), environment(ts)
		s, err := launch(cmd)
		ts.Check(err)
		*slot = s
		ts.Defer(func() { // where the script does not come to its end
			_ = s.cmd.Process.Kill()
			_ = s.wait()
		})
		ts.Setenv("URL", s.URL)
		ts.Setenv("ADDRESS", s.URL[len("http://"):])
		_, _ = ts.Stderr().Write([]byte(s.Start))
	},
	// interrupt: end the server as Ctrl-C does, which must then exit with 0. stdout and stderr are
	// all that it printed.
	"interrupt": func(ts *testscript.TestScript, neg bool, args []string) {
		arguments(ts, neg, len(args) == 0, "interrupt")
		s := *running(ts)
		ts.Check(s.interrupt())
		_, _ = ts.Stdout().Write(s.out.Bytes())
		_, _ = ts.Stderr().Write([]byte(s.log.String()))
		*running(ts) = nil
	},
	// call STATUS METHOD PATH [BODY|@FILE]: call the server, with $KEY as the credential. stdout is
	// the answer, stderr its header.
	"call": func(ts *testscript.TestScript, neg bool, args []string) {
		arguments(ts, neg, len(args) == 3 || len(args) == 4, "call STATUS METHOD PATH [BODY|@FILE]")
		body := append(args, "")[3]
		if file, ok := strings.CutPrefix(body, "@"); ok {
			body = ts.ReadFile(file)
		}
		c := client{http: &http.Client{Timeout: patience, Transport: headerTo{ts}}, url: ts.Getenv("URL"), key: ts.Getenv("KEY")}
		status, answer, err := c.send(args[1], args[2], body)
		ts.Check(err)
		_, _ = ts.Stdout().Write(answer)
		if strconv.Itoa(status) != args[0] {
			ts.Fatalf("answered %d, want %s", status, args[0])
		}
	},
	// field NAME MEMBER: set $NAME to a member of the object in stdout.
	"field": func(ts *testscript.TestScript, neg bool, args []string) {
		arguments(ts, neg, len(args) == 2, "field NAME MEMBER")
		var object map[string]any
		ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &object))
		text, ok := object[args[1]].(string)
		if !ok {
			ts.Fatalf("no text %s", args[1])
		}
		ts.Setenv(args[0], text)
	},
	// nextsecond: wait until the clock that the commands read shows another second.
	"nextsecond": func(ts *testscript.TestScript, neg bool, args []string) {
		arguments(ts, neg, len(args) == 0, "nextsecond")
		for began := time.Now().Unix(); time.Now().Unix() == began; {
			time.Sleep(time.Until(time.Unix(began+1, 0)))
		}
	},
	// sql DATABASE STATEMENT: change a database behind attestd's back.
	"sql": func(ts *testscript.TestScript, neg bool, args []string) {
		arguments(ts, neg, len(args) == 2, "sql DATABASE STATEMENT")
		ts.Check(storetest.Stranger(oneScript{ts.Value(testKey).(*testing.T), ts}, database(ts, args[0]), args[1]).Close())
	},
	// copydb NAME: copy the database $DB, which no server has open, and set $NAME to the copy.
	"copydb": func(ts *testscript.TestScript, neg bool, args []string) {
		arguments(ts, neg, len(args) == 1, "copydb NAME")
		ts.Setenv(args[0], storetest.Copy(oneScript{ts.Value(testKey).(*testing.T), ts}, database(ts, ts.Getenv("DB"))))
	},
	// sample NAME: copy a sample of package evidence.
	"sample": func(ts *testscript.TestScript, neg bool, args []string) {
		arguments(ts, neg, len(args) == 1, "sample NAME")
		text, err := os.ReadFile(filepath.Join("../chain/evidence/testdata", args[0]))
		ts.Check(err)
		ts.Check(os.WriteFile(ts.MkAbs(args[0]), text, 0o600))
	},
	// overwrite FILE OFFSET TEXT: damage a file.
	"overwrite": func(ts *testscript.TestScript, neg bool, args []string) {
		arguments(ts, neg, len(args) == 3, "overwrite FILE OFFSET TEXT")
		at, err := strconv.ParseInt(args[1], 10, 64)
		ts.Check(err)
		f, err := os.OpenFile(ts.MkAbs(args[0]), os.O_WRONLY, 0)
		ts.Check(err)
		_, err = f.WriteAt([]byte(args[2]), at)
		ts.Check(errors.Join(err, f.Close()))
	},
	// mode BITS FILE: the file must have that mode, in octal.
	"mode": func(ts *testscript.TestScript, neg bool, args []string) {
		arguments(ts, neg, len(args) == 2, "mode BITS FILE")
		info, err := os.Stat(ts.MkAbs(args[1]))
		ts.Check(err)
		if got := strconv.FormatUint(uint64(info.Mode().Perm()), 8); got != args[0] {
			ts.Fatalf("%s has mode %s, want %s", args[1], got, args[0])
		}
	},
	// empty FOLDER: there must be no file in it.
	"empty": func(ts *testscript.TestScript, neg bool, args []string) {
		arguments(ts, neg, len(args) == 1, "empty FOLDER")
		entries, err := os.ReadDir(ts.MkAbs(args[0]))
		ts.Check(err)
		if len(entries) > 0 {
			ts.Fatalf("there is %v", entries)
		}
	},
}

func arguments(ts *testscript.TestScript, neg, ok bool, usage string) {
	if neg || !ok {
		ts.Fatalf("usage: %s", usage)
	}
}

// A script keeps its one server, and the test that all scripts are part of, under these.
type key int

const (
	serverKey key = iota
	testKey
)

// oneScript is the test of all scripts as one of them may use it: a failure ends that one.
type oneScript struct {
	testing.TB
	ts *testscript.TestScript
}

func (s oneScript) Fatal(args ...any)                 { s.ts.Fatalf("%s", fmt.Sprint(args...)) }
func (s oneScript) Fatalf(format string, args ...any) { s.ts.Fatalf(format, args...) }

// database is what a script calls a database: a URL, or a file in its folder.
func database(ts *testscript.TestScript, name string) string {
	if storetest.OnPostgres() {
		return name
	}
	return ts.MkAbs(name)
}

func running(ts *testscript.TestScript) **service { return ts.Value(serverKey).(**service) }

// environment is that of the script, as far as `attestd serve` looks at it.
func environment(ts *testscript.TestScript) []string {
	var env []string
	add := func(name string) {
		if value := ts.Getenv(name); value != "" {
			env = append(env, name+"="+value)
		}
	}
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "SystemRoot", "GOCOVERDIR", "GORACE"} {
		add(name)
	}
	add("SERVICE_BASE_URL")
	help, err := exec.Command("attestd", "serve", "--help-all").Output()
	ts.Check(err)
	for _, flag := range flagName.FindAllStringSubmatch(string(help), -1) {
		add("ATTESTD_" + strings.ToUpper(strings.ReplaceAll(flag[1], "-", "_")))
	}
	return env
}

var flagName = regexp.MustCompile(`--([a-z-]+)`)

// headerTo prints the header of each answer to the script's stderr.
type headerTo struct{ ts *testscript.TestScript }

func (h headerTo) RoundTrip(r *http.Request) (*http.Response, error) {
	r.Close = true
	answer, err := http.DefaultTransport.RoundTrip(r)
	if err == nil {
		_ = answer.Header.Write(h.ts.Stderr())
	}
	return answer, err
}
