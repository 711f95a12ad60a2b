package mcpproxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"attestd/agent/toolcall"
	"attestd/sdk/attestd"
)

// departure is a line of the client on its way to the server. Its place in the queue is that of the
// line; what becomes of it is known when decided is closed.
type departure struct {
	decided chan struct{}
	size    int64
	line    []byte  // what goes to the server: the line, in a batch what is left of it, or nil
	answer  []byte  // what goes back to the client, or nil
	calls   []*call // requests that are in line
}

// upstream carries lines from the client to the server until the client ends. Calls are recorded at
// the same time, and go on in their order.
func (p *Proxy) upstream(ctx context.Context, fromClient io.Reader, toServer, toClient io.Writer) error {
	queue := make(chan *departure, maxQueued)
	failed := make(chan error, 1)
	go func() {
		defer close(queue)
		failed <- p.receive(ctx, fromClient, queue)
	}()
	var broken error // the server no longer reads: it is about to end
	for d := range queue {
		<-d.decided
		if d.line != nil && broken == nil {
			p.calls.sent(d.calls, time.Now())
			_, broken = toServer.Write(d.line)
		}
		if d.answer != nil {
			_ = p.write(toClient, d.answer) // a client that does not read ends its session
		}
		p.queued.Release(d.size)
	}
	return <-failed
}

// receive reads lines and begins to decide each.
func (p *Proxy) receive(ctx context.Context, fromClient io.Reader, queue chan<- *departure) error {
	in := newLines(fromClient, p.MaxLine)
	for {
		line, err := in.next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read from the client: %w", err)
		}
		d := &departure{decided: make(chan struct{}), size: min(int64(len(line)), maxQueuedBytes)}
		if p.queued.Acquire(ctx, d.size) != nil {
			return nil // the session is over
		}
		p.decide(ctx, d, line)
		select {
		case queue <- d:
		case <-ctx.Done():
			return nil
		}
	}
}

// decide finds out what becomes of a line. It returns when the line's calls are open, and closes
// d.decided when they are recorded.
func (p *Proxy) decide(ctx context.Context, d *departure, line []byte) {
	if isBlank(line) {
		d.line = line
		close(d.decided)
		return
	}
	messages, batch, err := readLine(line)
	if err != nil {
		d.answer = unreadable(err)
		close(d.decided)
		return
	}
	answers := make([][]byte, len(messages)) // of what does not go on
	var asking sync.WaitGroup
	calling := false
	for i, m := range messages {
		if m.method != "tools/call" {
			if why := p.follow(d, m); why != nil {
				answers[i] = invalid(p.answerable(m), why.Error())
				p.warn("a message of the client is refused: %v", why)
			}
			continue
		}
		t := readToolCall(m.params)
		c, why := p.calls.add(m.id, t, time.Now())
		if c == nil {
			answers[i] = refusal(m.id, t.modern, why)
			continue
		}
		if flaw := cmp.Or(m.flaw, t.flaw); flaw != "" && why == nil {
			why = errors.New(flaw)
		}
		d.calls, calling = append(d.calls, c), true
		// here, for it takes a stack that many would have
		requested := p.attestation(c, toolcall.Event{Kind: toolcall.Requested, Input: t.arguments})
		asking.Go(func() {
			defer p.calls.asking.Done()
			why := p.ask(ctx, c, t.name, requested, why)
			if why == nil {
				return
			}
			// nobody waits for an answer of that ID, or for another
			if p.calls.forget(m.id, c); m.id == nil || errors.Is(why, errTaken) {
				answers[i] = invalid(nil, why.Error())
				return
			}
			answers[i] = refusal(m.id, c.modern, why)
		})
	}
	if !calling {
		d.assemble(line, messages, batch, answers)
		close(d.decided)
		return
	}
	go func() {
		defer close(d.decided)
		asking.Wait()
		d.assemble(line, messages, batch, answers)
	}()
}

// follow notes a message of the client that is no call, and returns why it must not go on.
func (p *Proxy) follow(d *departure, m message) error {
	request, task, twice := otherRequest, "", false
	switch {
	case m.flaw != "":
		return errors.New(m.flaw)
	case m.method == "notifications/cancelled":
		var id []byte
		var reason string
		if id, reason, twice = readCancelled(m.params); !twice {
			p.calls.cancel(id, reason, time.Now())
		}
	case m.method == "tasks/result":
		request = taskResult
		task, twice = readTaskID(m.params)
	case strings.HasPrefix(m.method, "tasks/"):
		request = taskStatus
		task, twice = readTaskID(m.params)
	}
	if twice {
		return errors.New(flawTwice)
	}
	if m.method == "" || m.id == nil { // an answer or a notification
		return nil
	}
	c, err := p.calls.track(m.id, request, task, time.Now())
	if err == nil {
		d.calls = append(d.calls, c)
	}
	return err
}

// answerable is the ID under which a message of the client may be refused. It is nil for one that
// is an answer, and where another request is open under it, whose answer the refusal must not be
// taken for.
func (p *Proxy) answerable(m message) []byte {
	if m.method == "" && m.outcome || p.calls.isOpen(m.id) {
		return nil
	}
	return m.id
}

// assemble sets what goes on and what goes back. A batch loses what is refused, and what is left of
// it stays byte for byte.
func (d *departure) assemble(line []byte, messages []message, batch bool, answers [][]byte) {
	var left, back [][]byte
	for i, m := range messages {
		if answers[i] == nil {
			left = append(left, m.raw)
		} else if m.hasID {
			back = append(back, answers[i])
		}
	}
	switch {
	case len(left) == len(messages):
		d.line = line
	case len(left) > 0:
		d.line = array(left)
	}
	switch {
	case len(back) > 0 && batch:
		d.answer = array(back)
	case len(back) > 0:
		d.answer = withEnd(back[0])
	}
}

// ask records a call that is about to go to the server, and returns why it must not; that may be
// known before.
func (p *Proxy) ask(ctx context.Context, c *call, tool string, requested attestd.Attestation, why error) error {
	keep := context.WithoutCancel(ctx) // what was asked is recorded, however the session ends
	if why == nil && p.Gate != nil {
		why = p.Gate.Check(ctx, tool)
	}
	switch {
	case why != nil:
	case p.FailClosed:
		ctx, cancel := context.WithTimeout(ctx, ackTimeout)
		defer cancel()
		if err := p.Recorder.Attest(ctx, requested); err != nil {
			p.warn("a call of %q is refused, for attestd has not acknowledged its record: %v", c.tool, err)
			why = errors.New("attestd has not acknowledged its record")
		}
	default:
		if err := p.Recorder.Keep(keep, requested); err != nil {
			p.warn("a call of %q is refused, for its record cannot be kept: %v", c.tool, err)
			return errors.New("its record cannot be kept")
		}
	}
	if why == nil {
		return nil
	}
	// Whether the service has the first record is not known where it gave no answer. By its key it
	// is the same record.
	denied := p.attestation(c, toolcall.Event{Kind: toolcall.Denied, Reason: why.Error()})
	if err := errors.Join(p.Recorder.Keep(keep, requested), p.Recorder.Keep(keep, denied)); err != nil {
		p.warn("the refusal of a call of %q cannot be recorded: %v", c.tool, err)
	}
	return why
}
