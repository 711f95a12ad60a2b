package mcpproxy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"attestd/internal/sleep"
)

// ServeRemote runs a session between a client that uses standard input and output and a server that
// is reached over HTTP, until the client has ended or ctx is done.
func (p *Proxy) ServeRemote(ctx context.Context, remote *Remote, in io.Reader, out io.Writer) error {
	fromServer, toClient := io.Pipe()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	b := &bridge{
		remote: remote, limit: p.MaxLine, warn: p.warn, ctx: ctx, cancel: cancel, out: toClient,
		open: make(map[string]context.CancelFunc), barrier: make(chan struct{}),
	}
	close(b.barrier)
	stop := context.AfterFunc(ctx, func() { _ = b.Close() })
	defer stop()
	return p.Run(context.WithoutCancel(ctx), in, out, fromServer, b)
}

const (
	maxBridged    = 1024             // requests in progress
	orderTime     = 10 * time.Second // that a message waits for the one before it
	minReconnect  = time.Second
	maxReconnect  = 30 * time.Second
	maxReconnects = 5 // without an event in between
)

// bridge makes HTTP requests of a client's lines, and lines of the responses. The Proxy that writes
// to it has judged the lines, and judges the responses before they reach the client.
type bridge struct {
	remote *Remote
	limit  int // bytes of a message
	warn   func(format string, args ...any)
	ctx    context.Context
	cancel context.CancelFunc

	requests sync.WaitGroup
	outMu    sync.Mutex // serialises lines
	out      *io.PipeWriter

	mu       sync.Mutex
	closed   bool
	count    int
	streams  int    // of count: subscriptions, which end with the client
	session  string // Mcp-Session-Id
	version  string // the revision of the session
	listens  bool   // a stream of the server's messages is open, or has been refused
	open     map[string]context.CancelFunc
	barrier  chan struct{} // closed when the next message may be sent
	shutDown sync.Once
}

// bridged is a line of the client on its way.
type bridged struct {
	line    []byte
	header  http.Header
	ctx     context.Context
	pending map[string][]byte // IDs of the requests without a response
	after   <-chan struct{}   // closed when it may be sent
	sent    func()            // call it when the server has taken the message
	session bool              // it has an initialize, whose response begins the session
	listen  bool              // the server may send messages of its own after it
	stream  bool              // it is a subscription, whose response does not end
}

// Write sends a line. It does not wait for the response.
func (b *bridge) Write(line []byte) (int, error) {
	if isBlank(line) {
		return len(line), nil
	}
	messages, batch, err := readBody(line)
	if err != nil {
		return 0, err // not reached: the line has been judged
	}
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return 0, io.ErrClosedPipe
	}
	m := &bridged{line: bytes.TrimSpace(line), header: http.Header{"Accept": {jsonType + ", " + sseType}},
		pending: make(map[string][]byte), after: b.barrier}
	for _, one := range messages {
		switch {
		case one.method != "" && one.id != nil:
			m.pending[string(one.id)] = one.id
		case one.method == "notifications/initialized":
			m.listen = true
		}
		m.session = m.session || one.method == "initialize"
		m.stream = one.method == "subscriptions/listen" && len(messages) == 1
	}
	version := b.version
	if !batch && len(messages) == 1 {
		if revision := revisionOf(messages[0].params); revision != "" {
			version = revision
			setHeader(m.header, "Mcp-Method", messages[0].method)
			setHeader(m.header, "Mcp-Name", nameOf(messages[0]))
		}
		if id, _, _ := readCancelled(messages[0].params); messages[0].method == "notifications/cancelled" && version >= stateless {
			stop := b.open[string(id)] // the request ends with its response
			b.mu.Unlock()
			if stop != nil {
				stop()
			}
			return len(line), nil
		}
	}
	if version != "" {
		m.header.Set("Mcp-Protocol-Version", version)
	}
	if b.count >= maxBridged {
		b.mu.Unlock()
		b.answer(m, fmt.Sprintf("%d requests are in progress", maxBridged), "")
		return len(line), nil
	}
	b.count++
	if m.stream {
		b.streams++
	}
	m.sent = func() {}
	if m.session || len(m.pending) == 0 { // the next messages rely on it
		passed := make(chan struct{})
		m.sent = sync.OnceFunc(func() { close(passed) })
		b.barrier = passed
	}
	var stop context.CancelFunc
	m.ctx, stop = context.WithTimeout(b.ctx, callLife)
	for id := range m.pending {
		b.open[id] = stop
	}
	b.requests.Go(func() {
		defer stop()
		defer m.sent()
		b.post(m)
		b.mu.Lock()
		defer b.mu.Unlock()
		b.count--
		if m.stream {
			b.streams--
		}
		for _, message := range messages {
			delete(b.open, string(message.id))
		}
	})
	b.mu.Unlock()
	return len(line), nil
}

// stateless is the first revision without sessions.
const stateless = "2026-07-28"

// revisionOf returns the revision that a request names itself, as since 2026-07-28, or "".
func revisionOf(params []byte) (revision string) {
	var meta []byte
	_, _, _ = members(params, map[string]func([]byte){"_meta": func(v []byte) { meta = v }})
	_, _, _ = members(meta, map[string]func([]byte){protocolVersion: func(v []byte) { revision = text(v) }})
	return revision
}

// namedBy is the member of a request's params that names what it is about, by its method.
var namedBy = map[string]string{toolsCall: "name", "prompts/get": "name", "resources/read": "uri"}

// nameOf returns what a request is about, which HTTP requests name in a header since 2026-07-28.
func nameOf(m message) (name string) {
	if member := namedBy[m.method]; member != "" {
		_, _, _ = members(m.params, map[string]func([]byte){member: func(v []byte) { name = text(v) }})
	}
	return name
}

func (b *bridge) setSession(h http.Header) {
	b.mu.Lock()
	defer b.mu.Unlock()
	setHeader(h, "Mcp-Session-Id", b.session)
}

// setHeader sets a header that has a value, in the form for text that is not printable.
func setHeader(h http.Header, name, value string) {
	if value != "" {
		h.Set(name, headerValue(value))
	}
}

// Close waits a moment for responses, ends the session on the server, and then the output.
func (b *bridge) Close() error {
	b.shutDown.Do(func() {
		b.mu.Lock()
		b.closed = true
		b.mu.Unlock()
		go func() {
			defer b.out.Close()
			b.await()
			b.cancel()
			b.requests.Wait()
			b.endSession()
		}()
	})
	return nil
}

// await waits until no request is in progress but subscriptions, for a moment at most.
func (b *bridge) await() {
	ctx, cancel := context.WithTimeout(b.ctx, endGrace)
	defer cancel()
	for {
		b.mu.Lock()
		count := b.count - b.streams
		b.mu.Unlock()
		if count == 0 || sleep.For(ctx, 10*time.Millisecond) != nil {
			return
		}
	}
}

// endSession ends the session on the server, if there is one.
func (b *bridge) endSession() {
	b.mu.Lock()
	session, version := b.session, b.version
	b.mu.Unlock()
	if session == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(b.ctx), endGrace)
	defer cancel()
	header := make(http.Header)
	setHeader(header, "Mcp-Session-Id", session)
	setHeader(header, "Mcp-Protocol-Version", version)
	if resp, err := b.remote.send(ctx, http.MethodDelete, header, nil); err == nil {
		resp.Body.Close()
	}
}

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
