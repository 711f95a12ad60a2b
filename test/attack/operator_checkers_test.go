package attack

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"attestd/chain/evidence"
	"attestd/chain/evidence/evidencetest"
	"attestd/internal/harness"
)

// judged is a file and the trusted keys, as the checkers get them.
type judged struct {
	File []byte `json:"file"`
	Key  string `json:"key"` // fingerprint of the company's key
	Pin  string `json:"pin"` // "" for none
}

// opinion is what a checker says of a file.
type opinion struct {
	Verdict string   `json:"verdict"` // holds, or fails with a code
	Said    []string `json:"said"`    // what it has checked
}

func (o opinion) holds() bool { return o.Verdict == "holds" }

// evidenceChecker is one of those that check evidence and sessions.
type evidenceChecker struct {
	name  string
	judge func(context.Context, []judged) ([]opinion, error)
}

var (
	//go:embed operator_judge.py
	judgeInPython []byte
	//go:embed operator_judge.mjs
	judgeInNode []byte
)

// evidenceCheckers returns attestd check, check.py, check.mjs, and the modules that verifier.html
// and the console are made of. What an interpreter is missing for fails in CI, and is left out
// elsewhere.
func evidenceCheckers(ctx context.Context, r *run) (list []evidenceChecker, err error) {
	root, err := harness.Root(ctx)
	if err != nil {
		return nil, err
	}
	list = append(list, evidenceChecker{"attestd check", func(ctx context.Context, given []judged) ([]opinion, error) {
		return judgeByCommand(ctx, r, given)
	}})
	for _, python := range []string{"python3", "/usr/bin/python3"} {
		if exec.CommandContext(ctx, python, "-c", "import cryptography").Run() == nil {
			list = append(list, evidenceChecker{"check.py", judgeByScript(r, python, "judge.py", judgeInPython, filepath.Join(root, "sdk/python/attestd"))})
			break
		}
	}
	if node, err := exec.LookPath("node"); err == nil {
		list = append(list,
			evidenceChecker{"check.mjs", judgeByScript(r, node, "judge.mjs", judgeInNode, filepath.Join(root, "web"), "check")},
			evidenceChecker{"the console", judgeByScript(r, node, "judge.mjs", judgeInNode, filepath.Join(root, "web"), "console")})
	}
	if len(list) < 4 && os.Getenv("CI") == "true" {
		return nil, fmt.Errorf("only %d of four checkers: there is no Python with the package cryptography, or no Node", len(list))
	}
	return list, nil
}

// judgeByCommand runs attestd check for each file.
func judgeByCommand(ctx context.Context, r *run, given []judged) (all []opinion, err error) {
	folder, err := r.Lab.Folder()
	if err != nil {
		return nil, err
	}
	path := filepath.Join(folder, "file")
	for _, g := range given {
		if err := os.WriteFile(path, g.File, 0o600); err != nil {
			return nil, err
		}
		args := []string{"check", path, "--key", g.Key, "--json"}
		if g.Pin != "" {
			args = append(args, "--agent-key", g.Pin)
		}
		out, err := exec.CommandContext(ctx, r.Lab.Binary(), args...).Output()
		var v evidence.Verdict
		if failed := json.Unmarshal(out, &v); failed != nil {
			return nil, fmt.Errorf("%w: %w: %.300s", err, failed, out)
		}
		all = append(all, opinionOf(v))
	}
	return all, nil
}

// checkInProcess is what package evidence says of a file.
func checkInProcess(file []byte, pin string) evidence.Verdict {
	trust := evidence.Trust{Fingerprint: evidencetest.Fingerprint(0), AgentKey: pin}
	if src := evidence.Reader(bytes.NewReader(file)); evidence.IsSession(src) {
		return evidence.CheckSession(src, trust)
	}
	return evidence.Check(file, trust)
}

func opinionOf(v evidence.Verdict) opinion {
	return opinion{strings.TrimSpace(string(v.Outcome) + " " + string(v.Code)), v.Checked}
}

// judgeByScript runs a script that reads the files from its standard input.
func judgeByScript(r *run, program, name string, script []byte, args ...string) func(context.Context, []judged) ([]opinion, error) {
	return func(ctx context.Context, given []judged) (all []opinion, err error) {
		folder, err := r.Lab.Folder()
		if err != nil {
			return nil, err
		}
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, script, 0o600); err != nil {
			return nil, err
		}
		text, err := json.Marshal(given)
		if err != nil {
			return nil, err
		}
		var output bytes.Buffer
		cmd := exec.CommandContext(ctx, program, append([]string{path}, args...)...)
		cmd.Stdin, cmd.Stderr = bytes.NewReader(text), &output
		out, err := cmd.Output()
		if err == nil {
			err = json.Unmarshal(out, &all)
		}
		if err == nil && len(all) != len(given) {
			err = fmt.Errorf("%d opinions on %d files", len(all), len(given))
		}
		if err != nil {
			err = fmt.Errorf("%w: %.500s", err, output.Bytes())
		}
		return all, err
	}
}
