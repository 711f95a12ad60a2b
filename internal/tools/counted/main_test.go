package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A step fails if a test failed or fewer tests passed than its count. Only the output of failed
// tests is shown.
func TestFailsBelowExpectedTestCount(t *testing.T) {
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
{"Action":"fail","Package":"q"}
`
		died = `{"Action":"output","Package":"q","Test":"TestE","Output":"panic: no\n"}
{"Action":"fail","Package":"q"}
`
		unbuilt = `{"ImportPath":"q","Action":"build-output","Output":"q.go:1: undefined\n"}
{"Action":"fail","Package":"q"}
`
	)
	counts := filepath.Join(t.TempDir(), "counts")
	if err := os.WriteFile(counts, []byte("2 two\n3 three\n0 none\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ step, stream, want, shown string }{
		{"two", two, "", "two: 2 tests passed, 1 were skipped, 0 failed; 2 is the least"},
		{"none", two, "", "ok      1.0s p"},
		{"none", "", "", "0 tests passed"},
		{"three", two, "only 2 tests passed", "2 tests passed"},
		{"four", two, `no step "four"`, ""},
		{"two", two + failed, "1 tests and 1 packages failed", "within is wrong"},
		{"two", two + failed, "failed", "--- FAIL: TestD"},
		{"two", two + died, "0 tests and 1 packages failed", "panic: no"},
		{"two", two + unbuilt, "1 packages failed", "undefined"},
		{"two", "go: cannot find main module\n", "only 0 tests passed", "cannot find main module"},
	} {
		var out strings.Builder
		err := step(strings.NewReader(c.stream), &out, counts, c.step)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.step, err)
		}
		if !strings.Contains(out.String(), c.shown) || strings.Contains(out.String(), "quiet") {
			t.Errorf("%s shows %q", c.step, out.String())
		}
	}
}
