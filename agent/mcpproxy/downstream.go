package mcpproxy

import (
	"context"
	"fmt"
	"io"
	"time"

	"golang.org/x/sync/errgroup"

	"attestd/chain/action"
	"attestd/sdk/attestd"
)

// downstream forwards lines from the server to the client until the server's output ends. It calls
// hangUp when the client no longer reads, and still records the outcomes of open calls.
func (p *Proxy) downstream(fromServer io.Reader, toClient io.Writer, hangUp func()) error {
	in := newLines(fromServer, p.MaxLine)
	var writeErr error
	for {
		line, err := in.next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read from the server: %w", err)
		}
		line, outcomes := p.filter(line, time.Now())
		if writeErr == nil {
			if writeErr = p.write(toClient, line); writeErr != nil {
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
		return withheldLine(err), nil
	}
	instead, outcomes := p.filterMessages(0, messages, batch, arrived)
	if instead == nil {
		return line, outcomes
	}
	return withEnd(instead), outcomes
}

// filterMessages returns what to forward in place of messages of the server, or nil if they are
// forwarded as they are, and the outcomes to record.
func (p *Proxy) filterMessages(exchange uint64, messages []message, batch bool, arrived time.Time) (instead []byte, outcomes []ended) {
	parts, withholds := make([][]byte, len(messages)), false
	for i, m := range messages {
		parts[i] = m.raw
		var c *call
		if m.outcome {
			c = p.calls.answered(exchange, m.id, arrived)
		}
		why := m.flaw
		if why == "" && m.outcome && c == nil {
			why = "it answers no open request"
		}
		switch {
		case why == "" && c != nil:
			outcomes = p.answered(outcomes, c, m, arrived)
		case why == "":
			if one := p.fromServer(exchange, m); one != nil {
				outcomes = append(outcomes, ended{message: one, size: int64(len(m.raw))})
			}
		}
		if why == "" {
			continue
		}
		withholds = true
		p.warn("a message of the server is withheld: %s", why)
		if c == nil {
			m.id = nil
		} else if c.kind == contentRead {
			outcomes = append(outcomes, ended{message: read(c, m.raw, "attestd withheld the server's response: "+why), size: int64(len(m.raw))})
		} else if c.kind != otherRequest {
			e := action.Event{Type: action.ToolFailed, Error: "attestd withheld the server's response: " + why, Output: m.raw}
			outcomes = append(outcomes, p.ended(c, e, m, arrived))
		}
		parts[i] = withheld(c, m.id, why)
	}
	switch {
	case !withholds:
		return nil, outcomes
	case batch:
		return list(parts), outcomes
	}
	return parts[0], outcomes
}

// answered appends the event to record for a response.
func (p *Proxy) answered(outcomes []ended, c *call, m message, arrived time.Time) []ended {
	e := action.Event{Type: action.ToolCompleted, Output: m.result}
	if c.kind == contentRead {
		return append(outcomes, ended{message: read(c, m.result, faultOf(m)), size: int64(len(m.raw))})
	}
	result := readToolResult(m.result)
	switch {
	case c.kind == otherRequest, c.kind == taskStatus && isStatus(m.result):
		return outcomes
	case c.kind == toolCalled && (result.needsInput || result.task != ""):
		e.Type = action.ToolPending
		p.calls.park(c, result, arrived)
	case m.fault != nil:
		code, text, output := readFault(m.fault)
		e = action.Event{Type: action.ToolFailed, Output: output, Error: fmt.Sprintf("%s (code %s)", text, code)}
	case result.failed:
		e.Type = action.ToolFailed
	}
	return append(outcomes, p.ended(c, e, m, arrived))
}

// ended returns a call with its outcome.
func (p *Proxy) ended(c *call, e action.Event, m message, arrived time.Time) ended {
	if c.task != nil {
		p.calls.markFetched(c.task, arrived)
	}
	e.DurationMS = arrived.Sub(c.began).Milliseconds()
	return ended{call: c, event: e, size: int64(len(m.raw))}
}

// recordUnanswered records a call without a response as failed.
func (p *Proxy) recordUnanswered(c *call, why string) {
	switch {
	case c.kind == otherRequest, c.kind == taskStatus:
		return
	case c.cancelled != "":
		why = c.cancelled
	case c.parked != "":
		why = c.parked
	}
	if c.kind == contentRead {
		p.recordOther(read(c, nil, why))
		return
	}
	p.outcome(ended{call: c, event: action.Event{Type: action.ToolFailed, Error: why}})
}

// ended is a call and the event that ended it, or without a call another message; without both,
// what was counted is due.
type ended struct {
	call    *call
	event   action.Event
	message *otherMessage
	size    int64 // bytes of the message
}

// outcome queues an outcome for recording. It blocks while the queue is full.
func (p *Proxy) outcome(e ended) {
	e.size = min(e.size, maxQueuedBytes)
	// Outcomes are recorded even if the session is cancelled.
	_ = p.outcomes.Acquire(context.Background(), e.size)
	p.queue <- e
}

// recordOutcomes records outcomes until the queue is closed. It makes the records sequentially,
// because that needs a deep stack, and persists them concurrently.
func (p *Proxy) recordOutcomes(ctx context.Context) {
	var keepers errgroup.Group
	keepers.SetLimit(maxOutcomes)
	keep := func(a attestd.Attestation, what string) {
		keepers.Go(func() error {
			if err := p.Recorder.Persist(ctx, a); err != nil {
				p.warn("%s cannot be recorded: %v", what, err)
			}
			return nil
		})
	}
	for e := range p.queue {
		if e.call != nil {
			a := p.attestation(e.call, e.event)
			p.outcomes.Release(e.size)
			keep(a, fmt.Sprintf("the outcome of a call of %q", e.call.tool))
			continue
		}
		list := p.messageRecords(e.message)
		p.outcomes.Release(e.size)
		for _, a := range list {
			keep(a, "a message that is no call")
		}
	}
	_ = keepers.Wait() // they return no errors
}
