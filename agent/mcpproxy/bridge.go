package mcpproxy

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
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
