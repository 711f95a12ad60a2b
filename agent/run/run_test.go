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
	if strings.Contains(all, "hunter2") || !strings.Contains(all, `"subject":"set PGPASSWORD=[masked] for tests"`) {
		t.Error(all)
	}
}
