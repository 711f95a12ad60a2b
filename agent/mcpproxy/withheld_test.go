package mcpproxy

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

// The proxy does not forward a line that another parser could read as several lines or as another
// message.
func TestAmbiguousLinesAreRefused(t *testing.T) {
	t.Parallel()
	const hidden = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"evil"}}`
	const parse = `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error: the line is not JSON"}}`
	invalid := func(id, why string) string {
		return `{"jsonrpc":"2.0","id":` + id + `,"error":{"code":-32600,"message":"Invalid Request: ` + why + `"}}`
	}
	const denied = `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"attestd refused this call: `
	for _, c := range []struct{ line, answer string }{
		{"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":{}\r,\"x\":[\r" + hidden + "\r]}", invalid("1", flawCarriageReturn)},
		{"{\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"good\"}\r}", denied + flawCarriageReturn + `"}],"isError":true}}`},
		{"[\r" + hidden + "\r]", `[{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"attestd refused this call: ` + flawCarriageReturn + `"}],"isError":true}}]`},
		{hidden + "\r\r", `{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"attestd refused this call: ` + flawCarriageReturn + `"}],"isError":true}}`},
		{"\r" + hidden, `{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"attestd refused this call: ` + flawCarriageReturn + `"}],"isError":true}}`},
		{"\r \r", parse},
		{"\v", parse}, {"\u2028", parse}, {"\u00a0", parse},
		{hidden + " " + hidden, parse}, {hidden + "\x00" + hidden, parse}, {"\ufeff" + hidden, parse}, {hidden + "\x1e" + hidden, parse},
		{`{"id":1,"method":"ping","x":"` + "\xff" + `"}`, parse},
		{`{"id":1,"method":"tools/call","params":{"name":"evil","n":NaN}}`, parse},
		{`{"id":true,"method":"tools/call","params":{"name":"x"}}`, invalid("null", flawID)},
		{`{"id":null,"method":"ping"}`, invalid("null", flawID)},
		{`{"id":[1],"method":"ping"}`, invalid("null", flawID)},
		{`{"id":1,"method":["tools/call"],"params":{"name":"x"}}`, invalid("1", flawMethod)},
		{`{"id":1,"method":"tools/call","params":{"name":["x"]}}`, denied + `it names no tool"}],"isError":true}}`},
		{`{"id":1,"method":"tools/call","params":{"name":"x\ud800"}}`, denied + `it names no tool"}],"isError":true}}`},
		{`{"id":1,"method":"ping","result":{}}`, invalid("1", flawBoth)},
		{`{"id":1,"method":"tasks/result","params":{"taskId":"a","taskId":"b"}}`, invalid("1", flawDuplicate)},
	} {
		s := start(t, Config{Warn: func(string) {}})
		send(t, s.client, c.line)
		gets(t, s.toClient, c.answer)
		s.ask(`{"id":9,"method":"ping"}`) // the server sees nothing of it
		s.end()
		for _, r := range s.record.all(t) {
			if r.Action != "tool.requested" && r.Action != "tool.denied" {
				t.Errorf("%q: %+v", c.line, r)
			}
		}
	}
}

// Unicode line separators are replaced with their equivalent JSON escapes, so that no reader sees
// additional lines.
func TestLineSeparatorsAreEscaped(t *testing.T) {
	t.Parallel()
	const raw, escaped = "a\\\u2028b\u2029c\u0085d", `a\\u2028b\u2029c\u0085d`
	s := start(t, Config{})
	send(t, s.client, `{"id":1,"method":"tools/call","params":{"name":"x","arguments":{"t":"`+strings.Replace(raw, `\`, `\\`, 1)+`"}}}`)
	gets(t, s.toServer, `{"id":1,"method":"tools/call","params":{"name":"x","arguments":{"t":"`+strings.Replace(escaped, `\`, `\\`, 1)+`"}}}`)
	send(t, s.server, `{"id":1,"result":{"content":[{"type":"text","text":"`+"\u2028"+`"}]}}`)
	gets(t, s.toClient, `{"id":1,"result":{"content":[{"type":"text","text":"\u2028"}]}}`)
	s.end()
	equal(t, s.record.lines(t, true), []string{"completed x 1", "requested x 1"})
}

// The client gets an error in place of an ambiguous response, which is recorded in full.
func TestAmbiguousResponsesAreWithheld(t *testing.T) {
	t.Parallel()
	const content = `{"content":[{"type":"text","text":"SECRETLY TOLD"}]}`
	for _, c := range []struct{ answer, why string }{
		{`{"jsonrpc":"2.0","id":1,"result":` + content + `,"error":{"code":1,"message":"x"}}`, flawOutcomes},
		{`{"jsonrpc":"2.0","id":1,"result":{},"Result":` + content + `}`, flawDuplicate},
		{`{"jsonrpc":"2.0","id":1,"result":{},"result":` + content + `}`, flawDuplicate},
		{`{"jsonrpc":"2.0","id":1,"re\u017fult":` + content + `}`, flawDuplicate},
		{`{"jsonrpc":"2.0","id":1,"method":"ping","result":` + content + `}`, flawBoth},
		{`{"jsonrpc":"2.0","id":1,"Method":"ping","result":` + content + `}`, flawDuplicate},
		{`{"jsonrpc":"2.0","id":1,"method":7,"result":` + content + `}`, flawMethod},
		{"{\"jsonrpc\":\"2.0\",\"id\":1,\r\"result\":" + content + "}", flawCarriageReturn},
	} {
		s := start(t, Config{Warn: func(string) {}})
		s.ask(`{"id":1,"method":"tools/call","params":{"name":"x"}}`)
		send(t, s.server, c.answer)
		gets(t, s.toClient, `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"attestd withheld the server's response: `+c.why+`"}],"isError":true}}`)
		s.end()
		list := s.record.all(t)
		if len(list) != 2 || list[1].Action != "tool.failed" || !strings.Contains(list[1].Error, c.why) || !bytes.Contains(list[1].Output, []byte("SECRETLY TOLD")) {
			t.Errorf("%s: %+v", c.answer, list)
		}
	}
}

// Responses to no open request and lines that are not messages are not forwarded to the client.
func TestUnmatchedResponsesAreWithheld(t *testing.T) {
	t.Parallel()
	const stray = `"result":{"content":[{"type":"text","text":"SECRETLY TOLD"}]}}`
	s := start(t, Config{Warn: func(string) {}})
	s.ask(`{"id":1,"method":"tools/call","params":{"name":"x"}}`)
	s.ask(`{"id":0,"method":"ping"}`)
	for _, line := range []string{
		`{"id":true,` + stray, `{"id":"0x1",` + stray, `{"id":[1],` + stray, `{"id":" 1",` + stray, `{"id":null,` + stray, `{` + stray, `{"id":1,"ID":2,` + stray,
		`[{"id":7,` + stray + `]`, `{"id":1,"x":NaN,` + stray, `{"id":1,` + stray + ` {}`, "\ufeff" + `{"id":1,` + stray, `{"id":1}` + "\r" + `{"id":1,` + stray, "no JSON",
	} {
		send(t, s.server, line)
		if got, err := s.toClient.ReadString('\n'); err != nil || strings.Contains(got, "SECRETLY") || !strings.Contains(got, "withheld") {
			t.Errorf("%s: the client gets %q, %v", line, got, err)
		}
		if strings.Contains(line, `"ID"`) { // that was the end of the call
			s.ask(`{"id":1,"method":"tools/call","params":{"name":"y"}}`)
		}
	}
	// some servers return a numeric ID as a string
	s.reply(`[{"id":"1","result":{}},{"method":"notifications/x"}]`)
	s.reply(`{"id":0,"error":null,"result":{}}`)
	s.end()
	equal(t, s.record.lines(t, true), []string{"completed y 1", "failed x 1 attestd withheld the server's response: " + flawDuplicate, "requested x 1", "requested y 1"})
}

// A request with the ID of an open one is refused, so that their responses cannot be confused.
func TestOpenIDIsRefused(t *testing.T) {
	t.Parallel()
	s := start(t, Config{Warn: func(string) {}})
	const call = `,"method":"tools/call","params":{"name":"x"}}`
	const taken = `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Invalid Request: another open request has its ID"}}`
	s.ask(`{"id":1` + call)
	s.ask(`{"id":2,"method":"ping"}`)
	for _, line := range []string{`{"id":1` + call, `{"id":1.0` + call, `{"id":2` + call, `{"id":1,"method":"ping"}`, `{"id":2,"method":"ping"}`} {
		send(t, s.client, line)
		gets(t, s.toClient, taken)
	}
	s.reply(`{"id":2,"result":{}}`)
	s.reply(`{"id":1,"result":{"n":1}}`)
	s.ask(`{"id":1` + call) // it is free again
	s.reply(`{"id":1,"result":{"n":2}}`)
	s.end()
	list := s.record.lines(t, true)
	if strings.Count(strings.Join(list, "\n"), "another open request has its ID") != 3 || len(list) != 10 {
		t.Error(strings.Join(list, "\n"))
	}
}

// A response without an outcome is recorded completely. If it has anything else for the client, it
// is the outcome.
func TestPendingResponsesAreRecorded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ result, action string }{
		{`{"resultType":"input_required","requestState":"TOLD","inputRequests":{}}`, "tool.pending"},
		{`{"resultType":"input_required","requestState":"TOLD","content":[],"isError":false}`, "tool.pending"},
		{`{"resultType":"input_required","content":[{"type":"text","text":"TOLD"}]}`, "tool.completed"},
		{`{"resultType":"input_required","isError":true,"structuredContent":{"a":"TOLD"}}`, "tool.failed"},
		{`{"resultType":"input_required","resultType":"complete","x":"TOLD"}`, "tool.completed"},
		{`{"task":{"taskId":"1","statusMessage":"TOLD"}}`, "tool.pending"},
		{`{"task":{"taskId":"1"},"structuredContent":{"a":"TOLD"}}`, "tool.completed"},
		{`{"task":{"taskId":"1"},"content":["TOLD"]}`, "tool.completed"},
	} {
		s := start(t, Config{})
		s.ask(`{"id":1,"method":"tools/call","params":{"name":"x"}}`)
		s.reply(`{"id":1,"result":` + c.result + `}`)
		s.end()
		// Nothing orders the record of what was parked and that of a call which is open at the end.
		if list := s.record.all(t); !slices.ContainsFunc(list, func(r recorded) bool {
			return r.Action == c.action && bytes.Contains(r.Output, []byte("TOLD"))
		}) {
			t.Errorf("%s: %+v", c.result, list)
		}
	}
	s := start(t, Config{})
	s.ask(`{"id":1,"method":"tools/call","params":{"name":"x"}}`)
	s.reply(`{"id":1,"error":{"code":1,"message":"no","data":2,"content":"TOLD"}}`)
	s.end()
	if list := s.record.all(t); !bytes.Contains(list[1].Output, []byte("TOLD")) {
		t.Errorf("%+v", list)
	}
}

// A server may return a task's outcome with its status, and different outcomes for repeated
// requests. Each is recorded.
func TestEachTaskResponseIsRecorded(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	s.ask(`{"id":1,"method":"tools/call","params":{"name":"x","task":{}}}`)
	s.reply(`{"id":1,"result":{"task":{"taskId":"t","status":"working"}}}`)
	for _, step := range []struct{ method, result string }{
		{"tasks/get", `{"taskId":"t","status":"working"}`},
		{"tasks/get", `{"taskId":"t","status":"completed","result":{"content":["one"]}}`},
		{"tasks/result", `{"content":["two"]}`},
		{"tasks/result", `{"content":["three"]}`},
		{"tasks/cancel", `{"taskId":"t","status":"cancelled","content":["four"]}`},
	} {
		s.ask(`{"id":2,"method":"` + step.method + `","params":{"taskId":"t"}}`)
		s.reply(`{"id":2,"result":` + step.result + `}`)
	}
	s.end()
	equal(t, s.record.lines(t, true), []string{"completed x 1", "completed x 1", "completed x 1", "completed x 1", "pending x 1", "requested x 1"})
}
