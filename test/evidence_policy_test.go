package test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"attestd/internal/must"
	"attestd/internal/testenv"
)

// A policy is UTF-8 to the last of its bytes, also in comments: attestd check, check.py and
// check.mjs say of another one that it is none. The page has its policy from a field, which holds
// no other text.
func TestPolicyOfBytesThatAreNotUTF8(t *testing.T) {
	testenv.Needs(t, testenv.Slow, testenv.Plain)
	t.Parallel()
	command, err := binary(t)
	must.OK(t, err)
	dir := t.TempDir()
	sample, file := evidenceSample(t, "policy"), filepath.Join(dir, "file")
	must.OK(t, os.WriteFile(file, []byte(evidenceSample(t, "whole.json")), 0o600))
	checkers := map[string][]string{
		"command": {command, "check"}, "Python": {pythonWithCryptography(t), "../sdk/python/attestd/check.py"}, "JavaScript": {testenv.Path(t, "node"), "../web/check.mjs"},
	}
	for name, c := range map[string]struct {
		policy string
		status int
	}{
		"the sample":                   {sample, 0},
		"a comment of two bytes":       {"# caf\u00e9\n" + sample, 0},
		"a comment of Latin-1":         {"# caf\xe9\n" + sample, 2},
		"a comment that ends too soon": {sample + "# \xe2\x80\n", 2},
		"a lone surrogate":             {sample + "# \xed\xa0\x80\n", 2},
		"a name of Latin-1":            {sample + "witness \xe9 x\n", 2},
		"a byte order mark":            {"\ufeff" + sample, 2},
	} {
		policy := filepath.Join(dir, "policy")
		must.OK(t, os.WriteFile(policy, []byte(c.policy), 0o600))
		for checker, args := range checkers {
			cmd := exec.CommandContext(t.Context(), args[0], append(args[1:], file, "--policy", policy)...)
			out, _ := cmd.CombinedOutput()
			if status := cmd.ProcessState.ExitCode(); status != c.status {
				t.Errorf("%s, %s: exit status %d, want %d: %.300s", checker, name, status, c.status, out)
			}
		}
	}
}
