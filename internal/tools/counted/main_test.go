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
	)
	for _, c := range []struct {
		stream, shown, failed string
		passed, unbuilt       int
	}{
		{"", "", "", 0, 0},
		{two, "ok      1.0s p", "", 2, 0},
		{two + failed, "within is wrong\n--- FAIL: TestD", "q TestD", 3, 0},
		{two + died, "panic: no", "q", 2, 0},
		{two + unbuilt, "undefined", "", 2, 1},
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
		if got := strings.Join(names, ","); got != c.failed || len(r.passed) != c.passed || r.unbuilt != c.unbuilt {
			t.Errorf("failed %q, want %q; %d passed, %d not built", got, c.failed, len(r.passed), r.unbuilt)
		}
		if !strings.Contains(out.String(), c.shown) || strings.Contains(out.String(), "quiet") {
			t.Errorf("it shows %q, want %q", out.String(), c.shown)
		}
	}
	if _, err := goTest(new(strings.Builder), exec.Command("false")); err == nil {
		t.Error("go failed without a failed test, and that was no error")
	}
}

// A step fails with too few tests, an unknown name, a build that fails, and a test that fails.
func TestStepFails(t *testing.T) {
	const pass, fail = "import \"testing\"\nfunc TestA(t *testing.T) {}\nfunc TestB(t *testing.T) {}\n", "func TestC(t *testing.T) { t.Error() }\n"
	module(t, map[string]string{"pass": pass, "fail": pass + fail, "unbuilt": "func TestA() { x }\n"})
	for _, c := range []struct{ step, pkg, want string }{
		{"two", "./pass", ""},
		{"three", "./pass", "only 2 tests passed"},
		{"four", "./pass", `no step "four"`},
		{"two", "./fail", "1 tests or packages failed: [m/fail TestC]"},
		{"none", "./unbuilt", "do not build"},
		{"none", "./absent", "1 packages do not build"},
	} {
		var out strings.Builder
		err := step(&out, "counts", c.step, []string{c.pkg})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s: %v\n%s", c.step, c.pkg, err, &out)
		}
	}
}
