package mcpproxy

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"attestd/chain/decision"
	"attestd/sdk/attestd"
)

const approvalID = "apr_0123456789abcdefghijAA"

// people decide approvals when a test says so.
type people struct {
	decided chan attestd.Approval // what they decide; closed when they are gone
	asked   int
	mu      sync.Mutex
}

func (p *people) Approval(context.Context, string, time.Duration) (attestd.Approval, error) {
	return attestd.Approval{ID: approvalID, State: attestd.ApprovalPending, Tool: "files/rm", URL: "https://attest.example/#/approvals/" + approvalID}, nil
}

func (p *people) AwaitApproval(ctx context.Context, id string) (attestd.Approval, error) {
	p.mu.Lock()
	p.asked++
	p.mu.Unlock()
	select {
	case a := <-p.decided:
		a.ID = id
		return a, nil
	case <-ctx.Done():
		return attestd.Approval{ID: id, State: attestd.ApprovalPending}, ctx.Err()
	}
}

// asking is the configuration of a session whose calls of rm need an approval.
func asking(p *people) Config {
	seen := map[string]bool{}
	var mu sync.Mutex
	return Config{AskWait: 5 * time.Minute, Approvals: p, Recorder: &recorder{decide: func(a attestd.Attestation) *decision.Decision {
		mu.Lock()
		defer mu.Unlock()
		call := string(a.Payload.(json.RawMessage))
		switch {
		case !strings.Contains(call, `"tool":"rm"`):
			return &decision.Decision{Verdict: decision.Allow}
		case !seen[call]:
			seen[call] = true
			return &decision.Decision{Verdict: decision.Ask, Approval: approvalID}
		}
		return &decision.Decision{Verdict: decision.Allow, Approval: approvalID}
	}}}
}

func removes(id int, more string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"rm","arguments":{"n":%d}%s}}`, id, id, more)
}

const pendingText = "attestd refused this call: attestd: approval " + approvalID + " is pending, repeat the call"

// reads reads a line of the client that begins so.
func (s *session) reads(begin string) {
	s.t.Helper()
	line, err := s.toClient.ReadString('\n')
	if err != nil || !strings.Contains(line, begin) {
		s.t.Fatalf("got %s, %v; want %s", line, err, begin)
	}
}

// A call waits for its approval and is then forwarded, with a record for each of its two decisions.
// Meanwhile other lines go on. Its client is told, by progress and by a page to open, and what it
// answers to the latter does not reach the server.
func TestCallWaitsForApproval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &people{decided: make(chan attestd.Approval)}
		s := start(t, asking(p))
		s.ask(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{"url":{}}}}}`)
		s.reply(`{"jsonrpc":"2.0","id":0,"result":{}}`)
		call := removes(1, `,"_meta":{"progressToken":"t"}`)
		send(t, s.client, call)
		page, err := s.toClient.ReadString('\n')
		var asked struct {
			ID     string
			Method string
			Params struct{ Mode, URL, ElicitationID string }
		}
		if err != nil || json.Unmarshal([]byte(page), &asked) != nil || asked.Method != "elicitation/create" || asked.Params.Mode != "url" ||
			asked.Params.ElicitationID != approvalID || asked.Params.URL != "https://attest.example/#/approvals/"+approvalID {
			t.Fatal(page, err)
		}
		gets(t, s.toClient, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"message":"waiting for approval `+approvalID+
			` at https://attest.example/#/approvals/`+approvalID+`","progress":0.000001,"progressToken":"t"}}`)
		send(t, s.client, `{"jsonrpc":"2.0","id":"`+asked.ID+`","result":{"action":"accept"}}`)
		s.ask(`{"jsonrpc":"2.0","id":2,"method":"ping"}`)
		s.reply(`{"jsonrpc":"2.0","id":2,"result":{}}`)
		s.ask(strings.Replace(removes(3, ""), `"rm"`, `"ls"`, 1))
		time.Sleep(progressInterval)
		s.reads(`"progress":0.000002`)
		p.decided <- attestd.Approval{State: attestd.ApprovalApproved}
		s.reads(`"notifications/elicitation/complete","params":{"elicitationId":"` + approvalID + `"`)
		gets(t, s.toServer, call)
		s.reply(`{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`)
		s.reply(`{"jsonrpc":"2.0","id":3,"result":{"content":[]}}`)
		s.end()
		equal(t, s.record.lines(t, true), []string{"completed ls 3", "completed rm 1", "requested ls 3", "requested rm 1", "requested rm 1"})
	})
}

// A call that nobody approves does not reach the server: it is denied, or repeated later, or its
// client cancels it or ends.
func TestUnapprovedCallIsRefused(t *testing.T) {
	for name, test := range map[string]struct {
		until  func(*session, *people)
		reason string
	}{
		"denied": {func(_ *session, p *people) {
			p.decided <- attestd.Approval{State: attestd.ApprovalDenied, Reason: "not on a Friday"}
		},
			"the approval " + approvalID + " is denied: not on a Friday"},
		"expired": {func(_ *session, p *people) { p.decided <- attestd.Approval{State: attestd.ApprovalExpired} }, approvalID + " is expired"},
		"nobody":  {func(_ *session, _ *people) { time.Sleep(5 * time.Minute) }, "is pending, repeat the call"},
		"cancelled": {func(s *session, _ *people) {
			s.ask(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"never mind"}}`)
		}, "cancelled by the client: never mind"},
		"client ended": {func(s *session, _ *people) { s.client.Close() }, errClientEnded.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &people{decided: make(chan attestd.Approval)}
				s := start(t, asking(p))
				send(t, s.client, removes(1, ""))
				synctest.Wait()
				test.until(s, p)
				s.reads(test.reason)
				s.client.Close()
				if line, err := s.toServer.ReadString('\n'); err != io.EOF {
					t.Errorf("the server has %q, %v", line, err)
				}
				s.end()
				lines := s.record.lines(t, false)
				if len(lines) != 2 || lines[0] != "requested rm 1" || !strings.HasPrefix(lines[1], "denied rm 1") || !strings.Contains(lines[1], test.reason) {
					t.Error(lines)
				}
			})
		})
	}
}

// A call that is approved after its client has cancelled it is not made.
func TestCancelledWhileApproved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &people{decided: make(chan attestd.Approval)}
		c := asking(p)
		again := make(chan struct{})
		decide := c.Recorder.(*recorder).decide
		c.Recorder.(*recorder).decide = func(a attestd.Attestation) *decision.Decision {
			made := decide(a)
			if made.Verdict == decision.Allow {
				<-again
			}
			return made
		}
		s := start(t, c)
		send(t, s.client, removes(1, ""))
		p.decided <- attestd.Approval{State: attestd.ApprovalApproved}
		synctest.Wait()
		s.ask(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
		close(again)
		s.reads("cancelled by the client")
		s.end()
		equal(t, s.record.lines(t, false), []string{"requested rm 1", "requested rm 1", "denied rm 1 cancelled by the client"})
	})
}

// What waits is bounded: further calls, long ones, those of a batch and those without an ID are
// refused at once.
func TestWaitingIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &people{decided: make(chan attestd.Approval)}
		s := start(t, asking(p))
		send(t, s.client, `[`+removes(1, "")+`]`)
		s.reads(pendingText)
		send(t, s.client, removes(2, `,"more":"`+strings.Repeat("x", maxWaitingLine)+`"`))
		s.reads(pendingText)
		for id := range maxWaiting {
			send(t, s.client, removes(3+id, ""))
		}
		synctest.Wait()
		if p.asked != maxWaiting {
			t.Errorf("%d calls wait", p.asked)
		}
		send(t, s.client, removes(1000, ""))
		s.reads(pendingText)
		s.ask(`{"jsonrpc":"2.0","id":"p","method":"ping"}`)
		s.client.Close()
		s.end()
		if n := len(s.record.lines(t, true)); n != 2*(3+maxWaiting) {
			t.Errorf("%d records", n)
		}
	})
}

// Over HTTP a call that waits is answered by a stream, with its progress before the answer of the
// server, whatever that is.
func TestGatewayWaitsForApproval(t *testing.T) {
	for name, test := range map[string]struct {
		server http.Handler
		want   string
	}{
		"json": {answers(jsonType, "{\"jsonrpc\":\"2.0\",\n\"id\":1,\"result\":{\"content\":[]}}"), `{"jsonrpc":"2.0", "id":1,"result":{"content":[]}}`},
		"stream": {answers(sseType, "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"content\":[]}}\n\n"),
			`{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`},
		"error": {http.NotFoundHandler(), `{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"the server answered HTTP 404"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &people{decided: make(chan attestd.Approval)}
			g := startGateway(t, test.server, func(c *GatewayConfig) {
				own := asking(p)
				c.AskWait, c.Approvals = own.AskWait, own.Approvals
				c.Open = func(string) (Recorder, error) { return own.Recorder, nil }
			})
			resp := g.post(removes(1, `,"_meta":{"progressToken":7}`))
			in := newEvents(resp.Body, 1<<20, nil)
			ev, err := in.next()
			if err != nil || resp.Header.Get("Content-Type") != sseType || !regexp.MustCompile(`notifications/progress.*waiting for approval `+approvalID).Match(ev.data) {
				t.Fatalf("%s, %v", ev.data, err)
			}
			p.decided <- attestd.Approval{State: attestd.ApprovalApproved}
			if ev, err = in.next(); err != nil || string(ev.data) != test.want {
				t.Errorf("%s, %v", ev.data, err)
			}
		})
	}
}
