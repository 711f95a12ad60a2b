package attestd

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
)

// HookOptions say in whose name an event of a coding agent is recorded, and how.
type HookOptions struct {
	Agent    string // "": claude-code
	Redact   string // input, output or both with a comma between: only the hash of that is recorded
	Passport bool   // a tool that no valid passport of the agent covers is refused
}

// ClaudeCodeHook hands on an event as a hook of Claude Code gets it, and returns the answer for the
// agent. An event that is sent again is recorded once.
func (c *Client) ClaudeCodeHook(ctx context.Context, o HookOptions, event json.RawMessage) (answer json.RawMessage, err error) {
	query := url.Values{}
	for name, value := range map[string]string{"agent": o.Agent, "redact": o.Redact} {
		if value != "" {
			query.Set(name, value)
		}
	}
	if o.Passport {
		query.Set("require", "passport")
	}
	err = c.do(ctx, request{method: http.MethodPost, route: "/v1/hooks/claude-code", query: query, body: event, status: http.StatusOK, safe: true}, &answer)
	return answer, err
}
