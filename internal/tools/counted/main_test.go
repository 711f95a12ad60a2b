package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// goPrints is a program in the place of go, which prints a stream of events.
func goPrints(stream string) *exec.Cmd {
	command := exec.Command("cat")
	command.Stdin = strings.NewReader(stream)
	return command
}

// module makes a module with tests of these packages, and starts steps in it.
func module(t *testing.T, packages map[string]string) {
	t.Helper()
	t.Chdir(t.TempDir())
	files := map[string]string{"go.mod": "module m\n", "counts": "0 none\n2 two\n3 three\n"}
	for name, tests := range packages {
		files[filepath.Join(name, name+"_test.go")] = "package " + name + "\n" + tests
	}
	for name, content := range files {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// Only the output of failed tests is shown, and that of builds that fail and of go itself.
func TestShowsOutputOfFailedTests(t *testing.T) {
	t.Parallel()
	const (
		two = `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"quiet\n"}
{"Action":"pass","Package":"p","Test":"TestA/within"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p","Test":"TestB"}
{"Action":"skip","Package":"p","Test":"TestC"}
{"Action":"pass","Package":"p","Elapsed":1}
`
		failed = `{"Action":"output","Package":"q","Test":"TestD/within","Output":"within is wrong\n"}
{"Action":"fail","Package":"q","Test":"TestD/within"}
{"Action":"output","Package":"q","Test":"TestD","Output":"--- FAIL: TestD\n"}
{"Action":"fail","Package":"q","Test":"TestD"}
{"Action":"pass","Package":"q","Test":"TestE"}
{"Action":"output","Package":"q","Output":"FAIL\n"}
{"Action":"fail","Package":"q"}
`
		died = `{"Action":"pass","Package":"q","Test":"TestD"}
{"Action":"output","Package":"q","Test":"TestE","Output":"panic: no\n"}
{"Action":"fail","Package":"q"}
`
		unbuilt = `{"ImportPath":"q","Action":"build-output","Output":"q.go:1: undefined\n"}
{"Action":"fail","Package":"q","FailedBuild":"q"}
`
		raced = `{"Action":"output","Package":"q","Test":"TestD","Output":"WARNING: DATA RACE\n"}
` + failed
	)
	for _, c := range []struct {
		stream, shown, failed string
		passed, unbuilt       int
		raced                 bool
	}{
		{"", "", "", 0, 0, false},
		{two, "ok      1.0s p", "", 2, 0, false},
		{two + failed, "within is wrong\n--- FAIL: TestD", "q TestD", 3, 0, false},
		{two + died, "panic: no", "q", 2, 0, false},
		{two + unbuilt, "undefined", "", 2, 1, false},
		{raced, "DATA RACE", "q TestD", 1, 0, true},
	} {
		var out strings.Builder
		r, err := goTest(&out, goPrints(c.stream))
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, f := range r.failed {
			names = append(names, f.String())
		}
		if got := strings.Join(names, ","); got != c.failed || len(r.passed) != c.passed || r.unbuilt != c.unbuilt || r.raced != c.raced {
			t.Errorf("failed %q, want %q; %d passed, %d not built, raced: %v", got, c.failed, len(r.passed), r.unbuilt, r.raced)
		}
		if !strings.Contains(out.String(), c.shown) || strings.Contains(out.String(), "quiet") {
			t.Errorf("it shows %q, want %q", out.String(), c.shown)
		}
	}
	if _, err := goTest(new(strings.Builder), exec.Command("false")); err == nil {
		t.Error("go failed without a failed test, and that was no error")
	}
}

// A step fails at once with too few tests, an unknown name, a build that fails, a data race, too
// many failures, and without a folder for the second chance.
func TestFailsAtOnce(t *testing.T) {
	const pass, fail = "import \"testing\"\nfunc TestA(t *testing.T) {}\nfunc TestB(t *testing.T) {}\n", "func TestC(t *testing.T) { t.Error() }\n"
	eleven := "import \"testing\"\n"
	for _, letter := range "ABCDEFGHIJK" {
		eleven += strings.ReplaceAll(fail, "TestC", "Test"+string(letter))
	}
	module(t, map[string]string{
		"pass": pass, "fail": pass + fail, "unbuilt": "func TestA() { x }\n", "eleven": eleven,
	})
	for _, c := range []struct{ step, pkg, folder, want string }{
		{"two", "./pass", ".", ""},
		{"three", "./pass", ".", "only 2 tests passed"},
		{"four", "./pass", ".", `no step "four"`},
		{"three", "./fail", "", "1 tests or packages failed"},
		{"none", "./unbuilt", ".", "do not build"},
		{"none", "./eleven", ".", "11 tests or packages failed"},
		{"none", "./absent", ".", "1 packages do not build"},
	} {
		var out strings.Builder
		err := first(&out, "counts", c.folder, c.step, []string{c.pkg})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s: %v\n%s", c.step, c.pkg, err, &out)
		}
	}
	if files, _ := filepath.Glob("*.json"); len(files) > 0 {
		t.Errorf("a second chance was written: %q", files)
	}
}

// What fails once and passes by itself is shown with the output of its first failure. What fails
// again fails CI. Of a package that panics all tests are run again.
func TestRetriesFailedTests(t *testing.T) {
	const flaky = `import ("os"; "testing"; "flag")
var flagged = flag.Bool("flagged", false, "")
func TestA(t *testing.T) {}
func TestB(t *testing.T) {
	if !*flagged || os.Getenv("COUNTED_TEST") != "set" { t.Fatal("another flag or environment") }
	if os.Mkdir("once", 0o700) == nil { FAILS }
}
func TestC(t *testing.T) {}
`
	for _, c := range []struct{ name, fails, want, shown string }{
		{"passes", `t.Fatal("at first")`, "", "passed only by itself: m/p TestB; its first failure was:\n=== RUN   TestB\n"},
		{"panics", `panic("at first")`, "", "passed only by itself: m/p; its first failure was:\n"},
		{"fails again", `os.Remove("once"); t.Fatal("at first")`, "three: failed twice: m/p TestB", "at first"},
		{"panics again", `os.Remove("once"); panic("at first")`, "three: failed twice: m/p", "at first"},
		{"is skipped", `t.Fatal("at first") }; if true { t.Skip()`, "three: failed twice: m/p TestB", ""},
		{"leaves a test out", `panic("at first") }; if true { t.Skip()`, "only 2 tests passed", "at first"},
	} {
		t.Run(c.name, func(t *testing.T) {
			module(t, map[string]string{"p": strings.Replace(flaky, "FAILS", c.fails, 1)})
			t.Setenv("COUNTED_TEST", "set")
			folder := t.TempDir()
			var out strings.Builder
			if err := first(&out, "counts", folder, "three", []string{"./p", "-flagged"}); err != nil {
				t.Fatalf("%v\n%s", err, &out)
			}
			t.Setenv("COUNTED_TEST", "another")
			t.Chdir(t.TempDir())
			out.Reset()
			err := retry(&out, folder)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v\n%s", err, &out)
			}
			if !strings.Contains(out.String(), c.shown) {
				t.Errorf("it shows\n%s", &out)
			}
		})
	}
}
