//go:build linux

package claude

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"attestd/internal/must"
)

// codexModel is a mock of the API that Codex asks: it calls a command, then a tool of an MCP server
// if there is one, and is done.
func codexModel(t *testing.T) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if os.Getenv("SHOW_MODEL") != "" {
			t.Logf("%s %s %.20000s", r.Method, r.URL, body)
		}
		if !strings.HasSuffix(r.URL.Path, "/responses") {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		type o = map[string]any
		event := func(kind string, more o) {
			more["type"] = kind
			data, _ := json.Marshal(more)
			fmt.Fprintf(w, "event: %s\ndata: %s\n\n", kind, data)
		}
		event("response.created", o{"response": o{"id": "r"}})
		event("response.output_item.added", o{"item": codexAnswer(string(body))})
		for _, delta := range []string{"do", "ne"} {
			event("response.output_text.delta", o{"delta": delta, "item_id": "m1"})
		}
		event("response.output_item.done", o{"item": codexAnswer(string(body))})
		event("response.completed", o{"response": o{"id": "r", "usage": o{"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}}})
	}
}

// codexAnswer is what the model does next.
func codexAnswer(request string) map[string]any {
	call := func(id, name, namespace, arguments string) map[string]any {
		item := map[string]any{"type": "function_call", "call_id": id, "name": name, "arguments": arguments}
		if namespace != "" {
			item["namespace"] = namespace
		}
		return item
	}
	switch answered := strings.Count(request, `"function_call_output"`); {
	case answered == 0:
		return call("call_1", "exec_command", "", `{"cmd":"touch mark; exit 3"}`)
	case answered == 1 && strings.Contains(request, "mcp__log"):
		return call("call_2", "verify", "mcp__log", `{}`)
	}
	return map[string]any{"type": "message", "id": "m1", "role": "assistant",
		"content": []any{map[string]any{"type": "output_text", "text": "done"}}}
}

// codexConfig has Codex ask only the mock.
const codexConfig = `model = "mock"
model_provider = "mock"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false
[model_providers.mock]
name = "mock"
base_url = "MODEL/v1"
wire_api = "responses"
[analytics]
enabled = false
[features]
plugins = false
apps = false
`

// The real Codex is used: init reports that it needs trust. Without trust a call runs and nothing
// is recorded; with it the call is in the chain, as --check had announced, and so are the call of
// an MCP server behind `attestd mcp` and what Codex itself tells by OpenTelemetry.
func TestCodex(t *testing.T) {
	d, model := newOtherDesk(t, "codex", codexModel(t))
	output := d.attestd("", "init", "codex", "--write")
	d.admin = adminKey(t, output)
	const trust = "Codex does not run a hook before you trust it"
	if !strings.Contains(output, "Codex 0.169.0") || !strings.Contains(output, trust) {
		t.Error(output)
	}
	if output := d.attestd("", "init", "codex", "--check"); !strings.Contains(output, "tool.ended by codex") || !strings.Contains(output, trust) {
		t.Error(output)
	}
	config := filepath.Join(d.home, ".codex", "config.toml")
	plain := strings.Replace(codexConfig, "MODEL", model, 1)
	must.OK(t, os.WriteFile(config, []byte(plain), 0o600))
	mark := filepath.Join(d.project, "mark")
	ready := []string{"agent.watched", "tool.requested attestd-check", "tool.ended attestd-check"}

	d.start("codex exec --skip-git-repo-check go </dev/null")
	d.ran(mark)
	d.recorded(ready...)

	path, err := binary()
	must.OK(t, err)
	d.start("codex mcp add log -- " + path + " mcp --agent codex --server log -- " + path + " mcp-server --agent codex")
	written, err := os.ReadFile(config)
	must.OK(t, err)
	must.OK(t, os.WriteFile(config, append(written, documented(t, "[otel]")...), 0o600))
	d.start("export ATTESTD_KEY=" + d.writerKey() + "\n" + documented(t, "export OTEL_EXPORTER_OTLP_HEADERS=\"Authorization=Bearer $ATTESTD_KEY\"\ncodex") + " exec --skip-git-repo-check --dangerously-bypass-hook-trust go </dev/null")
	d.ran(mark)
	by := d.actions()
	// Codex does not say whether a command has failed, and of an MCP server's tool it does
	for tool, is := range map[string]action{"Bash": {kind: "tool.ended", CallID: "call_1"}, "mcp__log__verify": {kind: "tool.completed", CallID: "call_2"}} {
		has(t, by["codex"], 1, action{kind: "tool.requested", Tool: tool, CallID: is.CallID})
		has(t, by["codex"], 1, action{kind: is.kind, Tool: tool, CallID: is.CallID})
	}
	has(t, by["mcp"], 1, action{kind: "tool.requested", Tool: "verify", Server: "log"})
	has(t, by["mcp"], 1, action{kind: "tool.completed", Tool: "verify", Server: "log"})
	for tool, id := range map[string]string{"exec_command": "call_1", "verify": "call_2"} {
		has(t, by["otlp"], 1, action{kind: "otel.tool", Name: "codex.tool_result", Tool: tool, CallID: id})
	}
	has(t, by["otlp"], 1, action{kind: "otel.decision", Name: "codex.tool_decision", Tool: "exec_command", CallID: "call_1"})
	has(t, by["otlp"], 1, action{kind: "otel.event", Name: "codex.user_prompt"})
	has(t, by["otlp"], 3, action{kind: "otel.model", Name: "codex.api_request"})
	has(t, by["otlp"], 3, action{kind: "otel.model", Name: "codex.sse_event"}) // not for each delta
	before, _ := d.records()

	d.attestd("", "init", "codex", "--remove")
	must.OK(t, os.WriteFile(config, []byte(plain), 0o600))
	d.start("codex exec --skip-git-repo-check --dangerously-bypass-hook-trust go </dev/null")
	d.ran(mark)
	after, _ := d.records()
	// the hook of a session's end may still run when Codex has ended
	isEnd := func(name string) bool { return name == "session.ended" }
	if before, after = slices.DeleteFunc(before, isEnd), slices.DeleteFunc(after, isEnd); !slices.Equal(before, after) {
		t.Errorf("without hooks, servers and telemetry, there are records\n%s\nand were\n%s", strings.Join(after, "\n"),
			strings.Join(before, "\n"))
	}
}
