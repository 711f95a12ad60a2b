package mcpproxy

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"attestd/sdk/attestd"
)

// unasked replaces a response to no open request.
const unasked = `{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"attestd withheld the server's response: it answers no open request"}}`

// A call has two records, the request and the outcome. The outcome is a result, a tool error, a
// protocol error, or pending with input_required. IDs are compared by value.
func TestOutcomes(t *testing.T) {
	s := start(t, Config{})
	call := func(id, tool, more string) {
		s.ask(`{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + tool + `","arguments":{"a":1}` + more + `}}`)
	}
	call(`1`, "good", "")
	call(`"1"`, "bad", "")
	call(`2.0`, "broken", "")
	call(`"a\/b"`, "asks", "")
	s.ask(`{"jsonrpc":"2.0","id":9,"method":"ping"}`)
	// a request of the server with the same ID
	s.reply(`{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{}}`)
	// and the client's response
	s.ask(`{"jsonrpc":"2.0","id":1,"result":{"role":"assistant"}}`)
	s.reply(`{"jsonrpc":"2.0","id":9,"result":{}}`)
	s.reply(`{"jsonrpc":"2.0","id":2,"error":{"code":-32602,"message":"no such tool","data":[1]}}`)
	s.reply(`{"jsonrpc":"2.0","id":"1","result":{"content":[{"type":"text","text":"disk full"}],"isError":true}}`)
	s.reply(`{"jsonrpc":"2.0","id":"a/b","result":{"resultType":"input_required","inputRequests":{},"requestState":"s1"}}`)
	call(`5`, "asks", `,"requestState":"s1","inputResponses":{}`)
	s.reply(`{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","content":[]}}`)
	s.reply(`{"jsonrpc":"2.0","id":5,"result":{"resultType":"complete","content":[]}}`)
	send(t, s.server, `{"jsonrpc":"2.0","id":5,"result":{"content":[]}}`) // answers no request
	gets(t, s.toClient, unasked)
	if err := s.end(); err != nil {
		t.Fatal(err)
	}
	equal(t, s.record.lines(t, true), []string{
		"completed asks a/b", "completed good 1", "failed bad 1", "failed broken 2 no such tool (code -32602)", "pending asks a/b",
		"requested asks a/b", "requested asks a/b", "requested bad 1", "requested broken 2", "requested good 1",
	})
	for _, r := range s.record.all(t) {
		if r.Action == "tool.requested" && string(r.Input) != `{"a":1}` || r.Server != "files" || r.SessionID != s.proxy.session {
			t.Errorf("%+v", r)
		}
		if r.Tool == "bad" && r.Action == "tool.failed" && !bytes.Contains(r.Output, []byte("disk full")) {
			t.Errorf("the tool's error is not in %s", r.Output)
		}
	}
}

// Both records have the model's tool use ID and the trace, which correlate them with the agent's
// logs.
func TestCorrelation(t *testing.T) {
	s := start(t, Config{})
	trace := "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	s.ask(`{"id":1,"method":"tools/call","params":{"name":"x","_meta":{"claudecode/toolUseId":"toolu_7","traceparent":"` + trace + `"}}}`)
	s.reply(`{"id":1,"result":{"content":[]}}`)
	s.end()
	list := s.record.all(t)
	if len(list) != 2 {
		t.Fatal(list)
	}
	for _, r := range list {
		if r.CallID != "toolu_7" || r.TraceParent != trace {
			t.Errorf("%+v", r)
		}
	}
}

// A cancelled call stays open, and a late response is its outcome. Without a response, the record
// says that the call was cancelled.
func TestCancelledCallStaysOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, Config{})
		for id := range 3 {
			s.ask(fmt.Sprintf(`{"id":%d,"method":"tools/call","params":{"name":"x"}}`, id))
		}
		s.ask(`{"method":"notifications/cancelled","params":{"requestId":0,"reason":"too slow"}}`)
		s.ask(`{"method":"notifications/cancelled","params":{"requestId":1}}`)
		s.reply(`{"id":1,"result":{}}`)
		time.Sleep(cancelledLife + sweepInterval)
		synctest.Wait()
		equal(t, s.record.lines(t, true), []string{
			"completed x 1", "failed x 0 cancelled by the client: too slow", "requested x 0", "requested x 1", "requested x 2",
		})
		time.Sleep(callLife)
		synctest.Wait()
		if got := s.record.lines(t, true)[2]; got != "failed x 2 no answer came within 24h0m0s" {
			t.Error(got)
		}
		send(t, s.server, `{"id":2,"result":{}}`) // its record says by now that none came
		gets(t, s.toClient, unasked)
		s.end()
		if n := len(s.record.lines(t, true)); n != 6 {
			t.Errorf("%d records", n)
		}
	})
}

// A call with the response input_required fails after an hour unless the client continues it.
func TestMissingInputFailsCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, Config{})
		s.ask(`{"id":1,"method":"tools/call","params":{"name":"x"}}`)
		s.reply(`{"id":1,"result":{"resultType":"input_required","requestState":"s"}}`)
		s.ask(`{"id":2,"method":"tools/call","params":{"name":"x","requestState":"another"}}`)
		time.Sleep(inputLife + sweepInterval)
		synctest.Wait()
		equal(t, s.record.lines(t, true), []string{
			"failed x 1 the server asked for input, and the call was not made again", "pending x 1", "requested x 1", "requested x 2",
		})
		s.end()
	})
}

// When the server ends, open calls fail, including those that are being recorded at that moment.
func TestServerEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		r := &recorder{}
		r.persist = func(a attestd.Attestation) error {
			if a.ActionType == "tool.requested" && strings.Contains(a.IdempotencyKey, ":2:") {
				<-hold
			}
			return nil
		}
		s := start(t, Config{Recorder: r})
		s.ask(`{"id":1,"method":"tools/call","params":{"name":"x"}}`)
		send(t, s.client, `{"id":2,"method":"tools/call","params":{"name":"x"}}`)
		synctest.Wait()
		go func() {
			synctest.Wait()
			close(hold)
		}()
		if err := s.end(); err != nil {
			t.Fatal(err)
		}
		equal(t, r.lines(t, true), []string{
			"failed x 1 the server ended before it answered", "failed x 2 the server ended before it answered", "requested x 1", "requested x 2",
		})
	})
}

// A response that arrives before its call was forwarded is not the call's outcome.
func TestEarlyAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		r := &recorder{persist: func(a attestd.Attestation) error {
			if a.ActionType == "tool.requested" {
				<-hold
			}
			return nil
		}}
		s := start(t, Config{Recorder: r})
		send(t, s.client, `{"id":1,"method":"tools/call","params":{"name":"x"}}`)
		synctest.Wait()
		// the client would take it for the outcome
		send(t, s.server, `{"id":1,"result":{"early":true}}`)
		gets(t, s.toClient, unasked)
		synctest.Wait()
		close(hold)
		gets(t, s.toServer, `{"id":1,"method":"tools/call","params":{"name":"x"}}`)
		s.reply(`{"id":1,"result":{"early":false}}`)
		s.end()
		if list := r.all(t); len(list) != 2 || string(list[1].Output) != `{"early":false}` {
			t.Fatalf("%+v", list)
		}
	})
}

// A client may send the input at the same moment as it receives the request for input. The call
// that it continues is already parked.
func TestInputArrivesImmediately(t *testing.T) {
	s := start(t, Config{})
	s.ask(`{"id":0,"method":"tools/call","params":{"name":"x"}}`)
	for id := range 200 {
		go send(t, s.server, fmt.Sprintf(`{"id":%d,"result":{"resultType":"input_required","requestState":"s"}}`, id))
		if _, err := s.toClient.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		s.ask(fmt.Sprintf(`{"id":%d,"method":"tools/call","params":{"name":"x","requestState":"s"}}`, id+1))
	}
	s.reply(`{"id":200,"result":{}}`)
	s.end()
	for _, r := range s.record.all(t) {
		if r.CallID != "0" || r.Action == "tool.failed" {
			t.Fatalf("%+v", r)
		}
	}
}

// Each fetched result of a task is recorded as the call's outcome. A task whose result is not
// fetched fails.
func TestTasks(t *testing.T) {
	s := start(t, Config{})
	for id := range 3 {
		s.ask(fmt.Sprintf(`{"id":%d,"method":"tools/call","params":{"name":"x","task":{"ttl":60000}}}`, id))
		s.reply(fmt.Sprintf(`{"id":%d,"result":{"task":{"taskId":"t%d","status":"working"}}}`, id, id))
	}
	s.ask(`{"id":7,"method":"tasks/get","params":{"taskId":"t0"}}`)
	s.reply(`{"id":7,"result":{"taskId":"t0","status":"completed"}}`)
	s.ask(`{"id":8,"method":"tasks/result","params":{"taskId":"t0"}}`)
	s.ask(`{"id":9,"method":"tasks/result","params":{"taskId":"t1"}}`)
	s.reply(`{"id":9,"result":{"content":[],"isError":true}}`)
	s.reply(`{"id":8,"result":{"content":[],"task":{"taskId":"mine"}}}`)
	s.ask(`{"id":10,"method":"tasks/result","params":{"taskId":"t0"}}`) // once more
	s.reply(`{"id":10,"result":{"content":[]}}`)
	s.end()
	equal(t, s.record.lines(t, true), []string{
		"completed x 0", "completed x 0", "failed x 1", "failed x 2 it became a task, whose result was not fetched",
		"pending x 0", "pending x 1", "pending x 2", "requested x 0", "requested x 1", "requested x 2",
	})
}
