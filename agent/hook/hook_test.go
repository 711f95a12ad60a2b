package hook_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"attestd/agent/hook"
	"attestd/chain/action/hookevent"
	"attestd/internal/notary"
	"attestd/sdk/attestd"
	"attestd/sdk/attestd/spool"
)

// server accepts attestations as attestd does: one record per idempotency key, and 422 if a key is
// reused for another request.
type server struct {
	*httptest.Server
	mu     sync.Mutex
	status int // of every answer, unless it is 0
	claims int // number of keys that another writer has already used
	keys   map[string]string
	lines  []string // what was recorded: action, and call ID
}

func startServer(t *testing.T) *server {
	s := &server{keys: map[string]string{}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

type item struct {
	ActionType, IdempotencyKey string
	Payload                    json.RawMessage
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var body struct {
		item
		Records []item
	}
	text, _ := io.ReadAll(r.Body)
	_ = json.Unmarshal(text, &body)
	items := body.Records
	if r.URL.Path == "/v1/attest" {
		body.item.IdempotencyKey = r.Header.Get("Idempotency-Key")
		items = []item{body.item}
	}
	switch {
	case s.status != 0:
		refuse(w, s.status, "CODE")
		return
	case r.URL.Path == "/v1/passports":
		fmt.Fprint(w, `{"passports":[]}`)
		return
	}
	records := notary.Records(text, "c")
	for _, it := range items {
		asked := it.ActionType + string(it.Payload)
		if _, known := s.keys[it.IdempotencyKey]; !known && s.claims > 0 {
			s.claims--
			s.keys[it.IdempotencyKey] = "somebody else's"
		}
		before, known := s.keys[it.IdempotencyKey]
		if known && before != asked {
			refuse(w, 422, "IDEMPOTENCY_KEY_REUSED")
			return
		}
		if !known {
			var p struct{ CallID string }
			_ = json.Unmarshal(it.Payload, &p)
			s.keys[it.IdempotencyKey], s.lines = asked, append(s.lines, it.ActionType+" "+p.CallID)
		}
	}
	w.WriteHeader(http.StatusCreated)
	if r.URL.Path == "/v1/attest" {
		fmt.Fprint(w, records[0])
		return
	}
	fmt.Fprintf(w, `{"records":[%s]}`, strings.Join(records, ","))
}

func refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("X-Request-ID", "r")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"error":"refused","code":%q}`, code)
}

func (s *server) answers(status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status = status
}

func (s *server) recorded(t *testing.T, want ...string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(s.lines, want) {
		t.Errorf("recorded %q, want %q", s.lines, want)
	}
}

func (s *server) hook(t *testing.T) *hook.Hook {
	t.Helper()
	c, err := attestd.New(attestd.Config{URL: s.URL, Retry: &attestd.Retry{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	queue, err := spool.Open(filepath.Join(t.TempDir(), "spool"), c)
	if err != nil {
		t.Fatal(err)
	}
	return &hook.Hook{Source: hookevent.ClaudeCode, Agent: "coder", Client: c, Spool: queue}
}

func event(name, call, more string) []byte {
	return []byte(`{"session_id":"s","hook_event_name":"` + name + `","tool_name":"Bash","tool_use_id":"` + call + `"` + more + `}`)
}

func answer(t *testing.T, h *hook.Hook, body []byte, denied bool, fails bool) {
	t.Helper()
	a, err := h.Answer(t.Context(), body)
	if (a.Denied != "") != denied || (err != nil) != fails || !denied && string(a.Output) != `{}` || denied && !strings.Contains(string(a.Output), `"permissionDecision":"deny"`) {
		t.Errorf("%s: %s, denied %q, %v", body, a.Output, a.Denied, err)
	}
}

// Events that could not be sent are spooled, and sent once with the next event that does not block
// a call.
func TestUnsentEventsAreSentLater(t *testing.T) {
	t.Parallel()
	for _, status := range []int{503, 500, 429} {
		s := startServer(t)
		h := s.hook(t)
		s.answers(status)
		answer(t, h, event("PreToolUse", "1", ""), false, false)
		answer(t, h, event("PostToolUse", "1", ""), false, false)
		answer(t, h, event("PostToolUse", "1", ""), false, false)
		s.recorded(t)
		s.answers(0)
		answer(t, h, event("PreToolUse", "2", ""), false, false)
		s.recorded(t, "tool.requested 2")
		answer(t, h, event("PostToolUse", "2", ""), false, false)
		s.recorded(t, "tool.requested 2", "tool.completed 2", "tool.requested 1", "tool.completed 1")
		if n := h.Spool.Pending(); n != 0 {
			t.Errorf("%d events are left in the spool", n)
		}
	}
}

// A call that launches a subagent in the background is over when the subagent stops, whichever of
// the two is reported first, and however often.
func TestSubagentsInBackground(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	h := s.hook(t)
	h.Subagents = filepath.Join(t.TempDir(), "subagents")
	launch := func(call, id string) []byte {
		return []byte(strings.Replace(string(event("PostToolUse", call, `,"tool_response":{"status":"async_launched","agentId":"`+id+`"}`)), "Bash", "Agent", 1))
	}
	stop := func(id, message string) []byte {
		return []byte(`{"session_id":"s","hook_event_name":"SubagentStop","agent_id":"` + id + `","last_assistant_message":"` + message + `"}`)
	}
	batch := []byte(`{"session_id":"s","hook_event_name":"PostToolBatch","tool_calls":[{"tool_name":"Agent","tool_use_id":"1","tool_input":{},"tool_response":"Async agent launched successfully.\nagentId: a1 (x)"}]}`)
	for _, body := range [][]byte{
		event("PreToolUse", "1", ""), launch("1", "a1"), batch, stop("a1", "done"), stop("a1", "more"),
		stop("a2", "quick"), launch("2", "a2"), stop("a3", "in the foreground"),
	} {
		answer(t, h, body, false, false)
		answer(t, h, body, false, false)
	}
	s.recorded(t, "tool.requested 1", "tool.pending 1", "tool.subagent-ended ", "tool.ended 1", "tool.subagent-ended ",
		"tool.subagent-ended ", "tool.pending 2", "tool.ended 2", "tool.subagent-ended ")

	// What a project puts in the place of the folder is reported, and the events are recorded.
	h.Subagents = filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(h.Subagents, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if a, err := h.Answer(t.Context(), launch("4", "a4")); err != nil || a.Denied != "" {
		t.Errorf("%s, %v", a.Output, err)
	}
	if s.lines[len(s.lines)-1] != "tool.pending 4" || len(h.Alarms) != 1 {
		t.Errorf("%q, %q", s.lines, h.Alarms)
	}
}

// An event that is too large to be read is recorded by its hash, and refused where calls must be
// recorded.
func TestOversizedEvent(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	h := s.hook(t)
	h.Policy.HashInput = true
	for _, closed := range []bool{false, true} {
		h.FailClosed = closed
		a, err := h.Oversized(t.Context(), []byte{0xab, 0xcd}, 7, true)
		if err != nil || (a.Denied != "") != closed || closed && !strings.Contains(string(a.Output), `"deny"`) {
			t.Errorf("%s, %v", a.Output, err)
		}
	}
	s.recorded(t, "hook.oversized ")
	for _, recorded := range s.keys {
		if recorded != `hook.oversized{"source":"claude-code","input":{"bytes":7,"sha256":"abcd"}}` {
			t.Error(recorded)
		}
	}
}

// A refused credential is reported, and the events stay in the spool.
func TestRefusedCredential(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	h := s.hook(t)
	s.answers(401)
	answer(t, h, event("PreToolUse", "1", ""), false, true)
	h.FailClosed = true
	answer(t, h, event("PreToolUse", "2", ""), true, false)
	h.FailClosed, h.Passport = false, true
	answer(t, h, event("PreToolUse", "3", ""), true, false)
	if n := h.Spool.Pending(); n != 5 {
		t.Errorf("%d events are in the spool, want 5", n)
	}
	s.answers(0)
	answer(t, h, event("PostToolUse", "4", ""), false, false)
	s.recorded(t, "tool.completed 4", "tool.requested 1", "tool.requested 2", "tool.denied 2", "tool.requested 3", "tool.denied 3")
}

// A reused call ID with other content makes its own record. A late report makes a record only if
// the call has none.
func TestReusedCallIDs(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	h := s.hook(t)
	answer(t, h, event("PreToolUse", "1", `,"tool_input":{"command":"ls"}`), false, false)
	for range 2 {
		answer(t, h, event("PreToolUse", "1", `,"tool_input":{"command":"rm"}`), false, false)
	}
	answer(t, h, event("PostToolUse", "1", `,"tool_response":"a"`), false, false)
	batch := []byte(`{"session_id":"s","hook_event_name":"PostToolBatch","tool_calls":[
		{"tool_name":"Bash","tool_use_id":"1","tool_input":{"command":"ls"},"tool_response":"a"},
		{"tool_name":"Bash","tool_use_id":"2","tool_input":{},"tool_response":"Permission to use Bash has been denied."},
		{"tool_name":"Bash","tool_use_id":"3","tool_input":{},"tool_response":"I would rather not"}]}`)
	for range 2 {
		answer(t, h, batch, false, false)
	}
	s.recorded(t, "tool.requested 1", "tool.requested 1", "tool.completed 1", "tool.requested 2", "tool.denied 2", "tool.ended 3")
}

// Keys that another writer used first suppress no record, sent directly or from the spool.
func TestPreemptedKeysHideNoRecord(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	h := s.hook(t)
	h.FailClosed, h.Spool.FreshKeys = true, true
	s.claims = 2 // the key, and its OtherKey
	answer(t, h, event("PreToolUse", "1", ""), false, false)
	s.answers(503)
	h.FailClosed = false
	answer(t, h, event("PreToolUse", "2", ""), false, false)
	s.answers(0)
	s.claims = 0
	answer(t, h, event("PostToolUse", "3", ""), false, false)
	s.recorded(t, "tool.requested 1", "tool.completed 3", "tool.requested 2")
	s.answers(503)
	answer(t, h, event("PreToolUse", "4", ""), false, false)
	s.answers(0)
	s.mu.Lock()
	s.claims = 1
	s.mu.Unlock()
	if err := h.Spool.Flush(t.Context()); err != nil {
		t.Error(err)
	}
	s.recorded(t, "tool.requested 1", "tool.completed 3", "tool.requested 2", "tool.requested 4")
}

// A key reveals nothing about its event without the secret, and is the same for the same event in
// the next process.
func TestKeysNeedTheSecret(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	for _, secret := range []string{"a", "a", "b"} {
		h := s.hook(t)
		h.Policy.Secret = []byte(secret)
		answer(t, h, event("PreToolUse", "call-1", ""), false, false)
	}
	if len(s.keys) != 2 {
		t.Errorf("%d keys", len(s.keys))
	}
	for key := range s.keys {
		if strings.Contains(key, "call-1") || len(key) < 64 {
			t.Errorf("the key is %q", key)
		}
	}
}

// If the spool cannot be written either, a call continues with an error, or is refused.
func TestUnwritableSpool(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	h := s.hook(t)
	s.answers(503)
	h.Spool.Limit = 1
	a, err := h.Answer(t.Context(), event("PreToolUse", "1", ""))
	if a.Denied != "" || err == nil || !strings.Contains(string(a.Output), `{"systemMessage":"attestd cannot use its folder`) {
		t.Errorf("%s, denied %q, %v", a.Output, a.Denied, err)
	}
	h.FailClosed = true
	answer(t, h, event("PreToolUse", "1", ""), true, true)
	answer(t, h, []byte("{"), true, false)
	if _, err := h.Unrecorded(event("PostToolUse", "1", ""), errors.New("no folder")); err == nil {
		t.Error("a lost outcome is not reported")
	}
	if _, err := os.Stat(filepath.Join(h.Spool.Dir(), "queue")); err == nil {
		if n := h.Spool.Pending(); n != 0 {
			t.Errorf("%d events are in the spool, over its limit", n)
		}
	}
}
