package hook_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"attestd/agent/hook"
	"attestd/chain/action/hookevent"
	"attestd/internal/notary"
	"attestd/sdk/attestd"
	"attestd/sdk/attestd/spool"
)

const approvalID = "apr_0123456789abcdefghijAA"

// asker is a server whose company has each call approved. It answers about an approval with the
// states, one by one, and the last one again.
type asker struct {
	mu     sync.Mutex
	states []string
	lines  []string // what was recorded: action, verdict
	waits  []string // what was asked for
	down   bool     // it cannot be reached once the call waits
}

func (s *asker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if strings.HasPrefix(r.URL.Path, "/v1/approvals/") {
		if s.down {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		s.waits = append(s.waits, r.URL.Query().Get("wait"))
		state := s.states[0]
		if len(s.states) > 1 {
			s.states = s.states[1:]
		}
		w.Header().Set("X-Request-ID", "r")
		fmt.Fprintf(w, `{"approvalId":"`+approvalID+`","state":%q,"reason":"not on a Friday"}`, state)
		return
	}
	text, _ := io.ReadAll(r.Body)
	var a struct{ ActionType string }
	_ = json.Unmarshal(text, &a)
	verdict := ""
	if a.ActionType == "tool.requested" {
		verdict = "ask"
		if slices.Contains(s.lines, "tool.requested ask") {
			verdict = "allow"
		}
	}
	s.lines = append(s.lines, strings.TrimSpace(a.ActionType+" "+verdict))
	record := notary.Records(text, "c")[0]
	if verdict != "" {
		record = strings.Replace(record, `"payload":{`, `"payload":{"decision":{"verdict":"`+verdict+`","approval":"`+approvalID+`"},`, 1)
	}
	w.WriteHeader(http.StatusCreated)
	fmt.Fprint(w, record)
}

func (s *asker) hook(t *testing.T, wait time.Duration) *hook.Hook {
	t.Helper()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	c, err := attestd.New(attestd.Config{URL: server.URL, Retry: &attestd.Retry{}, Timeout: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	queue, err := spool.Open(filepath.Join(t.TempDir(), "spool"), c)
	if err != nil {
		t.Fatal(err)
	}
	return &hook.Hook{Source: hookevent.ClaudeCode, Agent: "coder", Client: c, Spool: queue, AskWait: wait}
}

// A call that needs an approval waits for it: the request is on record with both decisions.
// Whatever else becomes of the approval, it is refused with the reason.
func TestHookWaitsForApproval(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		*asker
		wait     time.Duration
		decided  bool
		denied   string
		recorded []string
	}{
		"approved": {asker: &asker{states: []string{"pending", "approved"}}, wait: time.Minute,
			recorded: []string{"tool.requested ask", "tool.requested allow"}},
		"approved, with a decision required": {asker: &asker{states: []string{"approved"}}, wait: time.Minute, decided: true,
			recorded: []string{"tool.requested ask", "tool.requested allow"}},
		"denied": {asker: &asker{states: []string{"denied"}}, wait: time.Minute, denied: "the approval " + approvalID + " is denied: not on a Friday",
			recorded: []string{"tool.requested ask", "tool.denied"}},
		"expired": {asker: &asker{states: []string{"expired"}}, wait: time.Minute, denied: approvalID + " is expired",
			recorded: []string{"tool.requested ask", "tool.denied"}},
		"nobody": {asker: &asker{states: []string{"pending"}}, wait: 1100 * time.Millisecond, denied: "approval " + approvalID + " is pending, repeat the call",
			recorded: []string{"tool.requested ask", "tool.denied"}},
		"no wait": {asker: &asker{states: []string{"approved"}}, denied: "approval " + approvalID + " is pending, repeat the call",
			recorded: []string{"tool.requested ask", "tool.denied"}},
		"server away": {asker: &asker{down: true}, wait: 100 * time.Millisecond, denied: "could not be asked for, so this call is refused",
			recorded: []string{"tool.requested ask", "tool.denied"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := test.hook(t, test.wait)
			h.Decided = test.decided
			extended := time.Duration(0)
			h.Extend = func(by time.Duration) (context.Context, context.CancelFunc) {
				extended = by
				return context.WithCancel(t.Context())
			}
			a, err := h.Answer(t.Context(), event("PreToolUse", "1", `,"tool_input":{"command":"git push"}`))
			if err != nil || (a.Denied == "") != (test.denied == "") || !strings.Contains(a.Denied, test.denied) {
				t.Errorf("denied %q, %v", a.Denied, err)
			}
			if strings.Contains(string(a.Output), `"ask"`) || extended != test.wait {
				t.Errorf("%s after %v", a.Output, extended)
			}
			if !slices.Equal(test.lines, test.recorded) {
				t.Errorf("recorded %q, want %q", test.lines, test.recorded)
			}
			if test.wait == time.Minute && test.waits[0] != "55" {
				t.Errorf("asked to wait for %q", test.waits)
			}
		})
	}
}
