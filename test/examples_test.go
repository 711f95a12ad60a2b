package test

import (
	"bytes"
	"cmp"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"attestd/internal/approver"
	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store/storetest"
)

// toolRecord is what the examples' records of tool calls have in common.
type toolRecord struct {
	Payload struct {
		ActionType string
		Payload    struct {
			Source, Tool, CallID, SessionID string
			Input, Output, Error            any
		}
	}
}

// The examples that watch an agent's framework, with the real package and a model that is a script,
// attest each tool call of their agent: what was asked and what came of it, in order and once.
func TestExamplesAttestToolCalls(t *testing.T) {
	othersRun(t)
	s := serve(t, storetest.New(t), "--rate-limits", "off")
	for _, name := range []string{"langchain", "openai-agents"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := "../examples/" + name
			if _, err := os.Stat(dir + "/node_modules"); err != nil {
				testenv.Missing(t, "there are no packages: npm ci --prefix examples/"+name)
			}
			builtClient(t)
			c := s.register(t, name)
			cmd := exec.CommandContext(t.Context(), testenv.Path(t, "node"), "example.mjs", t.TempDir())
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "ATTESTD_URL="+s.URL, "ATTESTD_KEY="+c.key)
			if out, err := cmd.CombinedOutput(); err != nil || string(out) != "It rains in Oslo, and I could not book.\n" {
				t.Fatalf("the agent ends with %v:\n%s", err, out)
			}
			var chain struct{ Records []toolRecord }
			c.call(t, 200, "GET", "/v1/chain", "", &chain)
			want := []struct{ action, tool string }{{"tool.requested", "weather"}, {"tool.completed", "weather"}, {"tool.requested", "book"}, {"tool.failed", "book"}}
			if len(chain.Records) != len(want) {
				t.Fatalf("the chain has %d records, want %d", len(chain.Records), len(want))
			}
			calls := map[string]int{}
			for i, r := range chain.Records {
				has := r.Payload.Payload
				if r.Payload.ActionType != want[i].action || has.Tool != want[i].tool || has.Source != name || cmp.Or(has.CallID, has.SessionID) == "" {
					t.Errorf("record %d is %+v, want %s of %s", i, r.Payload, want[i].action, want[i].tool)
				}
				given := []any{has.Input, has.Output, has.Error}[slices.Index([]string{"tool.requested", "tool.completed", "tool.failed"}, want[i].action)]
				if given == nil {
					t.Errorf("record %d says nothing of it: %+v", i, has)
				}
				calls[has.CallID]++
			}
			if len(calls) != 2 {
				t.Errorf("two calls have the IDs %v", calls)
			}
		})
	}
}

// The examples that have a person approve a call make it after that alone, and with the approval on
// record.
func TestExamplesWaitForApproval(t *testing.T) {
	othersRun(t)
	s := serve(t, storetest.New(t), "--rate-limits", "off")
	for _, name := range []string{"langchain", "openai-agents"} {
		for verdict, want := range map[string]struct {
			says    string
			actions []string
		}{
			"approve": {"The hotel: paid 500.\n", []string{"approval.requested", "tool.requested"}},
			"deny":    {" is denied: too dear.\n", []string{"approval.requested"}},
		} {
			t.Run(name+"/"+verdict, func(t *testing.T) {
				t.Parallel()
				dir := "../examples/" + name
				if _, err := os.Stat(dir + "/node_modules"); err != nil {
					testenv.Missing(t, "there are no packages: npm ci --prefix examples/"+name)
				}
				builtClient(t)
				c := s.register(t, name+"-"+verdict)
				alice := approver.New(t, s.URL, c.key, "alice")
				cmd := exec.CommandContext(t.Context(), testenv.Path(t, "node"), "approve.mjs")
				cmd.Dir = dir
				cmd.Env = append(os.Environ(), "ATTESTD_URL="+s.URL, "ATTESTD_KEY="+c.key)
				var out bytes.Buffer
				cmd.Stdout, cmd.Stderr = &out, &out
				must.OK(t, cmd.Start())
				id := alice.Pending(t)
				alice.Decide(t, id, verdict, "too dear")
				if err := cmd.Wait(); err != nil || !strings.HasSuffix(out.String(), want.says) {
					t.Fatalf("the agent ends with %v:\n%s", err, &out)
				}
				all := c.decided(t)
				var actions []string
				for _, r := range all {
					actions = append(actions, r.ActionType)
				}
				if !slices.Equal(actions, want.actions) {
					t.Fatalf("recorded %q, want %q", actions, want.actions)
				}
				if d := all[len(actions)-1].Decision; verdict == "approve" && (d.Verdict != "allow" || d.Approval != id) {
					t.Errorf("the decision of the call is %+v", d)
				}
			})
		}
	}
}

// shownRun are the commands that docs/agents/everything-else.md shows for an example.
var shownRun = regexp.MustCompile("(?s)Run one from a fresh clone.*?```\n(.*?)```")

// In a clone in which nothing was installed or built, the commands that
// docs/agents/everything-else.md shows run each example in JavaScript.
func TestExamplesRunInAFreshClone(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	othersRun(t)
	npm := testenv.Path(t, "npm")
	text, err := os.ReadFile("../docs/agents/everything-else.md")
	must.OK(t, err)
	shown := shownRun.FindSubmatch(text)
	if shown == nil {
		t.Fatal("docs/agents/everything-else.md does not show how an example is run")
	}
	s := serve(t, storetest.New(t), "--rate-limits", "off")
	for _, name := range []string{"langchain", "openai-agents"}[:testenv.Rounds(1, 2)] {
		t.Run(name, func(t *testing.T) {
			clone := t.TempDir()
			for _, dir := range []string{"sdk", "examples", "web"} {
				copyUnbuilt(t, "../"+dir, filepath.Join(clone, dir))
			}
			c := s.register(t, "fresh-"+name)
			script := strings.NewReplacer("langchain", name, "http://127.0.0.1:8080", s.URL, "svc_…", c.key).Replace(string(shown[1]))
			cmd := exec.CommandContext(t.Context(), "sh", "-ec", script)
			cmd.Dir = clone
			cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(npm)+string(filepath.ListSeparator)+os.Getenv("PATH"))
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(string(out), "It rains in Oslo, and I could not book.\n") {
				t.Fatalf("%s: %v\n%s", script, err, out)
			}
			var chain struct{ Records []toolRecord }
			c.call(t, 200, "GET", "/v1/chain", "", &chain)
			if len(chain.Records) != 4 {
				t.Errorf("the chain has %d records, want 4", len(chain.Records))
			}
		})
	}
}

// copyUnbuilt copies what a clone has of a folder.
func copyUnbuilt(t *testing.T, from, to string) {
	t.Helper()
	must.OK(t, filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		rest, _ := filepath.Rel(from, path)
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "node_modules" || d.Name() == "dist" || strings.HasPrefix(d.Name(), ".dist-")):
			return filepath.SkipDir
		case d.IsDir():
			return os.MkdirAll(filepath.Join(to, rest), 0o700)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rest), text, 0o600)
	}))
}
