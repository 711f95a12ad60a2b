package test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"attestd/chain/evidence/evidencetest"
	"attestd/chain/filekind"
	"attestd/chain/filekind/kindtest"
	"attestd/internal/must"
	"attestd/internal/printable"
	"attestd/internal/testenv"
)

// wordCase is a file that the four checkers are given, and what is trusted.
type wordCase struct {
	Name     string `json:"-"`
	File     string `json:"file"`
	Key      string `json:"key"`
	Policy   string `json:"policy"`
	AgentKey string `json:"agentKey"`

	stored  bool     // the key is stored by attestd trust, which the console does not read
	only    []string // files and options of attestd check, in the place of those above
	keys    string   // a file of keys that the scripts are given after the file
	changes bool     // a server has made it: what differs each time is left out
}

// wordFiles writes the files of the table into a folder, and returns their cases in its order.
func wordFiles(t *testing.T, dir string) (cases []wordCase) {
	t.Helper()
	write := func(name, content string) string {
		must.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
		return name
	}
	const first, other = "rmqQfGdG6AHIBRiK_myuURlwB-jCJkJqP1hdDDXhgag", "cIDF6cI9xpWZkoA3nVKloRr214dMsxFqPkUD8OTrzJg"
	policy := evidenceSample(t, "policy")
	write("policy", policy)
	add := func(c wordCase) { cases = append(cases, c) }
	for _, name := range []string{"whole.json", "small.json", "control.json", "signed.json", "admitted.json", "session-complete.jsonl", "session-missing.jsonl", "report.jsonl"} {
		write(name, evidenceSample(t, name))
		add(wordCase{Name: "nothing trusted", File: name})
		add(wordCase{Name: "with the company's key", File: name, Key: sampleKey})
	}
	write("session-open.jsonl", evidenceSample(t, "session-open.jsonl"))
	for _, c := range []wordCase{
		{Name: "with a policy", File: "whole.json", Policy: policy},
		{Name: "with a policy that has no quorum", File: "small.json", Policy: policy},
		{Name: "with the company's key, which is stored", File: "whole.json", Key: sampleKey, stored: true},
		{Name: "with the company's key, which is stored", File: "session-open.jsonl", Key: sampleKey, stored: true},
		{Name: "with the company's key, which is stored", File: "report.jsonl", Key: sampleKey, stored: true},
		{Name: "with another key, which is stored", File: "small.json", Key: "SHA256:" + strings.Repeat("A", 43), stored: true},
		{Name: "with another key", File: "whole.json", Key: "SHA256:" + strings.Repeat("A", 43)},
		{Name: "with the agent's key", File: "admitted.json", Key: sampleKey, AgentKey: first},
		{Name: "with a key from which the agent's follows", File: "signed.json", Key: sampleKey, AgentKey: first},
		{Name: "with another agent's key", File: "signed.json", Key: sampleKey, AgentKey: other},
		{Name: "with an agent's key, and no statement", File: "small.json", Key: sampleKey, AgentKey: first},
		{Name: "with the agent's key", File: "session-open.jsonl", Key: sampleKey, AgentKey: first},
	} {
		add(c)
	}

	o := evidencetest.NewOperator("acme", 3)
	key := evidencetest.Fingerprint(0)
	record := func(file, about, agent, action, payload, delegation string) {
		text := o.Evidence(o.Action(agent, action, payload, "", delegation)).JSON()
		add(wordCase{Name: about, File: write(file, string(text)), Key: key})
	}
	record("huge.json", "a payload of 60,000 characters", "bot", "report", `"`+strings.Repeat("0123456789", 6000)+`"`, "")
	record("emoji.json", "characters of two UTF-16 units are one each", "bot", "report", `"`+strings.Repeat("😀", 2500)+`"`, "")
	record("escapes.json", "characters that move or turn what a terminal shows", "bot\u202e\x1b[2J", "a\nholds\u2028", `{"a":"\u001b]0;x\u0007\u202e","\u0085":"\\"}`, "")
	record("quotes.json", "a name that would say more than it is", `bot" of the company "other`, "pay", `0`, "")
	record("nobody.json", "a payload of null", "", "", `null`, "")
	record("chain.json", "a delegation to another agent", "bot", "pay", `{}`,
		`{"act":{"sub":"spiffe://attestd.local/company/acme/agent/other"},"delegationChain":["spiffe://attestd.local/company/acme","spiffe://attestd.local/company/acme/agent/other"],"subject":"spiffe://attestd.local/company/acme","tokenId":"d-1"}`)
	record("longchain.json", "a delegation chain of 3,000 characters", "bot", "pay", `{}`,
		`{"act":null,"delegationChain":["`+strings.Repeat("x", 3000)+`"],"subject":"somebody else","tokenId":"d-1"}`)

	small := evidenceSample(t, "small.json")
	payload := `"payload":{"agentId":"build-bot","companyId":"acme","actionType":"deploy","payload":{"version":1}}`
	pruned := strings.Replace(small, payload, `"payload":null,"pruned":true`, 1)
	if pruned == small {
		t.Fatal("the sample has another payload")
	}
	add(wordCase{Name: "a payload that was pruned", File: write("pruned.json", pruned), Key: sampleKey})
	add(wordCase{Name: "the same, nothing trusted", File: "pruned.json"})
	add(wordCase{Name: "a payload that was changed", File: write("changed.json", strings.Replace(small, `"version":1`, `"version":2`, 1)), Key: sampleKey})
	session := evidenceSample(t, "session-complete.jsonl")
	add(wordCase{Name: "without its last line", File: write("session-cut.jsonl", session[:strings.LastIndex(session[:len(session)-1], "\n")+1]), Key: sampleKey})
	report := evidenceSample(t, "report.jsonl")
	add(wordCase{Name: "without its last line", File: write("report-cut.jsonl", report[:strings.LastIndex(report[:len(report)-1], "\n")+1]), Key: sampleKey})

	// one change for each code, of those that package evidence lists
	changed, reached := mutations(t), map[string]bool{"fails MALFORMED": true, "fails RECORD": true, "fails KEY": true, "fails POLICY": true}
	names := make([]string, 0, len(changed))
	for name := range changed {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		c := evidenceCase{File: []byte(changed[name]), Key: sampleKey}
		if v := c.verdict(); strings.HasPrefix(v, "fails ") && !reached[v] {
			reached[v] = true
			add(wordCase{Name: name, File: write("mutated-"+strings.ToLower(strings.TrimPrefix(v, "fails "))+".json", changed[name]), Key: sampleKey})
		}
	}

	for name, content := range map[string]string{
		"empty": "", "words": "nothing of the kind\n", "version.json": strings.Replace(small, "attestd-evidence/v1", "attestd-evidence/v2", 1),
		"member.json": strings.Replace(small, `"hexProof"`, `"hexproof"`, 1), "twice.json": strings.Replace(small, `{"format"`, `{"log":"actions","format"`, 1),
		"huge": strings.Repeat(" ", 64<<20+1),
	} {
		write(name, content)
	}
	for _, name := range []string{"empty", "words", "version.json", "member.json", "twice.json", "huge"} {
		add(wordCase{Name: "no evidence", File: name, Key: sampleKey})
	}
	samples, err := kindtest.Samples()
	must.OK(t, err)
	for _, kind := range []filekind.Kind{filekind.Status, filekind.Passport, filekind.Token, filekind.Checkpoint, filekind.TlogProof} {
		add(wordCase{Name: "of another kind", File: write(string(kind), samples[kind])})
	}

	made, madeKeys := genuine(t)
	for _, kind := range []filekind.Kind{filekind.Archive, filekind.Lines, filekind.Proof, filekind.Keys} {
		text, err := os.ReadFile(made[kind])
		must.OK(t, err)
		write(string(kind), string(text))
	}
	add(wordCase{Name: "nothing trusted", File: "archive", changes: true})
	add(wordCase{Name: "with the company's key", File: "archive", Key: madeKeys[filekind.Archive], changes: true})
	add(wordCase{Name: "without --lines", File: "lines", Key: madeKeys[filekind.Lines], changes: true})
	add(wordCase{Name: "with --lines", File: "lines", only: []string{"--lines", "lines", "--key", madeKeys[filekind.Lines]}, changes: true})
	add(wordCase{Name: "alone", File: "proof", changes: true})
	add(wordCase{Name: "with a file of keys", File: "proof", keys: "keys", changes: true})
	return cases
}

// checkerOutput is the output of a checker for a file.
type checkerOutput struct {
	status int // of the exit; -1 of the console
	lines  []string
}

// words are those of the verdict that all checkers share: without a reason, which is for people.
var words = regexp.MustCompile(`^(holds(?:, key not confirmed)?|fails: [A-Z_]+|fails|pruned)(?:$|:)`)

// verdict returns these words; "" for no verdict.
func (s checkerOutput) verdict() string {
	m := words.FindStringSubmatch(s.lines[0])
	if m == nil {
		return ""
	}
	return m[1]
}

var (
	varying      = regexp.MustCompile(`SHA256:[A-Za-z0-9_-]{43}|[0-9a-f]{64}|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z|records? [0-9]+|[0-9]+ (of|records)|to [0-9]+`)
	ofInterpeter = regexp.MustCompile(`^(fails: MALFORMED): .*`)
)

// The four checkers say the same of the same file: the verdict comes first, in the same words, and
// then the same lines say who did what, on whose behalf and under which right.
// testdata/checkers_words.txt has what they say.
func TestCheckersSpeakTheSameWords(t *testing.T) {
	testenv.Needs(t, testenv.Plain, testenv.NotRaced)
	t.Parallel()
	python, node := pythonWithCryptography(t), testenv.Path(t, "node")
	attestd, err := binary(t)
	must.OK(t, err)
	web, err := filepath.Abs("../web")
	must.OK(t, err)
	checkPy, err := filepath.Abs("../sdk/python/attestd/check.py")
	must.OK(t, err)
	dir := t.TempDir()
	cases := wordFiles(t, dir)
	var home string // of the case
	runIn := func(program string, args ...string) checkerOutput {
		cmd := exec.CommandContext(t.Context(), program, args...)
		cmd.Dir, cmd.Env = dir, atHome(home)
		var out, log bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &log
		s, err := checkerOutput{}, cmd.Run()
		if exited := (*exec.ExitError)(nil); errors.As(err, &exited) {
			s.status, err = exited.ExitCode(), nil
		}
		must.OK(t, err)
		text := out.String()
		if s.status == 2 {
			if text != "" {
				t.Errorf("%q is no verdict, and %q was printed", args, text)
			}
			text, _, _ = strings.Cut(strings.TrimPrefix(log.String(), "attestd: "), "\n")
		}
		for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
			if !strings.HasPrefix(line, "checked: ") && !strings.HasPrefix(line, "not proven: ") {
				s.lines = append(s.lines, line)
			}
		}
		return s
	}
	given, err := json.Marshal(cases)
	must.OK(t, err)
	must.OK(t, os.WriteFile(filepath.Join(dir, "cases.json"), given, 0o600))
	program, err := filepath.Abs("testdata/checkers_console.mjs")
	must.OK(t, err)
	cmd := exec.CommandContext(t.Context(), node, program, filepath.Join(web, "console/lib"))
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	out, err := cmd.Output()
	must.OK(t, err)
	var ofConsole []struct {
		Words string
		Lines []string
	}
	must.OK(t, json.Unmarshal(out, &ofConsole))

	var table strings.Builder
	fmt.Fprint(&table, "What the four checkers say of the same files, before they list what they have checked: go test ./test -run TestCheckersSpeakTheSameWords -update\n")
	for i, c := range cases {
		args := []string{c.File}
		typed := c.Key
		if home = t.TempDir(); c.stored {
			typed = ""
			storeKeys(t, home, "acme "+c.Key+"\n")
		}
		for _, option := range [][2]string{{"--key", typed}, {"--agent-key", c.AgentKey}} {
			if option[1] != "" {
				args = append(args, option[0], option[1])
			}
		}
		if c.Policy != "" {
			args = append(args, "--policy", "policy")
		}
		ofCommand := append([]string{"check"}, args...)
		if c.only != nil {
			ofCommand = append([]string{"check"}, c.only...)
		}
		if c.keys != "" {
			args = append(args, c.keys)
		}
		all := map[string]checkerOutput{
			"attestd check": runIn(attestd, ofCommand...), "check.py": runIn(python, append([]string{checkPy}, args...)...),
			"check.mjs": runIn(node, append([]string{filepath.Join(web, "check.mjs")}, args...)...),
		}
		console := checkerOutput{-1, ofConsole[i].Lines}
		if ofConsole[i].Words != "" {
			console.lines = append([]string{ofConsole[i].Words}, console.lines...)
		}
		for at := range console.lines {
			console.lines[at] = printable.Text(console.lines[at])
		}
		all["the console"] = console
		fmt.Fprintf(&table, "\n== %s: %s\n", c.File, c.Name)
		c.compare(t, &table, all)
	}
	file := "testdata/checkers_words.txt"
	if *update {
		must.OK(t, os.WriteFile(file, []byte(table.String()), 0o644))
	}
	want, err := os.ReadFile(file)
	must.OK(t, err)
	if string(want) != table.String() {
		at := 0
		for at < len(want) && at < table.Len() && want[at] == table.String()[at] {
			at++
		}
		from := max(0, at-300)
		t.Errorf("%s has other words, which -update writes. It has %q, and they say %q", file, want[from:min(len(want), at+200)], table.String()[from:min(table.Len(), at+200)])
	}
	if len(cases) < 40 {
		t.Errorf("%d cases", len(cases))
	}
}

// compare writes the verdicts of the checkers on a file next to one another, and demands that those
// that have a verdict agree.
func (c *wordCase) compare(t *testing.T, table *strings.Builder, all map[string]checkerOutput) {
	t.Helper()
	statuses := map[string]int{"": 2, "holds": 0, "holds, key not confirmed": 5, "pruned": 5}
	var shared, from string
	var summary []string
	for _, name := range []string{"attestd check", "check.py", "check.mjs", "the console"} {
		if name == "the console" && c.stored {
			continue
		}
		s := all[name]
		verdict := s.verdict()
		text, status := s.lines[0], ""
		if name == "check.py" || name == "check.mjs" { // whose versions word it differently
			text = ofInterpeter.ReplaceAllString(text, "$1: …")
		}
		if s.status >= 0 {
			status = fmt.Sprintf(" (%d)", s.status)
			want, isNamed := statuses[verdict]
			if !isNamed {
				want = 4
			}
			if c.keys != "" && verdict == "holds, key not confirmed" { // the file of keys was named
				want = 0
			}
			if s.status != want {
				t.Errorf("%s: %s: %s exits with %d, want %d", c.File, c.Name, name, s.status, want)
			}
		}
		if c.changes {
			text = varying.ReplaceAllString(text, "…")
		}
		fmt.Fprintf(table, "%-17s %s\n", name+status, text)
		if verdict == "" {
			continue
		}
		if from == "" {
			shared, from, summary = verdict, name, s.lines[1:]
		}
		if verdict != shared {
			t.Errorf("%s: %s: %s says %q, %s %q", c.File, c.Name, from, shared, name, verdict)
		}
		if name != "the console" || len(s.lines) > 1 { // which shows more of a report, as a page
			if !slices.Equal(s.lines[1:], summary) {
				t.Errorf("%s: %s:\n%s says %q\n%s says %q", c.File, c.Name, from, summary, name, s.lines[1:])
			}
		}
	}
	for _, line := range summary {
		if c.changes {
			line = varying.ReplaceAllString(line, "…")
		}
		fmt.Fprintf(table, "  %s\n", line)
	}
}

// A missing value of an option, and an option that there is not, is a mistake of typing for each
// checker: it exits with 2, and says what is missing. None of them ignores it.
func TestCheckersRefuseMistypedOptions(t *testing.T) {
	testenv.Needs(t, testenv.Plain, testenv.NotRaced)
	t.Parallel()
	attestd, err := binary(t)
	must.OK(t, err)
	dir := t.TempDir()
	file := filepath.Join(dir, "small.json")
	must.OK(t, os.WriteFile(file, []byte(evidenceSample(t, "small.json")), 0o600))
	for name, run := range map[string]checkerOf{
		"attestd check": func(t *testing.T, args ...string) ran { return scripted(attestd, "check")(t, args...) },
		"check.py":      scripted(pythonWithCryptography(t), "../sdk/python/attestd/check.py"),
		"check.mjs":     scripted(testenv.Path(t, "node"), "../web/check.mjs"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, test := range []struct {
				message string
				args    []string
			}{
				{"--key", []string{file, "--key"}},
				{"--key", []string{file, "--key="}},
				{"--key", []string{"--key=", file}},
				{"", []string{file, "--key", ""}},
				{"", []string{file, "--key", "--policy"}},
				{"", []string{file, "--key", "SHA256:short"}},
				{"--policy", []string{file, "--policy"}},
				{"--policy", []string{file, "--policy="}},
				{"--agent-key", []string{file, "--agent-key"}},
				{"--agent-key", []string{file, "--key", sampleKey, "--agent-key="}},
				{"", []string{file, "--agent-key", "short"}},
				{"exclude each other", []string{file, "--key", sampleKey, "--policy", file}},
				{"--kye", []string{file, "--kye", sampleKey}},
				{"-k", []string{file, "-k", sampleKey}},
				{"", nil},
			} {
				if r := run(t, test.args...); r.status != 2 || r.stdout != "" || r.stderr == "" || !strings.Contains(r.stderr, test.message) {
					t.Errorf("%s %q: exit status %d, %q and %q; want 2, nothing, and %q", name, test.args, r.status, r.stdout, r.stderr, test.message)
				}
			}
			for _, args := range [][]string{{file, "--key", sampleKey}, {file, "--key=" + sampleKey}, {"--key", sampleKey, file}} {
				if r := run(t, args...); r.status != 0 || !strings.HasPrefix(r.stdout, "holds\n") || r.stderr != "" {
					t.Errorf("%s %q: exit status %d, %q and %q; want 0 and holds", name, args, r.status, r.stdout, r.stderr)
				}
			}
		})
	}
}

// The Python client is imported without the package cryptography, and says that it lacks it when it
// is to check. check.py by itself, imported as a module, raises the error at once.
func TestPythonClientNeedsNoPackage(t *testing.T) {
	testenv.Needs(t, testenv.Plain, testenv.NotRaced)
	t.Parallel()
	dir := t.TempDir() // as in TestCheckPyNamesMissingPackage
	must.OK(t, os.WriteFile(filepath.Join(dir, "cryptography.py"), []byte(`raise ImportError("No module named 'cryptography'")`), 0o600))
	for folder, program := range map[string]string{
		"../sdk/python": `
import attestd
try:
    attestd.Keys({}, "SHA256:")
except attestd.MissingCryptography as missing:
    print(missing)`,
		"../sdk/python/attestd": `
try:
    import check
except ImportError as missing:
    print(missing)`,
	} {
		cmd := exec.CommandContext(t.Context(), testenv.Path(t, "python3"), "-c", program)
		cmd.Env = append(os.Environ(), "PYTHONPATH="+dir+string(os.PathListSeparator)+folder, "PYTHONDONTWRITEBYTECODE=1")
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "cryptography") {
			t.Errorf("%s: %v, %q; want that it names the package", folder, err, out)
		}
	}
}

// check.py says which package it lacks, and the line that installs it. It has no verdict then.
func TestCheckPyNamesMissingPackage(t *testing.T) {
	testenv.Needs(t, testenv.Plain, testenv.NotRaced)
	t.Parallel()
	python := testenv.Path(t, "python3")
	dir := t.TempDir() // a broken package of this name comes before any other
	must.OK(t, os.WriteFile(filepath.Join(dir, "cryptography.py"), []byte(`raise ImportError("No module named 'cryptography'")`), 0o600))
	cmd := exec.CommandContext(t.Context(), python, "../sdk/python/attestd/check.py", "../chain/evidence/testdata/small.json", "--key", sampleKey)
	cmd.Env = append(os.Environ(), "PYTHONPATH="+dir)
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	var exited *exec.ExitError
	if err := cmd.Run(); !errors.As(err, &exited) || exited.ExitCode() != 2 || out.Len() > 0 {
		t.Errorf("%v, %q; want exit status 2 and no verdict", err, out.String())
	}
	for _, message := range []string{"check.py needs the Python package cryptography", "\n    python3 -m pip install cryptography\n"} {
		if !strings.Contains(log.String(), message) || strings.Contains(log.String(), "Traceback") {
			t.Errorf("it says %q, want %q", log.String(), message)
		}
	}
}
