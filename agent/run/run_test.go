package run_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"attestd/agent/run"
	"attestd/internal/testenv"
	"attestd/sdk/attestd"
)

// TestMain lets this test binary also be the command of the tests, which waits for a signal and
// exits with 7.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "wait-for-signal" {
		signals := make(chan os.Signal, 1)
		signal.Notify(signals, syscall.SIGTERM)
		fmt.Println("ready")
		<-signals
		os.Exit(7)
	}
	os.Exit(m.Run())
}

// recorder remembers what was attested.
type recorder struct {
	records []string
	keys    map[string]bool
	fails   string // action type
}

func (k *recorder) record(_ context.Context, a attestd.Attestation) error {
	if a.ActionType == k.fails {
		return errors.New("no room")
	}
	payload, err := json.Marshal(a.Payload)
	k.records, k.keys[a.IdempotencyKey] = append(k.records, a.AgentID+" "+a.ActionType+" "+string(payload)), true
	return err
}

func open(t *testing.T) (*os.File, *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

// Signals are forwarded to the command, and its exit status is returned.
func TestSignalsAreForwarded(t *testing.T) {
	out, w := open(t)
	signals := make(chan os.Signal)
	k := &recorder{keys: map[string]bool{}}
	go func() {
		if line, err := bufio.NewReader(out).ReadString('\n'); err == nil && line == "ready\n" {
			signals <- syscall.SIGTERM
		}
	}()
	status, err := run.Run(t.Context(), run.Config{Agent: "bot", Command: []string{os.Args[0], "wait-for-signal"}, Stdout: w, Stderr: os.Stderr, Signals: signals, Record: k.record})
	if status != 7 || err != nil {
		t.Errorf("%d %v", status, err)
	}
	if len(k.records) != 2 || len(k.keys) != 2 || !strings.HasPrefix(k.records[0], "bot run.started ") || !strings.Contains(k.records[1], `"exitStatus":7`) {
		t.Errorf("%q", k.records)
	}
	for key := range k.keys { // otherwise a reader of the records could use the next key first
		if secret, _, _ := strings.Cut(key, ":"); len(secret) < 39 || strings.Contains(strings.Join(k.records, ""), secret) {
			t.Errorf("the key %q of %q", key, k.records)
		}
	}
}

// A command is not started if its start cannot be attested. If its end cannot be attested, the exit
// status is returned with an error.
func TestUnattestableCommand(t *testing.T) {
	trace := filepath.Join(t.TempDir(), "ran")
	command := []string{"sh", "-c", `echo >"$0"; exit 3`, trace}
	k := &recorder{keys: map[string]bool{}, fails: "run.started"}
	if status, err := run.Run(t.Context(), run.Config{Agent: "bot", Command: command, Record: k.record}); status == 0 || err == nil {
		t.Errorf("%d %v", status, err)
	}
	if _, err := os.Stat(trace); err == nil {
		t.Error("the command was run")
	}
	k.fails = "run.ended"
	if status, err := run.Run(t.Context(), run.Config{Agent: "bot", Command: command, Record: k.record}); status != 3 || err == nil {
		t.Errorf("%d %v", status, err)
	}
}

// Secrets in commit subjects are masked.
func TestSubjectsAreMasked(t *testing.T) {
	git := testenv.Path(t, "git")
	dir := t.TempDir()
	for name, value := range map[string]string{
		"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.com", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@example.com", "GIT_CONFIG_GLOBAL": os.DevNull,
	} {
		t.Setenv(name, value)
	}
	if out, err := exec.Command(git, "-C", dir, "init", "-q").CombinedOutput(); err != nil {
		t.Fatalf("%s %v", out, err)
	}
	k := &recorder{keys: map[string]bool{}}
	c := run.Config{Agent: "ci", Git: dir, Record: k.record, Stderr: os.Stderr, Command: []string{git, "-C", dir, "commit", "-q", "--allow-empty", "-m", "set PGPASSWORD=hunter2 for tests"}}
	if status, err := run.Run(t.Context(), c); status != 0 || err != nil {
		t.Fatal(status, err)
	}
	all := strings.Join(k.records, "\n")
	if strings.Contains(all, "hunter2") || !strings.Contains(all, `"subject":"set PGPASSWORD=[masked 7] for tests"`) {
		t.Error(all)
	}
}

// Each commit of a run is attested as it is, whatever the repository makes git show of it.
func TestCommitsAreFoundWhateverGitShows(t *testing.T) {
	git := testenv.Path(t, "git")
	for name, value := range map[string]string{
		"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.com", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@example.com", "GIT_CONFIG_GLOBAL": os.DevNull,
	} {
		t.Setenv(name, value)
	}
	const old = `GIT_COMMITTER_DATE=2020-01-01T00:00:00Z GIT_AUTHOR_DATE=2020-01-01T00:00:00Z `
	for name, c := range map[string]struct {
		before, script string // in a clone of ../upstream, which has a commit
		subjects       []string
	}{
		"replaced": {script: `git commit -q --allow-empty -m one && git commit -q --allow-empty -m two && git replace HEAD HEAD~2`, subjects: []string{"one", "two"}},
		"with a replacement of what was known": {before: `git commit -q --allow-empty -m other && git replace HEAD~1 HEAD && git reset -q --hard HEAD~1`,
			script: `git commit -q --allow-empty -m one`, subjects: []string{"one"}},
		"in another encoding": {before: `git config i18n.logOutputEncoding UTF-16 && git config i18n.commitEncoding ISO-8859-1`,
			script: `printf 'caf\351' | git commit -q --allow-empty -F -`, subjects: []string{"caf\u00e9"}},
		"grafted":              {script: `git commit -q --allow-empty -m one && git commit -q --allow-empty -m two && mkdir -p .git/info && git rev-parse HEAD >.git/info/grafts`, subjects: []string{"one", "two"}},
		"backdated and pushed": {script: old + `git commit -q --allow-empty -m one && git push -q origin HEAD:refs/heads/other`, subjects: []string{"one"}},
		"fetched":              {script: `git -C ../upstream checkout -q --detach && ` + old + `git -C ../upstream commit -q --allow-empty -m theirs && git -C ../upstream branch -f theirs && git fetch -q`},
		"of a tree alone":      {script: `git commit-tree -m one HEAD^{tree}`, subjects: []string{"one"}},
		"amended without a reflog": {before: `git config core.logAllRefUpdates false`,
			script: `git commit -q --allow-empty -m one && git commit -q --allow-empty --amend -m two`, subjects: []string{"one", "two"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			clone := filepath.Join(dir, "clone")
			shell := func(in, script string) {
				cmd := exec.Command("sh", "-ec", script)
				cmd.Dir = in
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Fatalf("%s: %s %v", script, out, err)
				}
			}
			shell(dir, git+` init -q upstream && `+old+git+` -C upstream commit -q --allow-empty -m first && git clone -q upstream clone`)
			if c.before != "" {
				shell(clone, c.before)
			}
			k := &recorder{keys: map[string]bool{}}
			status, err := run.Run(t.Context(), run.Config{Agent: "ci", Git: clone, Record: k.record, Stderr: os.Stderr,
				Command: []string{"sh", "-ec", "cd '" + clone + "' && " + c.script}})
			if status != 0 || err != nil {
				t.Fatal(status, err)
			}
			var subjects []string
			for _, record := range k.records {
				if _, rest, is := strings.Cut(record, `"subject":"`); is {
					subject, _, _ := strings.Cut(rest, `"`)
					subjects = append(subjects, subject)
				}
			}
			slices.Sort(subjects)
			if !slices.Equal(subjects, c.subjects) {
				t.Errorf("attested %q, made %q", subjects, c.subjects)
			}
		})
	}
}
