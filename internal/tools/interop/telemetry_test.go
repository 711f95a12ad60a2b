package interop

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Every span and log record of telemetrygen, the load generator of OpenTelemetry, is on record
// once.
func TestTelemetrygenIsRecorded(t *testing.T) {
	// its own module, because it needs newer versions of what the other tools need too
	build := exec.Command("go", "build", "-o", bin+"/", "tool")
	build.Dir = "../telemetrygen"
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build tool: %v\n%s", err, out)
	}
	c := newCompany(t)
	for _, signal := range []struct {
		name, action string
		flags        []string
		records      int
	}{
		// each trace is a span and a child
		{"traces", "otel.model", []string{"--traces", "400", "--span-links", "1", "--status-code", "Error"}, 2 * 2 * 400},
		{"logs", "otel.event", []string{"--logs", "400"}, 2 * 400},
	} {
		cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "telemetrygen"), append([]string{
			signal.name, "--otlp-http", "--otlp-insecure", "--otlp-endpoint", strings.TrimPrefix(c.base, "http://"), "--otlp-http-url-path", "/v1/otlp/v1/" + signal.name,
			"--otlp-header", `Authorization="Bearer ` + c.key + `"`, "--telemetry-attributes", `gen_ai.operation.name="chat"`, "--service", "generator",
			"--rate", "0", "--workers", "2",
		}, signal.flags...)...)
		if out, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(out), "partial success") {
			t.Fatalf("telemetrygen %s: %v\n%s", signal.name, err, out)
		}
		var list struct {
			Records []struct {
				Payload struct {
					AgentID, ActionType string
					Payload             struct{ TraceID, SpanID string }
				}
			}
		}
		c.ask(t, "GET", "/v1/chain", "", &list)
		n, spans := 0, map[string]bool{}
		for _, r := range list.Records {
			if r.Payload.ActionType == signal.action && r.Payload.AgentID == "generator" {
				n++
				spans[r.Payload.Payload.TraceID+r.Payload.Payload.SpanID] = true
			}
		}
		if n != signal.records || signal.name == "traces" && len(spans) != n {
			text, _ := json.Marshal(list.Records[max(0, len(list.Records)-1):])
			t.Errorf("%d records of %d %s, of %d spans: %s", n, signal.records, signal.name, len(spans), text)
		}
	}
}
