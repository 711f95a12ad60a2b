package mcpproxy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"attestd/sdk/attestd"
)

// A line over the length limit, in either direction, ends the session, because its content is
// unknown.
func TestLineTooLong(t *testing.T) {
	long := strings.Repeat("x", 1000)
	s := start(t, Config{MaxLine: 1000})
	go func() { _, _ = s.client.Write([]byte(long + "\n")) }()
	if _, err := s.toServer.ReadByte(); err == nil {
		t.Error("it was forwarded")
	}
	if err := s.end(); !errors.Is(err, errLineTooLong) {
		t.Error(err)
	}
	s = start(t, Config{MaxLine: 1000})
	s.ask(`{"id":1,"method":"tools/call","params":{"name":"x"}}`)
	go func() { _, _ = s.server.Write([]byte(long + "\n")) }()
	if err := <-s.done; !errors.Is(err, errLineTooLong) {
		t.Error(err)
	}
	equal(t, s.record.lines(t, false), []string{"requested x 1", "failed x 1 the server ended before it answered"})
}

// The proxy refuses a call over the limit of open calls.
func TestTooManyCalls(t *testing.T) {
	cs, now := newCalls(), time.Now()
	for n := range maxCalls {
		if _, err := cs.add(0, fmt.Append(nil, n), toolCall{name: "x"}, now); err != nil {
			t.Fatal(n)
		}
	}
	if _, err := cs.add(0, []byte("-1"), toolCall{name: "x"}, now); !errors.Is(err, errTooManyCalls) {
		t.Fatal("a call over the limit was accepted")
	}
	cs.forget(cs.open[keyOf(0, []byte("7"))])
	if _, err := cs.add(0, []byte("-1"), toolCall{name: "x"}, now); err != nil {
		t.Fatal("a call was refused below the limit")
	}
	if n := len(cs.overdue(now.Add(callLife))); n != maxCalls || cs.count != 0 || len(cs.open)+len(cs.parked) != 0 {
		t.Fatalf("%d were overdue, %d are left", n, cs.count)
	}
	s := start(t, Config{})
	s.proxy.calls.count = maxCalls
	send(t, s.client, `{"id":1,"method":"tools/call","params":{"name":"x"}}`)
	gets(t, s.toClient, `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"attestd refused this call: 10000 calls are open"}],"isError":true}}`)
	s.end()
}

// A line may have at most 1,000 messages.
func TestBatchTooLong(t *testing.T) {
	s := start(t, Config{})
	batch := func(n int) string { return "[" + strings.Repeat(`{"method":"x"},`, n-1) + `{"method":"x"}]` }
	s.ask(batch(maxBatch))
	send(t, s.client, batch(maxBatch+1))
	gets(t, s.toClient, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Invalid Request: more than 1000 messages in a line"}}`)
	s.end()
}

// The proxy bounds the queue of a client's messages. When it is full, the client's writes block.
func TestClientQueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, Config{})
		sent := 0
		go func() {
			for range 2 * maxQueued {
				send(t, s.client, `{"method":"notifications/x"}`)
				sent++
			}
		}()
		synctest.Wait()
		if sent < maxQueued || sent > maxQueued+8 {
			t.Errorf("%d lines are held", sent)
		}
		for range 2 * maxQueued {
			gets(t, s.toServer, `{"method":"notifications/x"}`)
		}
		s.end()
	})
}

// The queue of forwarded responses that are not yet recorded is bounded.
func TestOutcomesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		s := start(t, Config{Recorder: &recorder{persist: func(a attestd.Attestation) error {
			if a.ActionType == "tool.completed" {
				<-hold
			}
			return nil
		}}})
		const n = 4 * maxOutcomes
		for id := range n {
			s.ask(fmt.Sprintf(`{"id":%d,"method":"tools/call","params":{"name":"x"}}`, id))
		}
		answered := 0
		go func() {
			for id := range n {
				s.reply(fmt.Sprintf(`{"id":%d,"result":{}}`, id))
				answered++
			}
		}()
		synctest.Wait()
		if answered < maxOutcomes || answered > 2*maxOutcomes+3 {
			t.Errorf("%d responses were forwarded", answered)
		}
		close(hold)
		synctest.Wait()
		s.end()
		if list := s.record.lines(t, true); len(list) != 2*n || answered != n {
			t.Errorf("%d records of %d answers", len(list), answered)
		}
	})
}

// slowGate never decides.
type slowGate struct{}

func (slowGate) Check(ctx context.Context, _, _ string, _ []byte) (string, error) {
	<-ctx.Done()
	return "", context.Cause(ctx)
}

// The end of a session does not wait for a hanging gate.
func TestSessionEndsWhileGateHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, Config{Gate: slowGate{}})
		send(t, s.client, `{"id":1,"method":"tools/call","params":{"name":"x"}}`)
		synctest.Wait()
		s.end()
		equal(t, s.record.lines(t, false), []string{"requested x 1", "denied x 1 context canceled"})
	})
}
