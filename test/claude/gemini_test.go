//go:build linux

package claude

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"attestd/internal/must"
)

// geminiModel is a mock of the API that Gemini CLI asks: it calls a command, then a tool of an MCP
// server if there is one, and is done.
func geminiModel(t *testing.T) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if os.Getenv("SHOW_MODEL") != "" {
			t.Logf("%s %s %.20000s", r.Method, r.URL, body)
		}
		part := `{"text":"done"}`
		switch answered := strings.Count(string(body), `"functionResponse"`); {
		case answered == 0:
			part = `{"functionCall":{"name":"run_shell_command","args":{"command":"touch mark","description":"a test"}}}`
		case answered == 1 && strings.Contains(string(body), `"mcp_log_verify"`):
			part = `{"functionCall":{"name":"mcp_log_verify","args":{}}}`
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
	}
}

// geminiSettings are a user's, who has an MCP server over HTTP.
const geminiSettings = `{
 "security": {"auth": {"selectedType": "gemini-api-key"}},
 "privacy": {"usageStatisticsEnabled": false},
 "general": {"enableAutoUpdate": false},
 "mcpServers": {"log": {"httpUrl": "http://127.0.0.1:8081/mcp", "headers": {"Authorization": "Bearer KEY"}, "trust": true}}
}
`

// serveMCP starts an MCP server over HTTP, which has attestd's own tools and wants an API key.
func (d *desk) serveMCP(listen string) {
	d.t.Helper()
	path, err := binary()
	must.OK(d.t, err)
	cmd := exec.Command(path, "mcp-server", "--listen", listen)
	cmd.Env = d.environment()
	log, err := cmd.StderrPipe()
	must.OK(d.t, err)
	must.OK(d.t, cmd.Start())
	d.t.Cleanup(func() { end(cmd) })
	if line, err := bufio.NewReader(log).ReadString('\n'); err != nil || !strings.Contains(line, "serves MCP on") {
		d.t.Fatal(line, err)
	}
}

// The real Gemini CLI: a call is in the chain as its hooks report it, one of an MCP server over
// HTTP as `attestd mcp` does too, and both as its own telemetry does. After --remove none is.
func TestGeminiCLI(t *testing.T) {
	d, model := newOtherDesk(t, "gemini", geminiModel(t))
	d.register()
	key := d.writerKey()
	d.serveMCP("127.0.0.1:8081")
	settings := filepath.Join(d.home, ".gemini", "settings.json")
	before := strings.Replace(geminiSettings, "KEY", key, 1)
	must.OK(t, os.MkdirAll(filepath.Dir(settings), 0o700))
	must.OK(t, os.WriteFile(settings, []byte(before), 0o600))
	path, err := binary()
	must.OK(t, err)

	if output := d.start(path+" init gemini --write", "ATTESTD_KEY="+d.admin); !strings.Contains(output, "Gemini CLI 0.61.0") {
		t.Error(output)
	}
	if output := d.attestd("", "init", "gemini", "--check"); !strings.Contains(output, "tool.completed by gemini") {
		t.Error(output)
	}
	if output := d.attestd("", "init", "mcp", "--agent", "gemini", "--settings", settings, "--write"); !strings.Contains(output, "log runs through attestd mcp") {
		t.Error(output)
	}
	environment := []string{"GOOGLE_GEMINI_BASE_URL=" + model, "GEMINI_API_KEY=test", "GEMINI_CLI_TRUST_WORKSPACE=true", "GEMINI_CLI_NO_RELAUNCH=true",
		// an export that takes longer is lost or sent twice, and ten seconds are the default
		"OTEL_EXPORTER_OTLP_TIMEOUT=120000", "OTEL_BSP_EXPORT_TIMEOUT=120000", "OTEL_BLRP_EXPORT_TIMEOUT=120000",
		"ATTESTD_URL=http://127.0.0.1:8080", "ATTESTD_KEY=" + key}
	mark := filepath.Join(d.project, "mark")
	const flags = " -m gemini-2.5-flash --yolo -p go"
	d.start(documented(t, "export GEMINI_TELEMETRY_ENABLED=true")+flags, environment...)
	d.ran(mark)
	by := d.actions()
	for tool, server := range map[string]string{"run_shell_command": "", "mcp_log_verify": "log"} {
		has(t, by["gemini"], 1, action{kind: "tool.requested", Tool: tool, Server: server})
		has(t, by["gemini"], 1, action{kind: "tool.completed", Tool: tool, Server: server})
		has(t, by["otlp"], 1, action{kind: "otel.tool", Name: "gemini_cli.tool_call", Tool: tool})
		has(t, by["otlp"], 1, action{kind: "otel.tool", Name: "tool_call", Tool: tool}) // a span
	}
	has(t, by["mcp"], 1, action{kind: "tool.requested", Tool: "verify", Server: "log"})
	has(t, by["mcp"], 1, action{kind: "tool.completed", Tool: "verify", Server: "log"})
	has(t, by["otlp"], 1, action{kind: "otel.event", Name: "gemini_cli.user_prompt"})
	has(t, by["otlp"], 3, action{kind: "otel.model", Name: "gemini_cli.api_response"})
	has(t, by["otlp"], 3, action{kind: "otel.model", Name: "llm_call"}) // spans

	d.attestd("", "init", "mcp", "--settings", settings, "--remove")
	d.attestd("", "init", "gemini", "--remove")
	after, err := os.ReadFile(settings)
	must.OK(t, err)
	var was, is any
	must.OK(t, json.Unmarshal([]byte(before), &was))
	must.OK(t, json.Unmarshal(after, &is))
	if !reflect.DeepEqual(was, is) {
		t.Errorf("the settings were %s and are %s", before, after)
	}
	names, _ := d.records() // it has not waited for the hook of its end
	d.start("gemini"+flags, environment...)
	d.ran(mark)
	left, _ := d.records()
	for _, list := range [][]string{names, left} {
		if n := strings.Count(strings.Join(list, "\n"), "tool."); n != 8 {
			t.Errorf("%d records of tools: %v", n, list)
		}
	}
}
