package test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"attestd/internal/must"
	"attestd/internal/testenv"
)

// check.py and check.mjs say of each case of crypto/cred/details/cases.json what the service says,
// which its own test holds, and so does the console's.
func TestCheckersAgreeOnDetails(t *testing.T) {
	t.Parallel()
	const cases = "../crypto/cred/details/cases.json"
	raw, err := os.ReadFile(cases)
	must.OK(t, err)
	var of struct {
		Covers []struct {
			Details json.RawMessage
			Calls   []struct {
				Tool      string
				Arguments *string
				Covered   bool
			}
		}
		Refused []json.RawMessage
	}
	must.OK(t, json.Unmarshal(raw, &of))
	dir := t.TempDir()
	must.OK(t, os.WriteFile(filepath.Join(dir, "details.json"), raw, 0o600))
	for _, name := range []string{"../sdk/python/attestd/check.py", "../web/check.mjs", "testdata/details.py", "testdata/details.mjs"} {
		script, err := os.ReadFile(name)
		must.OK(t, err)
		must.OK(t, os.WriteFile(filepath.Join(dir, filepath.Base(name)), script, 0o600))
	}
	for name, args := range map[string][]string{
		"Python":     {pythonWithCryptography(t), "details.py"},
		"JavaScript": {testenv.Path(t, "node"), "details.mjs"},
	} {
		cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
		cmd.Dir, cmd.Stderr = dir, os.Stderr
		out, err := cmd.Output()
		must.OK(t, err)
		var said struct{ Covers, Refused []bool }
		must.OK(t, json.Unmarshal(out, &said))
		n := 0
		for _, one := range of.Covers {
			for _, call := range one.Calls {
				if n >= len(said.Covers) || said.Covers[n] != call.Covered {
					arguments, _ := json.Marshal(call.Arguments)
					t.Errorf("%s: %s covers %s %s: not %v", name, one.Details, call.Tool, arguments, call.Covered)
				}
				n++
			}
		}
		if len(said.Refused) != len(of.Refused) || slices.Contains(said.Refused, false) {
			t.Errorf("%s: of what must be refused it says %v", name, said.Refused)
		}
	}
}
