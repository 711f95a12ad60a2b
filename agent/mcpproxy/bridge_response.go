package mcpproxy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"attestd/internal/sleep"
)

// post sends a message and forwards the response.
func (b *bridge) post(m *bridged) {
	select {
	case <-m.after:
	case <-time.After(orderTime):
	case <-m.ctx.Done():
		return
	}
	b.setSession(m.header)
	resp, err := b.remote.send(m.ctx, http.MethodPost, m.header, m.line)
	if err != nil {
		b.answer(m, "the server could not be reached: "+err.Error(), "")
		return
	}
	defer resp.Body.Close()
	if id := resp.Header.Get("Mcp-Session-Id"); m.session && id != "" {
		b.mu.Lock()
		b.session = id
		b.mu.Unlock()
	}
	if !m.session {
		m.sent()
	}
	isOK := resp.StatusCode == http.StatusOK
	switch kind := mediaType(resp.Header); {
	case isOK && kind == sseType:
		b.follow(m, resp)
	case isOK && kind == jsonType:
		body, err := readAll(resp.Body, b.limit, nil)
		if err != nil {
			b.answer(m, "the server's response could not be read: "+plainError(err).Error(), "")
			return
		}
		if _, _, err := readBody(body); err != nil {
			b.answer(m, "the server's response is withheld: "+unreadBecause(err), string(body[:min(len(body), maxOpaque)]))
		} else {
			b.forward(m, body)
			b.answer(m, errIncomplete.Error(), "")
		}
	case resp.StatusCode == http.StatusAccepted:
		// What the server's own stream brings later answers no open request.
		b.answer(m, notComing, "")
	case resp.StatusCode/100 == 2 && len(m.pending) > 0:
		body, err := readAll(resp.Body, maxOpaque, nil)
		if err != nil {
			body = nil
		}
		b.warn("a response of the server is withheld: HTTP %d, and its type is %.60q", resp.StatusCode, mediaType(resp.Header))
		b.answer(m, notMessages, string(body))
	case resp.StatusCode/100 == 2:
		// a message that is no request has no answer
	default:
		b.refused(m, resp)
	}
	if m.listen {
		b.listen()
	}
}

// refused answers for a server that has answered with an error of HTTP.
func (b *bridge) refused(m *bridged, resp *http.Response) {
	body, err := readAll(resp.Body, maxOpaque, nil)
	if err != nil {
		body = nil
	}
	if messages, batch, err := readBody(body); err == nil && !batch && messages[0].fault != nil && m.pending[string(messages[0].id)] != nil {
		b.forward(m, body)
	}
	if len(m.pending) == 0 && resp.StatusCode != http.StatusNotFound {
		b.warn("the server answered a message with HTTP %d", resp.StatusCode)
	}
	b.answer(m, "the server answered HTTP "+strconv.Itoa(resp.StatusCode), string(body))
}

// forward forwards messages as a line. Line breaks between tokens become spaces.
func (b *bridge) forward(m *bridged, data []byte) {
	line := bytes.Map(func(r rune) rune {
		if r == '\n' || r == '\r' {
			return ' '
		}
		return r
	}, bytes.TrimSpace(data))
	if len(line) == 0 {
		return
	}
	if messages, _, err := readBody(line); err == nil {
		for _, one := range messages {
			if one.outcome && one.id != nil && m != nil {
				b.answers(m, one.id)
			}
			if m != nil && m.session && one.result != nil {
				_, _, _ = members(one.result, map[string]func([]byte){"protocolVersion": func(v []byte) {
					b.mu.Lock()
					b.version = text(v)
					b.mu.Unlock()
				}})
			}
		}
	}
	b.outMu.Lock()
	defer b.outMu.Unlock()
	_, _ = b.out.Write(withEnd(line)) // an error: the client has gone
}

// answers removes the request that a response is for from those without one. Some servers respond
// with an ID of the other type, as calls.answered knows.
func (b *bridge) answers(m *bridged, id []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, isOpen := b.open[string(id)]; !isOpen {
		delete(m.pending, string(otherIDType(id)))
	}
	delete(m.pending, string(id))
}

// answer answers requests without a response with an error, but for those that the client has
// cancelled.
func (b *bridge) answer(m *bridged, why, data string) {
	if m.ctx != nil && errors.Is(m.ctx.Err(), context.Canceled) {
		return
	}
	for _, id := range m.pending {
		message, _ := json.Marshal(why) // strings have no error
		more := ""
		if data != "" {
			quoted, _ := json.Marshal(strings.ToValidUTF8(data, "\ufffd"))
			more = `,"data":` + string(quoted)
		}
		b.forward(nil, answer(id, `"error":{"code":-32000,"message":`+string(message)+more+`}`))
	}
	clear(m.pending)
}

// follow forwards a stream of responses. It resumes a stream that ends early.
func (b *bridge) follow(m *bridged, resp *http.Response) {
	last, wait := "", minReconnect
	for tries := 0; ; {
		before := last
		last, wait = b.drain(m, resp.Body, last, wait)
		resp.Body.Close()
		if last != before {
			tries = 0
		}
		if tries++; len(m.pending) == 0 || last == "" || tries > maxReconnects || sleep.For(m.ctx, wait) != nil {
			break
		}
		next, err := b.get(m.ctx, last)
		if err != nil || next.StatusCode != http.StatusOK || mediaType(next.Header) != sseType {
			if err == nil {
				next.Body.Close()
			}
			break
		}
		resp = next
	}
	b.answer(m, errIncomplete.Error(), "")
}

// drain forwards the events of a stream until it ends or every request has its response. It returns
// the ID of the last event and the time to wait before the stream is resumed.
func (b *bridge) drain(m *bridged, stream io.Reader, last string, wait time.Duration) (string, time.Duration) {
	in := newEvents(stream, b.limit, nil)
	for {
		ev, err := in.next()
		if err != nil {
			if err != io.EOF && b.ctx.Err() == nil {
				b.warn("a response of the server has ended: %v", plainError(err))
			}
			return last, wait
		}
		if ev.hasID && isPrintable(ev.id) {
			last = ev.id
		}
		if ms, err := strconv.Atoi(ev.retry); err == nil {
			wait = min(time.Duration(ms)*time.Millisecond, maxReconnect)
		}
		b.forward(m, ev.data)
		if m != nil && m.session && len(m.pending) == 0 {
			m.sent()
		}
	}
}

// get requests a stream of the server's messages, or the rest of one.
func (b *bridge) get(ctx context.Context, last string) (*http.Response, error) {
	header := http.Header{"Accept": {sseType}}
	setHeader(header, "Last-Event-Id", last)
	b.setSession(header)
	b.mu.Lock()
	setHeader(header, "Mcp-Protocol-Version", b.version)
	b.mu.Unlock()
	return b.remote.send(ctx, http.MethodGet, header, nil)
}

// listen forwards the messages that the server sends of its own, if it offers that, until the end.
func (b *bridge) listen() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.listens || b.closed {
		return
	}
	b.listens = true
	b.requests.Go(func() {
		last, wait := "", minReconnect
		for tries := 0; tries <= maxReconnects; tries++ {
			resp, err := b.get(b.ctx, last)
			if err == nil {
				if resp.StatusCode != http.StatusOK || mediaType(resp.Header) != sseType {
					resp.Body.Close()
					return
				}
				before := last
				if last, wait = b.drain(nil, resp.Body, last, wait); last != before {
					tries = 0
				}
				resp.Body.Close()
			}
			if sleep.For(b.ctx, wait<<min(tries, 4)) != nil {
				return
			}
		}
	})
}
