//go:build linux

package claude

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// call is a tool call that the model makes.
type call struct {
	tool  string
	input map[string]any
}

func bash(command string) call {
	return call{"Bash", map[string]any{"command": command, "description": "a test"}}
}

// subagentWork is what a subagent is asked to do. Its model is done at once.
const subagentWork = "the work of a subagent"

// model is a mock of the model's API. In each of its turns it calls the tools of that turn, all at
// once; then it is done.
type model struct {
	*httptest.Server
	turns  [][]call
	before func(turn int) // is called before a turn is answered

	mu      sync.Mutex
	results map[string]result // of the calls, by their IDs
}

// result is what the model learns about a call.
type result struct {
	failed bool
	text   string
}

// newModel starts a mock that ends with the test.
func newModel(t *testing.T, turns ...[]call) *model {
	m := &model{turns: turns, results: map[string]result{}}
	m.Server = httptest.NewServer(http.HandlerFunc(m.serve))
	t.Cleanup(m.Close)
	return m
}

// id names call n of a turn.
func id(turn, n int) string { return fmt.Sprintf("toolu_%d_%d", turn, n) }

// of is what the model learned about a call.
func (m *model) of(turn, n int) result {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.results[id(turn, n)]
}

type block struct {
	Type      string          `json:"type"`
	ToolUseID string          `json:"tool_use_id"`
	IsError   bool            `json:"is_error"`
	Content   json.RawMessage `json:"content"`
}

func (m *model) serve(w http.ResponseWriter, r *http.Request) {
	var request struct {
		Model    string
		Tools    []struct{ Name string }
		Messages []struct{ Content json.RawMessage }
	}
	body, _ := io.ReadAll(r.Body)
	if r.URL.Path != "/v1/messages" || json.Unmarshal(body, &request) != nil {
		http.NotFound(w, r)
		return
	}
	turn := 0
	for _, message := range request.Messages {
		var blocks []block
		_ = json.Unmarshal(message.Content, &blocks) // a message may also be plain text
		if m.read(blocks) {
			turn++
		}
	}
	calls := []call(nil)
	isSubagent := len(request.Messages) > 0 && strings.Contains(string(request.Messages[0].Content), subagentWork)
	if !isSubagent && turn < len(m.turns) && len(request.Tools) > 0 {
		if m.before != nil {
			m.before(turn)
		}
		calls = m.turns[turn]
	}
	say(w, request.Model, turn, calls)
}

// read notes the results among the blocks of a message, and reports whether there were any.
func (m *model) read(blocks []block) (any bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, b := range blocks {
		if b.Type != "tool_result" {
			continue
		}
		any = true
		var text string
		if json.Unmarshal(b.Content, &text) != nil {
			text = string(b.Content)
		}
		m.results[b.ToolUseID] = result{b.IsError, text}
	}
	return any
}

// say streams a message with calls, or one that reports that it is done.
func say(w http.ResponseWriter, name string, turn int, calls []call) {
	w.Header().Set("Content-Type", "text/event-stream")
	type o = map[string]any
	event := func(kind string, more o) {
		more["type"] = kind
		data, _ := json.Marshal(more)
		fmt.Fprintf(w, "event: %s\ndata: %s\n\n", kind, data)
	}
	event("message_start", o{"message": o{
		"id": fmt.Sprint("msg_", turn), "type": "message", "role": "assistant", "model": name, "content": []any{}, "usage": o{"input_tokens": 1, "output_tokens": 1},
	}})
	content := func(index int, begin, delta o) {
		event("content_block_start", o{"index": index, "content_block": begin})
		event("content_block_delta", o{"index": index, "delta": delta})
		event("content_block_stop", o{"index": index})
	}
	stop := "tool_use"
	for n, c := range calls {
		input, _ := json.Marshal(c.input)
		content(n, o{"type": "tool_use", "id": id(turn, n), "name": c.tool, "input": o{}}, o{"type": "input_json_delta", "partial_json": string(input)})
	}
	if len(calls) == 0 {
		stop = "end_turn"
		content(0, o{"type": "text", "text": ""}, o{"type": "text_delta", "text": "done"})
	}
	event("message_delta", o{"delta": o{"stop_reason": stop}, "usage": o{"output_tokens": 1}})
	event("message_stop", o{})
}
