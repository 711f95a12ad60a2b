//go:build linux && agents

package claude

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// other is a coding agent that the default tests do not install: half a gigabyte.
func other(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("others", "node_modules", ".bin", name))
	must(t, err)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("there is no %s: npm ci --ignore-scripts --prefix test/claude/others", name)
	}
	return path
}

// newOtherDesk starts a server, and puts an agent into the PATH of a user who has one.
func newOtherDesk(t *testing.T, name string) *desk {
	t.Helper()
	d := bareDesk(t)
	must(t, os.Symlink(other(t, name), filepath.Join(d.bin, name)))
	return d
}

// start runs an agent to its end, in the project.
func (d *desk) start(environment []string, command ...string) string {
	d.t.Helper()
	path := filepath.Join(d.bin, command[0])
	cmd := exec.CommandContext(d.t.Context(), path, command[1:]...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = d.project, d.environment(environment...), patience
	out, err := cmd.CombinedOutput()
	if err != nil {
		d.t.Fatalf("%v: %v\n%s", command, err, out)
	}
	return string(out)
}

// The real Codex is used: init reports that it needs trust. Without trust a call runs and nothing
// is recorded; with it the call is in the chain, as --check had announced.
func TestCodex(t *testing.T) {
	d := newOtherDesk(t, "codex")
	asked := 0
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if os.Getenv("SHOW_MODEL") != "" {
			t.Logf("%s %s %.6000s", r.Method, r.URL, body)
		}
		if !strings.HasSuffix(r.URL.Path, "/responses") {
			http.NotFound(w, r)
			return
		}
		asked++
		w.Header().Set("Content-Type", "text/event-stream")
		event := func(kind string, more map[string]any) {
			more["type"] = kind
			data, _ := json.Marshal(more)
			fmt.Fprintf(w, "event: %s\ndata: %s\n\n", kind, data)
		}
		type o = map[string]any
		event("response.created", o{"response": o{"id": fmt.Sprint("r", asked)}})
		if strings.Contains(string(body), `"function_call_output"`) || strings.Contains(string(body), `"custom_tool_call_output"`) {
			event("response.output_item.done", o{"item": o{"type": "message", "role": "assistant", "content": []o{{"type": "output_text", "text": "done"}}}})
		} else {
			event("response.output_item.done", o{"item": codexCall(string(body))})
		}
		event("response.completed", o{"response": o{"id": fmt.Sprint("r", asked), "usage": o{"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}}})
	}))
	t.Cleanup(model.Close)

	said := d.attestd("", "init", "codex", "--write")
	d.admin = adminKey(t, said)
	if !strings.Contains(said, "Codex 0.169.0") || !strings.Contains(said, "Codex runs no hook before you have trusted it") {
		t.Error(said)
	}
	if said := d.attestd("", "init", "codex", "--check"); !strings.Contains(said, "tool.completed by codex") || !strings.Contains(said, "Codex runs no hook before you have trusted it") {
		t.Error(said)
	}
	ready := []string{"agent.watched", "tool.requested attestd-check", "tool.completed attestd-check"}
	config := "model = \"mock\"\nmodel_provider = \"mock\"\napproval_policy = \"never\"\nsandbox_mode = \"danger-full-access\"\n[model_providers.mock]\nname = \"mock\"\nbase_url = \"" + model.URL + "/v1\"\nwire_api = \"responses\"\n"
	must(t, os.WriteFile(filepath.Join(d.home, ".codex", "config.toml"), []byte(config), 0o600))
	mark := filepath.Join(d.project, "mark")

	d.start(nil, "codex", "exec", "--skip-git-repo-check", "go")
	d.ran(mark)
	d.recorded(ready...)

	d.start(nil, "codex", "exec", "--skip-git-repo-check", "--dangerously-bypass-hook-trust", "go")
	d.ran(mark)
	d.recorded(append(ready, "tool.requested call_1", "tool.completed call_1")...)

	d.attestd("", "init", "codex", "--remove")
	d.start(nil, "codex", "exec", "--skip-git-repo-check", "--dangerously-bypass-hook-trust", "go")
	d.ran(mark)
	d.recorded(append(ready, "tool.requested call_1", "tool.completed call_1")...)
}

// codexCall is a call of the tool that runs commands, under the name that this version gives it.
func codexCall(request string) map[string]any {
	call := map[string]any{"type": "function_call", "call_id": "call_1", "name": "shell", "arguments": `{"command":["bash","-c","touch mark"]}`}
	if strings.Contains(request, `"exec_command"`) {
		call["name"], call["arguments"] = "exec_command", `{"cmd":"touch mark"}`
	} else if strings.Contains(request, `"shell_command"`) {
		call["name"], call["arguments"] = "shell_command", `{"command":"touch mark"}`
	}
	return call
}

// The real Gemini CLI: a call of it is in the chain, and after --remove none is.
func TestGeminiCLI(t *testing.T) {
	d := newOtherDesk(t, "gemini")
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if os.Getenv("SHOW_MODEL") != "" {
			t.Logf("%s %s %.3000s", r.Method, r.URL, body)
		}
		part := `{"functionCall":{"name":"run_shell_command","args":{"command":"touch mark","description":"a test"}}}`
		if strings.Contains(string(body), `"functionResponse"`) {
			part = `{"text":"done"}`
		}
		answer := `{"candidates":[{"content":{"role":"model","parts":[` + part + `]},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":1,"candidatesTokenCount":1,"totalTokenCount":2}}`
		switch {
		case strings.Contains(r.URL.Path, ":streamGenerateContent"):
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "data: %s\n\n", answer)
		case strings.Contains(r.URL.Path, ":generateContent"):
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, answer)
		case strings.Contains(r.URL.Path, ":countTokens"):
			fmt.Fprint(w, `{"totalTokens":1}`)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(model.Close)
	settings := filepath.Join(d.home, ".gemini", "settings.json")
	must(t, os.MkdirAll(filepath.Dir(settings), 0o700))
	must(t, os.WriteFile(settings, []byte(`{"security":{"auth":{"selectedType":"gemini-api-key"}},"telemetry":{"enabled":false},"privacy":{"usageStatisticsEnabled":false},"general":{"enableAutoUpdate":false}}`), 0o600))
	before, err := os.ReadFile(settings)
	must(t, err)

	said := d.attestd("", "init", "gemini", "--write")
	d.admin = adminKey(t, said)
	if !strings.Contains(said, "Gemini CLI 0.61.0") {
		t.Error(said)
	}
	if said := d.attestd("", "init", "gemini", "--check"); !strings.Contains(said, "tool.completed by gemini") {
		t.Error(said)
	}
	environment := []string{"GOOGLE_GEMINI_BASE_URL=" + model.URL, "GEMINI_API_KEY=test", "GEMINI_CLI_TRUST_WORKSPACE=true"}
	mark := filepath.Join(d.project, "mark")
	d.start(environment, "gemini", "-m", "gemini-2.5-flash", "--yolo", "-p", "go")
	d.ran(mark)
	names, _ := d.records()
	// It does not wait for the hook of its end.
	if got := strings.ReplaceAll(strings.Join(names, ","), ",session.ended", ""); got != "agent.watched,tool.completed,tool.completed,tool.requested,tool.requested" {
		t.Errorf("recorded %s", got)
	}

	d.attestd("", "init", "gemini", "--remove")
	after, err := os.ReadFile(settings)
	must(t, err)
	var was, is any
	must(t, json.Unmarshal(before, &was))
	must(t, json.Unmarshal(after, &is))
	if fmt.Sprint(was) != fmt.Sprint(is) {
		t.Errorf("the settings were %s and are %s", before, after)
	}
	d.start(environment, "gemini", "-m", "gemini-2.5-flash", "--yolo", "-p", "go")
	d.ran(mark)
	if left, _ := d.records(); strings.Count(strings.Join(left, ","), "tool.") != 4 {
		t.Errorf("recorded %v, of which a call was made without hooks", left)
	}
}
