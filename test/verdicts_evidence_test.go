package test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	bundle "attestd/chain/evidence"
	"attestd/web"

	"attestd/chain/tlog"
	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/service/decide"
)

// evidenceCase is a file, of a record or a session, and what is trusted: a key, a policy or
// nothing, and a key of the agent.
type evidenceCase struct {
	Name     string `json:"name"`
	File     []byte `json:"file"`
	Key      string `json:"key"`
	Policy   string `json:"policy"`
	AgentKey string `json:"agentKey"`
	// fingerprints of passkeys; none for no pin
	Approvers []string `json:"approvers"`

	// What the passed checks also report, where it matters: who has signed, or what is missing.
	// Each is a part of it.
	Says []string `json:"says"`
}

// verdict returns package evidence's verdict on a case in the words of the other checkers: holds,
// self-consistent, fails with its code, or usage if the policy is invalid.
func (c *evidenceCase) verdict() string { return c.verdictBy(nil) }

// verdictBy is verdict of a checker that evaluates policies, which nil does not.
func (c *evidenceCase) verdictBy(d bundle.Decider) string {
	trust := bundle.Trust{Fingerprint: c.Key, AgentKey: c.AgentKey, Decider: d}
	if c.Approvers != nil {
		trust.Approvers = bundle.NewApprovers(c.Approvers...)
	}
	if c.Policy != "" {
		var err error
		if trust.Policy, err = tlog.ParsePolicy([]byte(c.Policy)); err != nil {
			return "usage"
		}
	}
	v := c.check(trust)
	return strings.TrimSpace(string(v.Outcome)+" "+string(v.Code)) + c.heard(strings.Join(v.Checked, "\n"))
}

func (c *evidenceCase) check(trust bundle.Trust) bundle.Verdict {
	if src := bundle.Reader(bytes.NewReader(c.File)); bundle.IsSession(src) {
		return bundle.CheckSession(src, trust)
	}
	return bundle.Check(c.File, trust)
}

// heard reports whether the output has c.Says; "" where the case has none.
func (c *evidenceCase) heard(checked string) string {
	switch {
	case len(c.Says) == 0:
		return ""
	case slices.ContainsFunc(c.Says, func(message string) bool { return !strings.Contains(checked, message) }):
		return " not said"
	}
	return " said"
}

// The five that check evidence files are package evidence, attestd check, verifier.html in a
// browser and from disk, check.py and check.mjs. They check the same files, genuine and changed in
// every field, with a key, with a policy and with nothing, and come to the same verdict and code.
// Package evidence checks all; see shared and commandVerdicts for the others.
func TestEvidenceCheckersAgree(t *testing.T) {
	testenv.Needs(t, testenv.Slow, testenv.Plain, testenv.NotRaced)
	t.Parallel()
	cases := evidenceCases(t)
	want, count := make([]string, len(cases)), make(map[string]int)
	for i, c := range cases {
		want[i] = c.verdict()
		count[want[i]]++
	}
	t.Logf("%d cases: %v", len(cases), count)
	for _, verdict := range []string{
		"holds", "self-consistent", "usage", "fails MALFORMED", "fails KEYS", "fails RECORD", "fails HEX_PROOF", "fails WITNESSES", "fails LOG_PROOF",
		"fails DELEGATION", "fails STATEMENT", "holds said", "self-consistent said", "fails AUTHORITY", "fails PASSPORT", "fails STATUS", "fails DECISION", "fails NOT_PROVEN", "fails KEY", "fails POLICY",
	} {
		if count[verdict] == 0 {
			t.Errorf("no case is to come to %s", verdict)
		}
	}
	checkersAgree(t, cases, want)
}

// checkersAgree compares the verdicts of the other checkers with those of package evidence.
func checkersAgree(t *testing.T, cases []evidenceCase, want []string) {
	t.Helper()
	for name, judge := range map[string]func(t *testing.T, dir string, given []byte) []string{
		"Python": func(t *testing.T, dir string, _ []byte) []string {
			return script(t, dir, pythonWithCryptography(t), "verdicts_evidence.py")
		},
		"Python without assertions": func(t *testing.T, dir string, _ []byte) []string {
			return script(t, dir, pythonWithCryptography(t), "-O", "verdicts_evidence.py")
		},
		"JavaScript": func(t *testing.T, dir string, _ []byte) []string {
			return script(t, dir, testenv.Path(t, "node"), "verdicts_evidence.mjs")
		},
		"page": func(t *testing.T, _ string, given []byte) []string { return pageVerdicts(t, given) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shown := shared(cases, want, map[string]int{"Python": 0, "Python without assertions": 1, "JavaScript": 2, "page": 3}[name])
			some := make([]evidenceCase, len(shown))
			for i, at := range shown {
				some[i] = cases[at]
			}
			given, err := json.Marshal(some)
			must.OK(t, err)
			dir := t.TempDir()
			must.OK(t, os.WriteFile(filepath.Join(dir, "evidence.json"), given, 0o600))
			for _, name := range []string{"../sdk/python/attestd/check.py", "../web/check.mjs", "testdata/verdicts_evidence.py", "testdata/verdicts_evidence.mjs"} {
				text, err := os.ReadFile(name)
				must.OK(t, err)
				must.OK(t, os.WriteFile(filepath.Join(dir, filepath.Base(name)), text, 0o600))
			}
			verdicts := judge(t, dir, given)
			if len(verdicts) != len(some) {
				t.Fatalf("%d verdicts on %d cases", len(verdicts), len(some))
			}
			for i, c := range some {
				if verdicts[i] != want[shown[i]] {
					t.Errorf("%s: %s, want %s", c.Name, verdicts[i], want[shown[i]])
				}
			}
		})
	}
	t.Run("command", func(t *testing.T) {
		t.Parallel()
		commandVerdicts(t, cases, want)
	})
}

// shared returns the numbers of the cases that a checker checks: all with -night. Otherwise the
// checkers share every other changed field, which one of the four checks; each checks all genuine
// files and all named changes, with nothing trusted, every eighth with a key or a policy, and at
// least one case of each verdict.
func shared(cases []evidenceCase, want []string, checker int) (shown []int) {
	reached := make(map[string]bool)
	for i, c := range cases {
		changed := strings.HasPrefix(c.Name, "/") || strings.HasSuffix(c.Name, ", with a key") || strings.HasSuffix(c.Name, ", with a policy")
		if genuine := strings.Contains(c.Name, ".json, with"); testenv.Night() || !changed || genuine || !reached[want[i]] || i%8 == checker {
			shown = append(shown, i)
			reached[want[i]] = true
		}
	}
	return shown
}

func script(t *testing.T, dir, program string, args ...string) (verdicts []string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	out, err := cmd.Output()
	must.OK(t, err)
	must.OK(t, json.Unmarshal(out, &verdicts))
	return verdicts
}

// pageVerdicts runs verifier.html from disk, in a browser that finds no host.
func pageVerdicts(t *testing.T, cases []byte) []string {
	t.Helper()
	page := filepath.Join(t.TempDir(), "verifier.html")
	must.OK(t, os.WriteFile(page, web.Verifier(), 0o600))
	judge, err := os.ReadFile("testdata/verdicts_evidence_page.js")
	must.OK(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(testenv.Chromium(t)), chromedp.NoSandbox,
		chromedp.DisableGPU, chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND"), chromedp.Flag("disable-frame-rate-limit", true), chromedp.UserDataDir(t.TempDir()))...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	must.OK(t, chromedp.Do(ctx, chromedp.Navigate("file://"+filepath.ToSlash(page))))
	_, script, _ := strings.Cut(string(judge), "\n")
	verdicts, err := chromedp.Run(ctx, chromedp.Evaluate[[]string](fmt.Sprintf("(%s)(%s)", script, cases), chromedp.EvalAwaitPromise))
	must.OK(t, err)
	return verdicts
}

// commandVerdicts compares the exit status of attestd check, and the code that it prints, for
// genuine files and named changes. Its verdict is that of package evidence: without -night it
// checks some of each verdict with each kind of trust, because each needs a process.
func commandVerdicts(t *testing.T, cases []evidenceCase, want []string) {
	t.Helper()
	dir := t.TempDir()
	status := map[string]int{"holds": 0, "self-consistent": 5, "fails": 4, "usage": 2}
	judged := make(map[string]int)
	for i, c := range cases {
		class := fmt.Sprint(want[i], c.Key != "", c.Policy != "", c.AgentKey != "", c.Approvers != nil)
		if judged[class]++; strings.HasPrefix(c.Name, "/") || !testenv.Night() && judged[class] > 3 && i%8 > 0 {
			continue
		}
		evaluated, says := c.verdictBy(new(decide.Decider)), len(c.Says) > 0
		evaluated, isUnsaid := strings.CutSuffix(evaluated, " not said")
		says = says && !isUnsaid
		outcome, code, _ := strings.Cut(strings.TrimSuffix(evaluated, " said"), " ")
		file, policy := filepath.Join(dir, "file"), filepath.Join(dir, "policy")
		must.OK(t, os.WriteFile(file, c.File, 0o600))
		args := []string{"check", file, "--json"}
		if c.Key != "" {
			args = append(args, "--key", c.Key)
		}
		if c.Policy != "" {
			must.OK(t, os.WriteFile(policy, []byte(c.Policy), 0o600))
			args = append(args, "--policy", policy)
		}
		if c.AgentKey != "" {
			args = append(args, "--agent-key", c.AgentKey)
		}
		for _, key := range c.Approvers {
			args = append(args, "--approver-key", key)
		}
		out, err := attestd(t, args...)
		exit := 0
		if exited := (*exec.ExitError)(nil); errors.As(err, &exited) {
			exit = exited.ExitCode()
		} else {
			must.OK(t, err)
		}
		if exit != status[outcome] || outcome == "fails" && !bytes.Contains([]byte(out), []byte(`"code":"`+code+`"`)) ||
			says && code == "" && c.heard(out) == " not said" {
			t.Errorf("%s: exit status %d, want %s: %s", c.Name, exit, evaluated, out)
		}
	}
}
