package mcpproxy

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"regexp"
	"strings"
	"testing"
)

// seeds are lines of every kind that the proxy distinguishes.
var seeds = []string{
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"a":[1,2.5,null]},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`,
	`[{"id":"a","method":"tools\/call","params":{"name":"y"}},{"id":2,"method":"ping"}]`,
	`{"id":1,"result":{"resultType":"input_required","requestState":"s"}}`,
	`{"id":1.0,"error":{"code":-32602,"message":"no","data":{}}}`,
	`{"method":"notifications/cancelled","params":{"requestId":1,"reason":"r"}}`,
	`{"id":1,"Method":"tools/call"}`, `{"id":1e999,"method":"tools/call","params":{"name":"\ud83d"}}`, `[]`, ` `, `x`, `{"id":{}}`, `[[{"method":"tools/call"}]]`, `{"messages":[{"METHOD":"tools/call"}]}`, `{"id":2,"method":"tools/call\u0000"}`, `{"id":-0,"method":"ping"}`, `{"id":9007199254740992,"method":"tools/call"}`,
	`{"id":1,"method":"initialize","params":{"capabilities":{"elicitation":{"url":{},"URL":1}}}}`,
	`{"id":1,"method":"tools/call","params":{"name":"x","_meta":{"progressToken":{},"progressToken":"t"}}}`,
}

// FuzzReadLine compares readLine with encoding/json: without duplicate members, both find the same
// messages.
func FuzzReadLine(f *testing.F) {
	for _, line := range seeds {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		messages, batch, err := readLine(line)
		var plain any
		if decoder := json.NewDecoder(bytes.NewReader(line)); decoder.Decode(&plain) != nil {
			// jsontext accepts some lines that encoding/json does not, such as deeper nesting
			return
		}
		if err != nil {
			return
		}
		elements := []any{plain}
		if list, ok := plain.([]any); ok != batch {
			t.Fatalf("a batch: %v and %v", ok, batch)
		} else if ok {
			elements = list
		}
		if len(elements) != len(messages) {
			t.Fatalf("%d messages, want %d", len(messages), len(elements))
		}
		for i, m := range messages {
			object, _ := elements[i].(map[string]any)
			method, _ := object["method"].(string)
			if m.method != method {
				t.Errorf("message %d has the method %q, want %q", i, m.method, method)
			}
			if _, is := object["id"].(string); is != (len(m.id) > 0 && m.id[0] == '"') {
				t.Errorf("message %d has the ID %s, want %v", i, m.id, object["id"])
			}
			readToolCall(m.params)
			readCancelled(m.params)
			readToolResult(m.result)
			readFault(m.fault)
		}
	})
}

// FuzzSession sends a line through a proxy in both directions. The proxy forwards it unchanged or
// with escaped line separators, or replaces it with a response. No call is forwarded unrecorded,
// and no reader sees additional lines in the output.
func FuzzSession(f *testing.F) {
	for _, line := range append(seeds, "{\"id\":1,\"method\":\"x\"}\r{\"id\":2,\"method\":\"tools/call\"}", `{"id":1,"method":"x","result":"`+"\u2028\u0085"+`"}`, "\r", "\xff", "\v", "\u2029") {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		line = strings.ReplaceAll(line, "\n", "")
		s := start(t, Config{Warn: func(string) {}})
		const marker = `{"method":"notifications/marker"}`
		answered := make(chan string, 1)
		go func() { answered <- upTo(s.toClient, marker) }()
		go func() { _, _ = io.WriteString(s.client, line+"\n"+marker+"\n") }()
		arrived := upTo(s.toServer, marker)
		// what is answered here has been by now
		_, _ = io.WriteString(s.server, line+"\n"+marker+"\n")
		got := <-answered
		s.end()
		escaped, _ := newLines(strings.NewReader(line+"\n"), DefaultMaxLine).next()
		answer, unchanged := strings.CutSuffix(got, string(escaped))
		if !unchanged && !strings.Contains(got, "attestd withheld") {
			t.Fatalf("the client got %q before the marker, and not %q", got, line)
		}
		for _, text := range []string{got, arrived} {
			if n := len(anyLineEnd.FindAllString(text, -1)); n != strings.Count(text, "\n") {
				t.Fatalf("a reader sees %d lines in %q", n, text)
			}
		}
		messages, _, err := readLine([]byte(line))
		if arrived != string(escaped) && answer == "" && (err != nil || messages[0].id != nil) {
			t.Fatalf("the server got %q of %q, and the client no answer", arrived, line)
		}
		calls := lenientCalls([]byte(arrived))
		requested := 0
		for _, r := range s.record.records {
			if r.ActionType == "tool.requested" {
				requested++
			}
		}
		if requested < calls {
			t.Fatalf("%d calls went on, %d are recorded: %q", calls, requested, line)
		}
	})
}

// lenientCalls counts the calls that a lenient reader finds in a line: it goes through values of
// every kind outside of a message's own members, at any depth, ignores case, spaces and control
// characters, and prefers any spelling of method that names a call.
func lenientCalls(line []byte) (calls int) {
	d := json.NewDecoder(bytes.NewReader(line))
	for {
		var value any
		if d.Decode(&value) != nil {
			return calls
		}
		calls += lenientCallsIn(value)
	}
}

func lenientCallsIn(value any) (calls int) {
	switch v := value.(type) {
	case []any:
		for _, element := range v {
			calls += lenientCallsIn(element)
		}
	case map[string]any:
		isMessage := false
		for name, member := range v {
			method, _ := member.(string)
			switch strings.ToLower(strings.TrimSpace(name)) {
			case "method":
				isMessage = true
				if strings.EqualFold(strings.Trim(method, "\x00\t\n\r \ufeff\ufffd"), "tools/call") {
					calls++
				}
			case "result", "error":
				isMessage = true
			}
		}
		for _, member := range v {
			if !isMessage {
				calls += lenientCallsIn(member)
			}
		}
	}
	return calls
}

// anyLineEnd matches everything that some reader treats as the end of a line, such as Python's
// str.splitlines.
var anyLineEnd = regexp.MustCompile("\r\n|[\n\r\v\f\x1c\x1d\x1e\u0085\u2028\u2029]")

// upTo returns the text before the marker line.
func upTo(from *bufio.Reader, marker string) string {
	var all strings.Builder
	for {
		line, err := from.ReadString('\n')
		if err != nil || line == marker+"\n" {
			return all.String()
		}
		all.WriteString(line)
	}
}
