package mcpproxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"attestd/client"
)

// Every line goes on byte for byte, in both directions, whatever it is.
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
		`[]`, `7`, `"text"`, `{}`, `null`,
	}
	s := start(t, Config{})
	for _, line := range lines {
		go send(t, s.client, line)
		gets(t, s.toServer, line)
		go send(t, s.server, line)
		gets(t, s.toClient, line)
	}
	go send(t, s.server, "what is no JSON goes to the client as well")
	gets(t, s.toClient, "what is no JSON goes to the client as well")
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

// A call makes two records: what was asked, and what came of it. A result, a tool's error, an error of the protocol and input_required are
// told apart, and the ID of an answer is taken for what it means, not for how it is spelt.
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
	s.reply(`{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{}}`) // the server's own request, of the same ID
	s.ask(`{"jsonrpc":"2.0","id":1,"result":{"role":"assistant"}}`)                   // and its answer
	s.reply(`{"jsonrpc":"2.0","id":9,"result":{}}`)
	s.reply(`{"jsonrpc":"2.0","id":2,"error":{"code":-32602,"message":"no such tool","data":[1]}}`)
	s.reply(`{"jsonrpc":"2.0","id":"1","result":{"content":[{"type":"text","text":"disk full"}],"isError":true}}`)
	s.reply(`{"jsonrpc":"2.0","id":"a/b","result":{"resultType":"input_required","inputRequests":{},"requestState":"s1"}}`)
	call(`5`, "asks", `,"requestState":"s1","inputResponses":{}`)
	s.reply(`{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","content":[]}}`)
	s.reply(`{"jsonrpc":"2.0","id":5,"result":{"resultType":"complete","content":[]}}`)
	s.reply(`{"jsonrpc":"2.0","id":5,"result":{"content":[]}}`) // nobody has asked
	if err := s.end(); err != nil {
		t.Fatal(err)
	}
	equal(t, s.record.lines(t, true), []string{
		"completed asks a/b", "completed good 1", "failed bad 1", "failed broken 2 no such tool (code -32602)",
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

// The model's own name of a call, and its trace, are in both records, so that they can be found from the agent's side.
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

// Batches of revisions before 2025-06-18 are read message by message.
func TestBatch(t *testing.T) {
	s := start(t, Config{Gate: only("good")})
	s.ask(`[{"id":1,"method":"tools/call","params":{"name":"good"}},{"id":2,"method":"tools/call","params":{"name":"good"}}, {"id":3,"method":"ping"}]`)
	s.reply(`[{"id":3,"result":{}},{"id":2,"result":{"isError":true}},{"id":1,"result":{}}]`)
	// What is refused is taken out, and the rest stays as it is spelt.
	send(t, s.client, `[{"id":4,"method":"tools/call","params":{"name":"evil"}}, {"id" : 5, "method":"tools/call","params":{"name":"good"}},{"method":"notifications/x"}]`)
	gets(t, s.toServer, `[{"id" : 5, "method":"tools/call","params":{"name":"good"}},{"method":"notifications/x"}]`)
	gets(t, s.toClient, `[{"jsonrpc":"2.0","id":4,"result":{"content":[{"type":"text","text":"attestd refused this call: evil is not allowed"}],"isError":true}}]`)
	s.reply(`[{"id":5,"result":{}}]`)
	s.end()
	equal(t, s.record.lines(t, true), []string{
		"completed good 1", "completed good 5", "denied evil 4 evil is not allowed", "failed good 2", "requested evil 4", "requested good 1", "requested good 2", "requested good 5",
	})
}

// only is a Gate that lets one tool pass.
type only string

func (o only) Check(_ context.Context, tool string) error {
	if tool != string(o) {
		return errors.New(tool + " is not allowed")
	}
	return nil
}

// A call that may not go on is answered here, in the form of its revision, and recorded. The server never sees it.
func TestRefusal(t *testing.T) {
	s := start(t, Config{Gate: only("good")})
	send(t, s.client, `{"id":"x","method":"tools/call","params":{"name":"evil","arguments":{"a":1}}}`)
	gets(t, s.toClient, `{"jsonrpc":"2.0","id":"x","result":{"content":[{"type":"text","text":"attestd refused this call: evil is not allowed"}],"isError":true}}`)
	send(t, s.client, `{"id":2,"method":"tools/call","params":{"name":"evil","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`)
	gets(t, s.toClient, `{"jsonrpc":"2.0","id":2,"result":{"resultType":"complete","content":[{"type":"text","text":"attestd refused this call: evil is not allowed"}],"isError":true}}`)
	send(t, s.client, `{"method":"tools/call","params":{"name":"evil"}}`) // nobody to answer
	s.ask(`{"id":3,"method":"ping"}`)                                     // the server sees nothing of them
	s.end()
	equal(t, s.record.lines(t, true), []string{
		"denied evil  evil is not allowed", "denied evil 2 evil is not allowed", "denied evil x evil is not allowed", "requested evil", "requested evil 2", "requested evil x",
	})
}

// What two readers could understand in two ways, and what is no JSON, does not go on: a server might see a call in it that was not recorded.
func TestAmbiguous(t *testing.T) {
	s := start(t, Config{})
	for _, line := range []string{
		`{"id":1,"method":"tools/call","method":"ping","params":{"name":"x"}}`,
		`{"id":1,"METHOD":"tools/call","params":{"name":"x"}}`,
		`{"id":1,"Id":2,"method":"ping"}`,
	} {
		send(t, s.client, line)
		gets(t, s.toClient, `{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"Invalid Request: a member stands twice"}}`)
	}
	send(t, s.client, `{"id":2,"method":"tools/call","params":{"name":"x","name":"y"}}`)
	gets(t, s.toClient, `{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"attestd refused this call: a member stands in it twice"}],"isError":true}}`)
	for _, line := range []string{`{"id":1,"method":"tools/call","params":{"name":"x","arguments":{"a":NaN}}}`, `{"id":1} {"id":2}`, `{`, `x`} {
		send(t, s.client, line)
		gets(t, s.toClient, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error: the line is no JSON"}}`)
	}
	s.end()
	equal(t, s.record.lines(t, false), []string{"requested y 2", "denied y 2 a member stands in it twice"})
}

// A call goes on when its record is kept and not before; what the client has sent after it waits, so that order stays, while the records of
// many calls are being kept at once.
func TestCallWaitsForItsRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keep := make(chan struct{})
		waiting := 0
		r := &recorder{}
		r.keep = func(a client.Attestation) error {
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
			t.Fatalf("%d records are being kept, %d lines have arrived", waiting, len(arrived))
		}
		s.reply(`{"method":"notifications/from-the-server"}`) // which waits for nothing
		close(keep)
		var got []string
		for range want {
			got = append(got, <-arrived)
		}
		equal(t, got, want)
		s.end()
	})
}

// With FailClosed a call goes on when the service has acknowledged its record, and is refused when it does not; the records are kept then too.
func TestFailClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := false
		r := &recorder{}
		r.attest = func(ctx context.Context, _ client.Attestation) error {
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

// A call whose record cannot be kept is refused in either way: none runs unrecorded.
func TestRecordCannotBeKept(t *testing.T) {
	s := start(t, Config{Recorder: &recorder{keep: func(client.Attestation) error { return errors.New("disk full") }}})
	send(t, s.client, `{"id":1,"method":"tools/call","params":{"name":"x"}}`)
	gets(t, s.toClient, `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"attestd refused this call: its record cannot be kept"}],"isError":true}}`)
	s.ask(`{"id":2,"method":"ping"}`)
	s.end()
}

// A cancelled call stays open: its answer, when it comes after all, is its outcome. When none comes the record says that it was cancelled.
func TestCancelled(t *testing.T) {
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
		s.reply(`{"id":2,"result":{}}`) // goes on all the same
		s.end()
		if n := len(s.record.lines(t, true)); n != 6 {
			t.Errorf("%d records", n)
		}
	})
}

// A call that was answered with input_required and not made again has failed, an hour later.
func TestInputNeverCame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, Config{})
		s.ask(`{"id":1,"method":"tools/call","params":{"name":"x"}}`)
		s.reply(`{"id":1,"result":{"resultType":"input_required","requestState":"s"}}`)
		s.ask(`{"id":2,"method":"tools/call","params":{"name":"x","requestState":"another"}}`)
		time.Sleep(inputLife + sweepInterval)
		synctest.Wait()
		equal(t, s.record.lines(t, true), []string{
			"failed x 1 the server asked for input, and the call was not made again", "requested x 1", "requested x 2",
		})
		s.end()
	})
}

// When the server ends, the calls that it has not answered have failed, also those that are being recorded at that moment.
func TestServerEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		r := &recorder{}
		r.keep = func(a client.Attestation) error {
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

// An answer that a server gives before the call went to it is not the outcome of that call.
func TestEarlyAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		r := &recorder{keep: func(a client.Attestation) error {
			if a.ActionType == "tool.requested" {
				<-hold
			}
			return nil
		}}
		s := start(t, Config{Recorder: r})
		send(t, s.client, `{"id":1,"method":"tools/call","params":{"name":"x"}}`)
		synctest.Wait()
		s.reply(`{"id":1,"result":{"early":true}}`)
		close(hold)
		gets(t, s.toServer, `{"id":1,"method":"tools/call","params":{"name":"x"}}`)
		s.reply(`{"id":1,"result":{"early":false}}`)
		s.end()
		if list := r.all(t); len(list) != 2 || string(list[1].Output) != `{"early":false}` {
			t.Fatalf("%+v", list)
		}
	})
}

// When the client no longer reads, the server's input is closed, and what it still answers is recorded.
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

// A client may bring the input in the very moment in which it reads that it is needed: by then the call is found that it goes on from.
func TestInputComesAtOnce(t *testing.T) {
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
