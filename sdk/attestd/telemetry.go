package attestd

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
)

// TelemetryOptions configure the recording of an export of telemetry.
type TelemetryOptions struct {
	Agent       string // "": the agent that each item names
	All         bool   // record items that are not of agents, models or tools as well
	KeepContent bool   // record content, and not its hashes
}

// ExportTraces sends spans in the JSON of OTLP, and returns the answer, which names those that are
// refused. A repeated span is recorded once. The exporters of OpenTelemetry need no client: see
// docs/agents/telemetry.md.
func (c *Client) ExportTraces(ctx context.Context, o TelemetryOptions, export json.RawMessage) (answer json.RawMessage, err error) {
	return c.export(ctx, "/v1/otlp/v1/traces", o, export)
}

// ExportLogs is ExportTraces for log records.
func (c *Client) ExportLogs(ctx context.Context, o TelemetryOptions, export json.RawMessage) (answer json.RawMessage, err error) {
	return c.export(ctx, "/v1/otlp/v1/logs", o, export)
}

func (c *Client) export(ctx context.Context, route string, o TelemetryOptions, export json.RawMessage) (answer json.RawMessage, err error) {
	query := url.Values{}
	if o.Agent != "" {
		query.Set("agent", o.Agent)
	}
	if o.All {
		query.Set("all", "true")
	}
	if o.KeepContent {
		query.Set("content", "keep")
	}
	err = c.do(ctx, request{method: http.MethodPost, route: route, query: query, body: export, status: http.StatusOK, safe: true}, &answer)
	return answer, err
}
