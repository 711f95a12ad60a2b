package mcpproxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"attestd/sdk/attestd"
)

// The proxy forwards lines unchanged, byte for byte, in both directions.
func TestLinesAreUnchanged(t *testing.T) {
	lines := []string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}`,
		` { "method" : "tools\/call" , "id" : "a\u002fb", "params":{"name":"x","arguments":{"n":1e400,"twice":1,"twice":2}}} ` + "\r",
		`{"id":2,"method":"tools/call","params":{"name":"x","arguments":{"text":"\ud83d"}}}`,
		"",
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"progress":1.50}}`,
		`[{"id":3,"method":"tools/call","params":{"name":"x"}},{"id":4,"method":"ping"}]`,
		`{"jsonrpc":"2.0","id":3,"result":{"content":[],"isError":false,"unknown":{"deep":[[[[]]]]}}}`,
		`{"id":5,"method":"tools/call","params":{"name":"big","arguments":{"text":"` + strings.Repeat("0123456789abcdef", 8<<16) + `"}}}`,
		`{"method":"tools/call","params":{"name":"nobody answers this"}}`,
	}
	s := start(t, Config{})
	for _, line := range lines {
		go send(t, s.client, line)
		gets(t, s.toServer, line)
		go send(t, s.server, line)
		gets(t, s.toClient, line)
	}
	go func() {
		_, _ = io.WriteString(s.client, `{"id":6,"method":"ping"}`)
		s.client.Close()
	}()
	if last, err := s.toServer.ReadString('\n'); err != io.EOF || last != `{"id":6,"method":"ping"}` {
		t.Fatalf("the last line, without an end: %q, %v", last, err)
	}
	if err := s.end(); err != nil {
		t.Fatal(err)
	}
}

// The proxy handles each message of a batch, which revisions before 2025-06-18 allow.
func TestBatch(t *testing.T) {
	s := start(t, Config{Gate: only("good")})
	s.ask(`[{"id":1,"method":"tools/call","params":{"name":"good"}},{"id":2,"method":"tools/call","params":{"name":"good"}}, {"id":3,"method":"ping"}]`)
	s.reply(`[{"id":3,"result":{}},{"id":2,"result":{"isError":true}},{"id":1,"result":{}}]`)
	// A refused message is removed from the batch, and the others are unchanged.
	send(t, s.client, `[{"id":4,"method":"tools/call","params":{"name":"evil"}}, {"id" : 5, "method":"tools/call","params":{"name":"good"}},{"method":"notifications/x"}]`)
	gets(t, s.toServer, `[{"id" : 5, "method":"tools/call","params":{"name":"good"}},{"method":"notifications/x"}]`)
	gets(t, s.toClient, `[{"jsonrpc":"2.0","id":4,"result":{"content":[{"type":"text","text":"attestd refused this call: evil is not allowed"}],"isError":true}}]`)
	s.reply(`[{"id":5,"result":{}}]`)
	s.end()
	equal(t, s.record.lines(t, true), []string{
		"completed good 1", "completed good 5", "denied evil 4 evil is not allowed", "failed good 2", "requested evil 4", "requested good 1", "requested good 2", "requested good 5",
	})
}

// only is a Gate that allows one tool.
type only string

func (o only) Check(_ context.Context, _, tool string, _ []byte) (string, error) {
	if tool != string(o) {
		return "", errors.New(tool + " is not allowed")
	}
	return "passport of " + tool, nil
}

// The proxy answers a refused call itself, in the form of its revision, and records it. The server
// does not receive it.
func TestRefusal(t *testing.T) {
	s := start(t, Config{Gate: only("good")})
	send(t, s.client, `{"id":"x","method":"tools/call","params":{"name":"evil","arguments":{"a":1}}}`)
	gets(t, s.toClient, `{"jsonrpc":"2.0","id":"x","result":{"content":[{"type":"text","text":"attestd refused this call: evil is not allowed"}],"isError":true}}`)
	send(t, s.client, `{"id":2,"method":"tools/call","params":{"name":"evil","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`)
	gets(t, s.toClient, `{"jsonrpc":"2.0","id":2,"result":{"resultType":"complete","content":[{"type":"text","text":"attestd refused this call: evil is not allowed"}],"isError":true}}`)
	// without an ID there is no response
	send(t, s.client, `{"method":"tools/call","params":{"name":"evil"}}`)
	// the server received none of them
	s.ask(`{"id":3,"method":"ping"}`)
	s.end()
	equal(t, s.record.lines(t, true), []string{
		"denied evil  evil is not allowed", "denied evil 2 evil is not allowed", "denied evil x evil is not allowed", "requested evil", "requested evil 2", "requested evil x",
	})
}

// Ambiguous messages and invalid JSON are refused: a server might find an unrecorded call in them.
func TestAmbiguousRequestsAreRefused(t *testing.T) {
	s := start(t, Config{})
	for _, line := range []string{
		`{"id":1,"method":"tools/call","method":"ping","params":{"name":"x"}}`,
		`{"id":1,"METHOD":"tools/call","params":{"name":"x"}}`,
		`{"id":1,"Id":2,"method":"ping"}`,
	} {
		send(t, s.client, line)
		gets(t, s.toClient, `{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"Invalid Request: it has a duplicate member"}}`)
	}
	send(t, s.client, `{"id":2,"method":"tools/call","params":{"name":"x","name":"y"}}`)
	gets(t, s.toClient, `{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"attestd refused this call: it has a duplicate member"}],"isError":true}}`)
	for _, line := range []string{`{"id":1,"method":"tools/call","params":{"name":"x","arguments":{"a":NaN}}}`, `{"id":1} {"id":2}`, `{`, `x`} {
		send(t, s.client, line)
		gets(t, s.toClient, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error: the line is not JSON"}}`)
	}
	s.end()
	equal(t, s.record.lines(t, false), []string{"requested y 2", "denied y 2 it has a duplicate member"})
}

// What is no object with a method, a result or an error is forwarded in neither direction: a
// lenient reader may find a call in it, such as one that descends into nested batches. So is a
// method that such a reader may take for tools/call. Each has an answer, but for notifications.
func TestWhatIsNoMessageIsRefused(t *testing.T) {
	t.Parallel()
	const call = `{"id":1,"method":"tools/call","params":{"name":"x"}}`
	unread := func(why string) string {
		return `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Invalid Request: ` + why + `"}}`
	}
	withheld := func(why string) string {
		return `{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"attestd withheld the server's response: ` + why + `"}}`
	}
	none, neither, empty, like := "it is no JSON object", "it is neither a request nor a response", "a batch without a message", "its method resembles tools/call"
	for _, c := range []struct {
		line, why string
		batch     bool
	}{
		{"[[" + call + "]]", none, true},
		{"[[[" + call + "]]]", none, true},
		{`["tools/call"]`, none, true},
		{`[null]`, none, true},
		{`7`, none, false}, {`"text"`, none, false}, {`null`, none, false}, {`true`, none, false},
		{`{}`, neither, false}, {`{"id":null}`, neither, false}, {`{"params":{"name":"x"}}`, neither, false},
		{`{"messages":[` + call + `]}`, neither, false},
		{`[{}]`, neither, true},
		{`[]`, empty, false}, {` [ ] `, empty, false},
	} {
		s := start(t, Config{FailClosed: true, Gate: only("good"), Warn: func(string) {}})
		refused, replaced := unread(c.why), withheld(c.why)
		if c.batch {
			refused, replaced = "["+refused+"]", "["+replaced+"]"
		}
		if c.why == empty {
			replaced = strings.TrimSpace(string(withheldLine(errEmptyBatch)))
		}
		send(t, s.client, c.line)
		gets(t, s.toClient, refused)
		send(t, s.server, c.line)
		gets(t, s.toClient, replaced)
		s.ask(`{"method":"notifications/next"}`) // and nothing before it
		s.end()
		equal(t, s.record.lines(t, false), nil)
	}
	// part of a batch: the rest of it goes on
	s := start(t, Config{Warn: func(string) {}})
	send(t, s.client, `[[`+call+`],{"id":2,"method":"ping"}]`)
	gets(t, s.toServer, `[{"id":2,"method":"ping"}]`)
	gets(t, s.toClient, "["+unread(none)+"]")
	for _, method := range []string{"Tools/Call", "tools/call ", `\u0000tools/call`, `tools/call\ud800`, `\ufefftools/call`, `tool\u017f/call`, "TOOLS/CALL"} {
		send(t, s.client, `{"id":3,"method":"`+method+`","params":{"name":"x"}}`)
		gets(t, s.toClient, strings.Replace(unread(like), "null", "3", 1))
		send(t, s.client, `{"method":"`+method+`","params":{"name":"x"}}`)
	}
	s.ask(`{"id":4,"method":"tools/list"}`)
	s.end()
}

// A request whose ID two readers could take for that of another one is refused: they hold numbers
// in doubles, where 0 and -0 and integers beyond 2^53 are one. Its error has no ID, which could be
// taken for that of the other one. Integers within the bounds, and texts, are IDs.
func TestIDsThatReadersConfuse(t *testing.T) {
	t.Parallel()
	s := start(t, Config{Warn: func(string) {}})
	for _, id := range []string{"-0", "-0.0", "-0.5", "0.00001", "1e0", "1.5", "9007199254740992.0", "9007199254740992", "-9007199254740992", "9007199254740993", "1e999", "18446744073709551616"} {
		for _, method := range []string{"tools/call", "ping", "tasks/result"} {
			send(t, s.client, `{"id":`+id+`,"method":"`+method+`","params":{"name":"x"}}`)
			gets(t, s.toClient, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Invalid Request: its ID is no integer between -(2^53-1) and 2^53-1"}}`)
		}
	}
	for _, id := range []string{"0", "-1", "9007199254740991", "-9007199254740991", `"9007199254740993"`, `"-0"`} {
		s.ask(`{"id":` + id + `,"method":"tools/call","params":{"name":"x"}}`)
		s.reply(`{"id":` + id + `,"result":{}}`)
	}
	// no outcome is recorded for another call
	s.ask(`{"id":0,"method":"tools/call","params":{"name":"zero"}}`)
	send(t, s.server, `{"id":-0,"result":{}}`)
	gets(t, s.toClient, unasked)
	s.reply(`{"id":0,"result":{}}`)
	s.end()
	n := map[string]int{}
	for _, r := range s.record.all(t) {
		n[r.Action]++
	}
	if want := map[string]int{"tool.requested": 19, "tool.denied": 12, "tool.completed": 7}; !maps.Equal(n, want) {
		t.Errorf("%v, want %v", n, want)
	}
}

// A call is forwarded only after its record is durable. Later lines wait, which preserves their
// order, while many calls are recorded concurrently.
func TestCallWaitsForItsRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keep := make(chan struct{})
		waiting := 0
		r := &recorder{}
		r.persist = func(a attestd.Attestation) error {
			if a.ActionType == "tool.requested" {
				r.mu.Lock()
				waiting++
				r.mu.Unlock()
				<-keep
			}
			return nil
		}
		s := start(t, Config{Recorder: r})
		var want []string
		for n := range 40 {
			want = append(want, fmt.Sprintf(`{"id":%d,"method":"tools/call","params":{"name":"x"}}`, n), fmt.Sprintf(`{"method":"notifications/n%d"}`, n))
		}
		arrived := make(chan string, len(want))
		go func() {
			for range want {
				line, _ := s.toServer.ReadString('\n')
				arrived <- strings.TrimSpace(line)
			}
		}()
		for _, line := range want {
			send(t, s.client, line)
		}
		synctest.Wait()
		if waiting != 40 || len(arrived) != 0 {
			t.Fatalf("%d records are in progress, %d lines have arrived", waiting, len(arrived))
		}
		s.reply(`{"method":"notifications/from-the-server"}`) // the other direction is not blocked
		close(keep)
		var got []string
		for range want {
			got = append(got, <-arrived)
		}
		equal(t, got, want)
		s.end()
	})
}

// With FailClosed a call is forwarded after the service has acknowledged its record, and refused if
// it does not. A refused call is recorded too.
func TestFailClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := false
		r := &recorder{}
		r.attest = func(ctx context.Context, _ attestd.Attestation) error {
			if !down {
				return nil
			}
			<-ctx.Done() // the service does not answer
			return ctx.Err()
		}
		s := start(t, Config{Recorder: r, FailClosed: true})
		s.ask(`{"id":1,"method":"tools/call","params":{"name":"x"}}`)
		s.reply(`{"id":1,"result":{}}`)
		down = true
		began := time.Now()
		send(t, s.client, `{"id":2,"method":"tools/call","params":{"name":"x"}}`)
		gets(t, s.toClient, `{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"attestd refused this call: attestd has not acknowledged its record"}],"isError":true}}`)
		if took := time.Since(began); took != ackTimeout {
			t.Errorf("the call was refused after %v", took)
		}
		s.end()
		equal(t, r.lines(t, false), []string{"requested x 1", "completed x 1", "requested x 2", "denied x 2 attestd has not acknowledged its record"})
	})
}

// A call that cannot be recorded is refused in both modes.
func TestUnrecordableCallIsRefused(t *testing.T) {
	s := start(t, Config{Recorder: &recorder{persist: func(attestd.Attestation) error { return errors.New("disk full") }}})
	send(t, s.client, `{"id":1,"method":"tools/call","params":{"name":"x"}}`)
	gets(t, s.toClient, `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"attestd refused this call: its record cannot be stored"}],"isError":true}}`)
	s.ask(`{"id":2,"method":"ping"}`)
	s.end()
}

// When the client no longer reads, the proxy closes the server's input and still records responses.
func TestClientEnds(t *testing.T) {
	s := start(t, Config{})
	s.ask(`{"id":1,"method":"tools/call","params":{"name":"x"}}`)
	s.clientEnd.Close()
	send(t, s.server, `{"id":1,"result":{}}`)
	if _, err := s.toServer.ReadByte(); err != io.EOF {
		t.Fatal(err)
	}
	s.end()
	equal(t, s.record.lines(t, false), []string{"requested x 1", "completed x 1"})
}

// The records of a session do not reveal its next idempotency keys.
func TestKeysAreUnpredictable(t *testing.T) {
	s := start(t, Config{})
	s.ask(`{"id":1,"method":"tools/call","params":{"name":"x"}}`)
	s.reply(`{"id":1,"result":{}}`)
	if err := s.end(); err != nil {
		t.Fatal(err)
	}
	if len(s.record.records) != 2 {
		t.Fatalf("%d records", len(s.record.records))
	}
	for _, a := range s.record.records {
		secret, _, _ := strings.Cut(a.IdempotencyKey, ":")
		payload := string(a.Payload.(json.RawMessage))
		if len(secret) < 39 || strings.Contains(payload, secret) || strings.Contains(a.IdempotencyKey, s.record.all(t)[0].SessionID) {
			t.Errorf("the key %q of %s", a.IdempotencyKey, payload)
		}
	}
}

// Where a decision is demanded, the record of a call is decided by the passport that lets it pass,
// and a call that the gate refuses is not. No record that is stored has the passport.
func TestDecisionIsByThePassport(t *testing.T) {
	for _, decided := range []bool{true, false} {
		var presented []string
		c := Config{Gate: only("good"), Decided: decided, FailClosed: true}
		s := start(t, c)
		s.record.attest = func(_ context.Context, a attestd.Attestation) error {
			presented = append(presented, a.Passport)
			return nil
		}
		send(t, s.client, `{"id":1,"method":"tools/call","params":{"name":"good"}}`)
		send(t, s.client, `{"id":2,"method":"tools/call","params":{"name":"evil"}}`)
		s.end()
		want := []string{""}
		if decided {
			want = []string{"passport of good"}
		}
		if !slices.Equal(presented, want) {
			t.Errorf("demanded %t: presented %q", decided, presented)
		}
	}
}
