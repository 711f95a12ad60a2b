package attestd

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// HookOptions configure the recording of a coding agent's event.
type HookOptions struct {
	Agent    string // "": claude-code
	Redact   string // input, output or input,output: record only hashes of these
	Passport bool   // refuse a tool without a valid passport of the agent for it
	// AskWait is for how long the answer waits for the approval that a call needs, in whole seconds
	// up to 55 s; 0 refuses such a call at once.
	AskWait time.Duration
}

// ClaudeCodeHook sends an event in the form of Claude Code's hooks, and returns the answer for the
// agent. A repeated event is recorded once.
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
	r := request{method: http.MethodPost, route: "/v1/hooks/claude-code", query: query, body: event, status: http.StatusOK, safe: true}
	if wait := o.AskWait.Truncate(time.Second); wait > 0 {
		query.Set("askWait", strconv.Itoa(int(wait/time.Second)))
		r.held = wait
	}
	err = c.do(ctx, r, &answer)
	return answer, err
}
