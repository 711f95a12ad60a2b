package test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"attestd/internal/must"
	"attestd/internal/testenv"
)

// hostile would end the line and begin another, clear and colour the terminal, set its title, and
// turn text around, in all the ways that there are.
const hostile = "bot\nFORGED a\rFORGED b\x1b[2J\x1b]0;title\x07\x7f\u0085\u009b31m\u009d0;t\u009c\u061c\u200e\u200f\u202eevil\u2066\u2069\u2028FORGED c\u2029\t\b"

// isPrintable demands of what was printed that it has no character that a terminal carries out, and
// no line that data began.
func isPrintable(t *testing.T, text string) {
	t.Helper()
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimSuffix(line, "\r") // of a table
		if at := strings.IndexFunc(line, func(r rune) bool {
			return unicode.IsControl(r) || unicode.In(r, unicode.Bidi_Control, unicode.Zl, unicode.Zp)
		}); at >= 0 {
			t.Errorf("printed raw at %d of %q", at, line)
		}
		if strings.HasPrefix(line, "FORGED") {
			t.Errorf("a line of data's own: %q", line)
		}
	}
}

// The checkers of the README escape by the rule of package printable.
func TestCheckersPrintByOneRule(t *testing.T) {
	testenv.Needs(t, testenv.Plain, testenv.NotRaced)
	t.Parallel()
	text, err := os.ReadFile("../internal/printable/cases.json")
	must.OK(t, err)
	var cases []struct{ Text, Printed string }
	must.OK(t, json.Unmarshal(text, &cases))
	dir := t.TempDir()
	for _, name := range []string{"../sdk/python/attestd/check.py", "../web/check.mjs", "testdata/printed.py", "testdata/printed.mjs", "../internal/printable/cases.json"} {
		copyTo(t, dir, name)
	}
	for _, checker := range [][]string{{pythonWithCryptography(t), "printed.py"}, {testenv.Path(t, "node"), "printed.mjs"}} {
		cmd := exec.CommandContext(t.Context(), checker[0], checker[1])
		cmd.Dir, cmd.Stderr = dir, os.Stderr
		out, err := cmd.Output()
		must.OK(t, err)
		var printed []string
		must.OK(t, json.Unmarshal(out, &printed))
		if len(printed) != len(cases) {
			t.Fatalf("%s: %d of %d cases", checker[1], len(printed), len(cases))
		}
		for i, c := range cases {
			if printed[i] != c.Printed {
				t.Errorf("%s: %q is printed as %q, want %q", checker[1], c.Text, printed[i], c.Printed)
			}
		}
	}
}

func copyTo(t *testing.T, dir, name string) {
	t.Helper()
	text, err := os.ReadFile(name)
	must.OK(t, err)
	must.OK(t, os.WriteFile(filepath.Join(dir, filepath.Base(name)), text, 0o600))
}

// Whatever the names of records, files, servers and tools contain, no command and no checker prints
// terminal control characters or a line that is not its own.
func TestHostileTextIsPrintedEscaped(t *testing.T) {
	testenv.Needs(t, testenv.NotQuick)
	t.Parallel()
	program, err := binary(t)
	must.OK(t, err)
	dir := t.TempDir()
	s := serve(t, filepath.Join(dir, "a.db"))
	c := s.register(t, "acme")
	quoted, err := json.Marshal(hostile)
	must.OK(t, err)
	item := `{"agentId":` + string(quoted) + `,"actionType":` + string(quoted) + `,"payload":{` + string(quoted) + `:` + string(quoted) + `}}`
	c.call(t, 201, "POST", "/v1/attest", item, nil)
	c.call(t, 201, "POST", "/v1/keys", `{"label":`+string(quoted)+`}`, nil)
	put := func(name, text string) { must.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)) }
	for name, path := range map[string]string{"report.jsonl": "/v1/report", "evidence.json": "/v1/evidence/0", "proof.json": "/v1/proof/0", "key.json": "/v1/ca/public-key?companyId=acme"} {
		put(name, string(c.call(t, 200, "GET", path, "", nil)))
	}
	twice := `{` + string(quoted) + `:1,` + string(quoted) + `:2}`
	put("twice.json", twice)
	put("member.json", `{"format":"attestd-evidence/v1",`+string(quoted)+`:1}`)
	whole, err := os.ReadFile(filepath.Join(dir, "evidence.json"))
	must.OK(t, err)
	put("type.json", strings.Replace(string(whole), `"attestd-evidence/`, `"`+strings.Trim(string(quoted), `"`), 1))
	put("line.policy", "log "+hostile+"\n")
	put("raw.policy", "quorum none\n"+strings.ReplaceAll(hostile, "\n", " "))
	put("proof2.json", twice)
	for _, name := range []string{"../sdk/python/attestd/check.py", "../web/check.mjs"} {
		copyTo(t, dir, name)
	}
	refuses := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(`{"error":` + string(quoted) + `,"code":` + string(quoted) + `,"pointer":` + string(quoted) + `}`))
	}))
	t.Cleanup(refuses.Close)
	away := "http://127.0.0.1:1"
	event := `{"hook_event_name":"PreToolUse","session_id":"s","tool_use_id":"1","tool_name":` + string(quoted) + `,"tool_input":{}}`
	python, node := pythonWithCryptography(t), testenv.Path(t, "node")

	for _, run := range []struct {
		url, input string
		shows      bool // something of the record, so that there was something to escape
		command    []string
	}{
		{shows: true, command: []string{program, "report", "report.jsonl"}},
		{shows: true, command: []string{program, "report", "report.jsonl", "--html"}},
		{command: []string{program, "report", "report.jsonl", "--json"}},
		{command: []string{program, "report", "report.jsonl", "--passport", hostile}},
		{command: []string{program, "report", "twice.json"}},
		{command: []string{program, "check", "evidence.json"}},
		{command: []string{program, "check", "evidence.json", "--json"}},
		{command: []string{program, "check", "member.json"}},
		{shows: true, command: []string{program, "check", "twice.json"}},
		{command: []string{program, "check", "type.json"}},
		{command: []string{program, "check", "evidence.json", "--policy", "line.policy"}},
		{command: []string{program, "check", "evidence.json", "--policy", "raw.policy"}},
		{shows: true, command: []string{program, "check", hostile}},
		{command: []string{python, "check.py", "evidence.json"}},
		{command: []string{python, "check.py", "twice.json"}},
		{command: []string{python, "check.py", "member.json"}},
		{command: []string{python, "check.py", "type.json"}},
		{command: []string{python, "check.py", "evidence.json", "--policy", "line.policy"}},
		{command: []string{python, "check.py", "proof.json", "key.json"}},
		{command: []string{python, "check.py", "proof2.json", "key.json"}},
		{shows: true, command: []string{python, "check.py", hostile}},
		{shows: true, command: []string{python, "check.py", "--" + hostile}},
		{command: []string{node, "check.mjs", "evidence.json"}},
		{shows: true, command: []string{node, "check.mjs", "twice.json"}},
		{command: []string{node, "check.mjs", "member.json"}},
		{command: []string{node, "check.mjs", "type.json"}},
		{command: []string{node, "check.mjs", "evidence.json", "--policy", "line.policy"}},
		{command: []string{node, "check.mjs", "proof.json", "key.json"}},
		{shows: true, command: []string{node, "check.mjs", "proof2.json", "key.json"}},
		{shows: true, command: []string{node, "check.mjs", hostile}},
		{shows: true, command: []string{node, "check.mjs", "--" + hostile}},
		{shows: true, command: []string{program, "records"}},
		{shows: true, command: []string{program, "records", "--text", "evil"}},
		{shows: true, command: []string{program, "records", "--csv"}},
		{command: []string{program, "records", "--log", "control"}},
		{shows: true, command: []string{program, "attest", "--agent", hostile, "--action", "x", "1"}},
		{shows: true, url: refuses.URL, command: []string{program, "attest", "--agent", "a", "--action", "x", "1"}},
		{shows: true, url: refuses.URL, command: []string{program, "records"}},
		{shows: true, url: refuses.URL, command: []string{program, "tail"}},
		{shows: true, url: refuses.URL, command: []string{program, "init", "claude-code"}},
		{shows: true, url: refuses.URL, input: event, command: []string{program, "hook", "--fail", "closed"}},
		{url: away, input: event, command: []string{program, "hook", "--require", "passport"}},
		{url: away, input: event, command: []string{program, "hook", "--from", hostile}},
		{shows: true, url: refuses.URL, command: []string{program, "run", "--agent", "a", "--fail", "closed", "--", "true"}},
		{shows: true, command: []string{program, hostile}},
		{shows: true, command: []string{program, "records", "--order", hostile}},
		{shows: true, command: []string{program, "verify", "--db", hostile}},
	} {
		name := filepath.Base(run.command[0]) + " " + strings.Join(run.command[1:], " ")
		t.Run(name[:min(len(name), 60)], func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), run.command[0], run.command[1:]...)
			cmd.Dir, cmd.Stdin = dir, strings.NewReader(run.input)
			if run.url == "" {
				run.url = s.URL
			}
			cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "XDG_STATE_HOME=" + t.TempDir(), "ATTESTD_URL=" + run.url, "ATTESTD_KEY=" + c.key, "PYTHONUTF8=1"}
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			_ = cmd.Run() // many must fail
			isPrintable(t, out.String())
			if run.shows && !strings.Contains(out.String(), `\u202eevil`) {
				t.Errorf("nothing of the text is shown: %s", out.String())
			}
		})
	}
	t.Run("tail", func(t *testing.T) {
		t.Parallel()
		cmd := exec.CommandContext(t.Context(), program, "tail", "--from", "0")
		cmd.Env = []string{"ATTESTD_URL=" + s.URL, "ATTESTD_KEY=" + c.key, "HOME=" + dir}
		out, err := cmd.StdoutPipe()
		must.OK(t, err)
		must.OK(t, cmd.Start())
		var line [4096]byte
		n, _ := out.Read(line[:])
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		isPrintable(t, string(line[:n]))
		if !strings.Contains(string(line[:n]), `\u202eevil`) {
			t.Errorf("nothing of the text is shown: %s", line[:n])
		}
	})
}
