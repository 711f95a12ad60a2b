package mcpproxy

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"time"

	"golang.org/x/sync/errgroup"

	"attestd/agent/toolcall"
)

// downstream carries lines from the server to the client until the server's output ends. hangUp is called when the client no longer reads:
// what is under way is recorded still.
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
		arrived := time.Now()
		// The client may go on with these at once, and what it sends must find the call that it goes on from.
		first := bytes.Contains(line, []byte(inputRequired)) || bytes.Contains(line, []byte(`"task"`))
		if first {
			p.watch(line, arrived)
		}
		if broken == nil {
			if broken = p.write(toClient, line); broken != nil {
				hangUp()
			}
		}
		if !first {
			p.watch(line, arrived)
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

// watch finds answers to calls in a line that arrived then. What cannot be read answers none.
func (p *Proxy) watch(line []byte, arrived time.Time) {
	messages, _, err := readLine(line)
	if err != nil {
		return
	}
	for _, m := range messages {
		if !m.answers() {
			continue
		}
		result := readToolResult(m.result)
		c, took := p.calls.answered(m.id, result, arrived)
		if c == nil {
			continue
		}
		e := toolcall.Event{Kind: toolcall.Completed, Output: m.result}
		switch {
		case m.fault != nil:
			code, text, data := readFault(m.fault)
			e = toolcall.Event{Kind: toolcall.Failed, Output: data, Error: fmt.Sprintf("%s (code %s)", text, code)}
		case result.failed:
			e.Kind = toolcall.Failed
		}
		e.DurationMS = took.Milliseconds()
		p.outcome(c, e, int64(len(m.raw)))
	}
}

// giveUp records that a call has no answer.
func (p *Proxy) giveUp(c *call, why string) {
	switch {
	case c.cancelled != "":
		why = c.cancelled
	case c.parked != "":
		why = c.parked
	}
	p.outcome(c, toolcall.Event{Kind: toolcall.Failed, Error: why}, 0)
}

// ended is a call that has come to an end, and how.
type ended struct {
	call  *call
	event toolcall.Event
	size  int64 // of what the event holds
}

// outcome hands an outcome over to be recorded while the session goes on. It waits when too much waits already.
func (p *Proxy) outcome(c *call, e toolcall.Event, size int64) {
	size = min(size, maxQueuedBytes)
	_ = p.outcomes.Acquire(context.Background(), size) // what has happened is recorded, however the session ends
	p.ended <- ended{c, e, size}
}

// keepOutcomes records outcomes until no more come. Their records are made one after the other, for that takes a stack which many would have, and kept at
// the same time.
func (p *Proxy) keepOutcomes(ctx context.Context) {
	var keepers errgroup.Group
	keepers.SetLimit(maxOutcomes)
	for e := range p.ended {
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
