package mcpproxy

import (
	"context"
	"fmt"
	"io"
	"time"

	"golang.org/x/sync/errgroup"

	"attestd/agent/toolcall"
)

// downstream carries lines from the server to the client until the server's output ends. hangUp is
// called when the client no longer reads: what is under way is recorded still.
func (p *Proxy) downstream(fromServer io.Reader, toClient io.Writer, hangUp func()) error {
	in := newLines(fromServer, p.MaxLine)
	var broken error
	for {
		line, err := in.next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read from the server: %w", err)
		}
		line, outcomes := p.filter(line, time.Now())
		if broken == nil {
			if broken = p.write(toClient, line); broken != nil {
				hangUp()
			}
		}
		for _, o := range outcomes {
			p.outcome(o)
		}
	}
}

// write writes a line to the client.
func (p *Proxy) write(toClient io.Writer, line []byte) error {
	p.out.Lock()
	defer p.out.Unlock()
	_, err := toClient.Write(line)
	return err
}

// filter returns the part of a line to forward to the client, and the outcomes to record. A
// response that two parsers could read differently is recorded completely and replaced by an error.
// So are responses to no request, and lines that are no message.
func (p *Proxy) filter(line []byte, arrived time.Time) (on []byte, outcomes []ended) {
	if isBlank(line) {
		return line, nil
	}
	messages, batch, err := readLine(line)
	if err != nil {
		p.warn("a line of the server is withheld: %v", err)
		return withheldLine(), nil
	}
	parts, withholds := make([][]byte, len(messages)), false
	for i, m := range messages {
		parts[i] = m.raw
		var c *call
		if m.outcome {
			c = p.calls.answered(m.id, arrived)
		}
		why := m.flaw
		if why == "" && m.outcome && c == nil {
			why = "it is the answer to no open request"
		}
		if why == "" && c != nil {
			outcomes = p.answered(outcomes, c, m, arrived)
		}
		if why == "" {
			continue
		}
		withholds = true
		p.warn("a message of the server is withheld: %s", why)
		if c == nil {
			m.id = nil
		} else if c.kind != otherRequest {
			e := toolcall.Event{Kind: toolcall.Failed, Error: "attestd withheld what the server answered: " + why, Output: m.raw}
			outcomes = append(outcomes, p.ended(c, e, m, arrived))
		}
		parts[i] = withheld(c, m.id, why)
	}
	switch {
	case !withholds:
		return line, outcomes
	case batch:
		return array(parts), outcomes
	}
	return withEnd(parts[0]), outcomes
}

// answered appends what is to be recorded of an answer.
func (p *Proxy) answered(outcomes []ended, c *call, m message, arrived time.Time) []ended {
	e := toolcall.Event{Kind: toolcall.Completed, Output: m.result}
	result := readToolResult(m.result)
	switch {
	case c.kind == otherRequest, c.kind == taskStatus && isStatus(m.result):
		return outcomes
	case c.kind == toolCalled && (result.needsInput || result.task != ""):
		e.Kind = toolcall.Pending
		p.calls.park(c, result, arrived)
	case m.fault != nil:
		code, text, output := readFault(m.fault)
		e = toolcall.Event{Kind: toolcall.Failed, Output: output, Error: fmt.Sprintf("%s (code %s)", text, code)}
	case result.failed:
		e.Kind = toolcall.Failed
	}
	return append(outcomes, p.ended(c, e, m, arrived))
}

// ended is what an answer makes of a call.
func (p *Proxy) ended(c *call, e toolcall.Event, m message, arrived time.Time) ended {
	if c.task != nil {
		p.calls.fetch(c.task, arrived)
	}
	e.DurationMS = arrived.Sub(c.began).Milliseconds()
	return ended{c, e, int64(len(m.raw))}
}

// giveUp records that a call has no answer.
func (p *Proxy) giveUp(c *call, why string) {
	switch {
	case c.kind == otherRequest, c.kind == taskStatus:
		return
	case c.cancelled != "":
		why = c.cancelled
	case c.parked != "":
		why = c.parked
	}
	p.outcome(ended{call: c, event: toolcall.Event{Kind: toolcall.Failed, Error: why}})
}

// ended is a call that has come to an end, and how.
type ended struct {
	call  *call
	event toolcall.Event
	size  int64 // of what the event holds
}

// outcome hands an outcome over to be recorded while the session goes on. It waits when too much
// waits already.
func (p *Proxy) outcome(e ended) {
	e.size = min(e.size, maxQueuedBytes)
	// what has happened is recorded, however the session ends
	_ = p.outcomes.Acquire(context.Background(), e.size)
	p.queue <- e
}

// keepOutcomes records outcomes until no more come. Their records are made one after the other, for
// that takes a stack which many would have, and kept at the same time.
func (p *Proxy) keepOutcomes(ctx context.Context) {
	var keepers errgroup.Group
	keepers.SetLimit(maxOutcomes)
	for e := range p.queue {
		a := p.attestation(e.call, e.event)
		p.outcomes.Release(e.size)
		keepers.Go(func() error {
			if err := p.Recorder.Keep(ctx, a); err != nil {
				p.warn("the outcome of a call of %q cannot be recorded: %v", e.call.tool, err)
			}
			return nil
		})
	}
	_ = keepers.Wait() // they return none
}
