package mcpproxy

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"time"

	"attestd/agent/toolcall"
)

// downstream carries lines from the server to the client until the server's output ends. hangUp is called when the client no longer reads:
// what is under way is recorded still.
func (p *Proxy) downstream(ctx context.Context, fromServer io.Reader, toClient io.Writer, hangUp func()) error {
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
		// The client may go on with these at once, and what it sends must find the call that it goes on from.
		first := bytes.Contains(line, []byte(inputRequired)) || bytes.Contains(line, []byte(`"task"`))
		if first {
			p.watch(ctx, line)
		}
		if broken == nil {
			if broken = p.write(toClient, line); broken != nil {
				hangUp()
			}
		}
		if !first {
			p.watch(ctx, line)
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

// watch finds answers to calls. What cannot be read answers none.
func (p *Proxy) watch(ctx context.Context, line []byte) {
	messages, _, err := readLine(line)
	if err != nil {
		return
	}
	for _, m := range messages {
		if !m.answers() {
			continue
		}
		result := readToolResult(m.result)
		c, took := p.calls.answered(m.id, result, time.Now())
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
		p.outcome(ctx, c, e, int64(len(m.raw)))
	}
}

// giveUp records that a call has no answer.
func (p *Proxy) giveUp(ctx context.Context, c *call, why string) {
	switch {
	case c.cancelled != "":
		why = c.cancelled
	case c.parked != "":
		why = c.parked
	}
	p.outcome(ctx, c, toolcall.Event{Kind: toolcall.Failed, Error: why}, 0)
}

// outcome keeps the record of an outcome while the session goes on. It waits when too many are being kept.
func (p *Proxy) outcome(ctx context.Context, c *call, e toolcall.Event, size int64) {
	size = min(size, maxQueuedBytes)
	ctx = context.WithoutCancel(ctx) // what has happened is recorded, however the session ends
	_ = p.outcomes.Acquire(ctx, size)
	p.keeping <- struct{}{}
	p.keepers.Go(func() {
		defer func() {
			<-p.keeping
			p.outcomes.Release(size)
		}()
		if err := p.Recorder.Keep(ctx, p.attestation(c, e)); err != nil {
			p.warn("the outcome of a call of %q cannot be recorded: %v", c.tool, err)
		}
	})
}
