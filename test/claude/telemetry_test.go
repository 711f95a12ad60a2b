//go:build linux

package claude

import (
	"bytes"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	logspb "go.opentelemetry.io/proto/otlp/logs/v1"
	"google.golang.org/protobuf/proto"

	"attestd/internal/must"
	"attestd/internal/testenv"
)

// documentedTelemetry are the lines of docs/agents/telemetry.md that put Claude Code's telemetry
// on record.
func documentedTelemetry(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/agents/telemetry.md")
	must.OK(t, err)
	lines := regexp.MustCompile("(?s)```\n(export CLAUDE_CODE_ENABLE_TELEMETRY=1.*?\nclaude)\n```").FindSubmatch(text)
	if lines == nil {
		t.Fatal("docs/agents/telemetry.md does not say how Claude Code's telemetry is put on record")
	}
	return string(lines[1])
}

// Claude Code's own telemetry is on record, with the lines of docs/agents/telemetry.md and no
// hook: what it was asked, what it asked its model, which tools it might call and how that ended.
// No content is.
func TestClaudeCodeTelemetry(t *testing.T) {
	d, key := deskWithoutHooks(t)
	m := newModel(t, []call{bash("echo one")}, []call{bash("curl http://127.0.0.1:1")}, []call{bash("exit 3")})
	d.shell("export ATTESTD_URL=http://127.0.0.1:8080 ATTESTD_KEY="+key+" OTEL_LOG_TOOL_DETAILS=1 OTEL_LOG_USER_PROMPTS=1\n"+documentedTelemetry(t), m)
	count := map[string]int{}
	for _, e := range d.telemetry("echo one", "exit 3") {
		count[e.what]++
	}
	for what, n := range map[string]int{"otel.event claude_code.user_prompt": 1, "otel.tool claude_code.tool_result Bash": 2, "otel.decision claude_code.tool_decision Bash": 3} {
		if count[what] != n {
			t.Errorf("%d of %s, want %d", count[what], what, n)
		}
	}
	if count["otel.model claude_code.api_request"] < 4 {
		t.Errorf("%d requests to the model", count["otel.model claude_code.api_request"])
	}
}

// While the server is killed under Claude Code's exports, what it has acknowledged is on record
// exactly once, and so is what else it has recorded.
func TestClaudeCodeTelemetrySurvivesKills(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	d, key := deskWithoutHooks(t)
	var mu sync.Mutex
	var acknowledged []string
	target, err := url.Parse("http://127.0.0.1:8080")
	must.OK(t, err)
	forward := httputil.NewSingleHostReverseProxy(target)
	forward.ErrorLog = log.New(io.Discard, "", 0)
	between := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		var export logspb.LogsData
		if err == nil {
			err = proto.Unmarshal(body, &export)
		}
		if err != nil {
			t.Error(err)
		}
		answer := httptest.NewRecorder()
		if forward.ServeHTTP(answer, r); answer.Code == http.StatusOK {
			mu.Lock()
			acknowledged = append(acknowledged, sequences(&export)...)
			mu.Unlock()
		}
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes())
	}))
	t.Cleanup(between.Close)
	m := newModel(t, []call{bash("echo one")}, []call{bash("echo two")}, []call{bash("echo three")}, []call{bash("echo four")}, []call{bash("echo five")})
	m.before = func(turn int) {
		switch turn {
		case 1, 3:
			end(d.server)
		case 2, 4:
			d.serve()
		}
	}
	d.shell("export ATTESTD_URL="+between.URL+" ATTESTD_KEY="+key+" OTEL_LOGS_EXPORT_INTERVAL=10\n"+documentedTelemetry(t), m)
	recorded := map[string]int{}
	for _, e := range d.telemetry() {
		recorded[e.sequence]++
	}
	for sequence, n := range recorded {
		if n != 1 {
			t.Errorf("the event %s is recorded %d times", sequence, n)
		}
	}
	for _, sequence := range acknowledged {
		if recorded[sequence] == 0 {
			t.Errorf("the event %s is acknowledged and not recorded", sequence)
		}
	}
	if len(acknowledged) < 10 {
		t.Errorf("%d events are acknowledged", len(acknowledged))
	}
}

// sequences are the numbers of the events in an export.
func sequences(export *logspb.LogsData) (list []string) {
	for _, of := range export.ResourceLogs {
		for _, scope := range of.ScopeLogs {
			for _, record := range scope.LogRecords {
				for _, a := range record.Attributes {
					if a.Key == "event.sequence" {
						list = append(list, strconv.FormatInt(a.Value.GetIntValue(), 10))
					}
				}
			}
		}
	}
	return list
}

// deskWithoutHooks is a desk of a user who has a writer's key and no hook.
func deskWithoutHooks(t *testing.T) (d *desk, key string) {
	d = bareDesk(t)
	must.OK(t, os.Mkdir(filepath.Dir(d.settings()), 0o755))
	must.OK(t, os.WriteFile(d.settings(), []byte(rules), 0o600))
	trusted, err := json.Marshal(map[string]any{"projects": map[string]any{d.project: map[string]bool{"hasTrustDialogAccepted": true}}})
	must.OK(t, err)
	must.OK(t, os.WriteFile(filepath.Join(d.home, ".claude.json"), trusted, 0o600))
	d.register()
	return d, d.writerKey()
}

// register registers the user's company.
func (d *desk) register() {
	d.t.Helper()
	var made struct{ APIKey string }
	must.OK(d.t, json.Unmarshal(d.ask("POST", "/v1/companies", `{"companyId":"local"}`), &made))
	d.admin = made.APIKey
}

// writerKey returns a new API key of the role writer.
func (d *desk) writerKey() string {
	d.t.Helper()
	var made struct{ Key string }
	must.OK(d.t, json.Unmarshal(d.ask("POST", "/v1/keys", `{"role":"writer"}`), &made))
	return made.Key
}

// event is one of Claude Code's on record.
type event struct{ what, sequence string }

// telemetry are the events on record. None may show a secret, or one of these texts.
func (d *desk) telemetry(content ...string) (events []event) {
	d.t.Helper()
	var chain struct {
		Records []struct {
			Payload struct {
				AgentID, ActionType string
				Payload             struct {
					Source, Name, Tool, SessionID string
					Attributes                    map[string]json.RawMessage
				}
			}
		}
	}
	text := d.ask("GET", "/v1/chain", "")
	must.OK(d.t, json.Unmarshal(text, &chain))
	for _, r := range chain.Records {
		p := r.Payload.Payload
		if r.Payload.AgentID != "claude-code" || p.Source != "otlp" || p.SessionID == "" {
			d.t.Errorf("%+v", r)
		}
		events = append(events, event{strings.TrimSpace(r.Payload.ActionType + " " + p.Name + " " + p.Tool), string(p.Attributes["event.sequence"])})
	}
	for _, hidden := range append(content, secret, "svc_") {
		if strings.Contains(string(text), hidden) {
			d.t.Errorf("the chain shows %s", hidden)
		}
	}
	return events
}
