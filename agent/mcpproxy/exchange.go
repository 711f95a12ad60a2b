package mcpproxy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"attestd/chain/action"
)

// exchange is a client's HTTP request and the response to it.
type exchange struct {
	*Gateway
	session *gatewaySession
	id      string // of the client's session; "" for none
	number  uint64 // of the requests' IDs; see requestKey
	ctx     context.Context
	w       http.ResponseWriter
	r       *http.Request
	out     *http.ResponseController
	budget  *budget
	gone    bool // the client takes no more bytes
	streams bool // the response is a stream of events, and has begun
}

// maxOpaque bounds a response that is not made of messages, in bytes.
const maxOpaque = 1 << 20

// post forwards messages of the client.
func (x *exchange) post() {
	if mediaType(x.r.Header) != jsonType || !isUTF8(x.r.Header) || len(x.r.Header["Content-Encoding"]) > 0 {
		http.Error(x.w, "the body must be application/json in UTF-8, without Content-Encoding",
			http.StatusUnsupportedMediaType)
		return
	}
	_ = x.out.SetReadDeadline(time.Now().Add(bodyTimeout))
	body, err := readAll(x.r.Body, x.MaxLine, x.budget)
	_ = x.out.SetReadDeadline(time.Time{})
	switch {
	case errors.Is(err, errLineTooLong):
		http.Error(x.w, err.Error(), http.StatusRequestEntityTooLarge)
		return
	case errors.Is(err, errNoMemory):
		unavailable(x.w, err.Error())
		return
	case err != nil:
		http.Error(x.w, "the body could not be read", http.StatusBadRequest)
		return
	}
	messages, batch, err := readBody(body)
	if err != nil {
		x.respond(http.StatusBadRequest, jsonType, unreadable(err))
		return
	}
	refuseConfused(messages)
	if flaw := headerFlaw(x.r.Header, messages, batch); flaw != "" {
		x.respond(http.StatusBadRequest, jsonType, mismatch(messages[0].id, flaw))
		return
	}
	p := x.session.proxy
	d := &departure{exchange: x.number, decided: make(chan struct{}), waits: &waiting{ctx: x.ctx, tell: x.teller()}}
	p.admit(x.ctx, d, body, messages, batch)
	<-d.decided
	switch {
	case d.line == nil && d.answer == nil:
		x.w.WriteHeader(http.StatusAccepted)
		return
	case d.line == nil:
		x.respond(statusOf(d.answers), jsonType, d.answer)
		return
	}
	p.calls.markSent(d.calls, time.Now())
	resp, err := x.Remote.send(x.ctx, http.MethodPost, x.Remote.forwardedHeader(x.r.Header), d.line)
	if err != nil {
		x.fail(d, unreachable, err)
		return
	}
	defer resp.Body.Close()
	x.relay(d, resp)
	if x.id != "" && resp.StatusCode == http.StatusNotFound { // the server knows no such session
		x.end(x.id, x.session, errSessionEnded)
	}
}

// teller returns what sends messages to the client before the answer; nil where the client takes no
// stream.
func (x *exchange) teller() func([]byte) {
	if !strings.Contains(strings.Join(x.r.Header["Accept"], ","), sseType) {
		return nil
	}
	return func(message []byte) {
		if !x.streams {
			x.beginStream()
		}
		if !x.gone {
			x.write((&event{name: "message", data: message}).bytes())
		}
	}
}

// beginStream begins a response that is a stream of events.
func (x *exchange) beginStream() {
	x.streams = true
	h := x.w.Header()
	h.Set("Content-Type", sseType)
	if h.Get("Cache-Control") == "" {
		h.Set("Cache-Control", "no-cache")
	}
	x.w.WriteHeader(http.StatusOK)
	x.write(nil)
}

// isUTF8 reports whether a JSON body is in UTF-8 for every reader.
func isUTF8(h http.Header) bool {
	_, parameters, _ := strings.Cut(h["Content-Type"][0], ";")
	name, charset, _ := strings.Cut(strings.ToLower(strings.TrimSpace(parameters)), "=")
	return parameters == "" || name == "charset" && strings.Trim(charset, `"`) == "utf-8"
}

// statusOf is the HTTP status of the proxy's own answers: 400 if none has the ID of a request, for
// then the client waits for another.
func statusOf(answers [][]byte) int {
	for _, a := range answers {
		if id := jsontext.Value(a); !strings.HasPrefix(string(id), `{"jsonrpc":"2.0","id":null`) {
			return http.StatusOK
		}
	}
	return http.StatusBadRequest
}

// What has failed when there is no response.
const (
	unreachable = "the server could not be reached: "
	notRead     = "the server's response could not be read: "
	notComing   = "the server accepted the request, and its answer did not come"
	notMessages = "the server's response is neither JSON nor a stream of events"
)

// fail answers for a server that has not.
func (x *exchange) fail(d *departure, what string, err error) {
	why := what + err.Error()
	if x.ctx.Err() != nil {
		why = x.reason().Error()
	} else {
		x.warn("%s", why)
	}
	x.recordFailed(d.calls, action.Event{Type: action.ToolFailed, Error: why})
	if x.streams {
		x.respond(http.StatusOK, jsonType, unanswered(d.ids[0], why))
		return
	}
	http.Error(x.w, "attestd mcp: "+why, http.StatusBadGateway)
}

// reason says why a response has ended although requests are open.
func (x *exchange) reason() error {
	switch cause := context.Cause(x.ctx); {
	case x.gone || x.r.Context().Err() != nil:
		return errDisconnected
	case cause != nil:
		return cause
	}
	return errIncomplete
}

// recordFailed records that requests have ended without a response of their own.
func (x *exchange) recordFailed(requests []*call, e action.Event) {
	p := x.session.proxy
	for _, c := range p.calls.abandon(requests, e.Error, false, time.Now()) {
		if c.kind == otherRequest || c.kind == taskStatus {
			continue
		}
		if c.kind == contentRead {
			p.recordOther(read(c, nil, e.Error))
			continue
		}
		e := e
		if !c.began.IsZero() {
			e.DurationMS = time.Since(c.began).Milliseconds()
		}
		p.outcome(ended{call: c, event: e, size: int64(len(e.Output))})
	}
}

// relay forwards the response to a POST.
func (x *exchange) relay(d *departure, resp *http.Response) {
	isOK := resp.StatusCode == http.StatusOK
	switch kind := mediaType(resp.Header); {
	case isOK && kind == sseType:
		x.stream(d, resp)
	case isOK && kind == jsonType && len(d.calls) > 0:
		x.relayJSON(d, resp)
	case resp.StatusCode/100 == 2 && len(d.calls) == 0:
		x.Remote.returnHeader(x.w.Header(), resp.Header)
		if d.answer != nil {
			x.respond(http.StatusOK, jsonType, d.answer)
		} else {
			x.w.WriteHeader(resp.StatusCode)
		}
	case resp.StatusCode == http.StatusAccepted:
		x.Remote.returnHeader(x.w.Header(), resp.Header)
		answers, record := x.abandon(d, notComing, false)
		x.respond(http.StatusBadGateway, jsonType, d.compose(nil, append(answers, d.answers...)))
		record()
	default:
		x.relayOpaque(d, resp)
	}
}

// relayJSON forwards messages in one JSON value.
func (x *exchange) relayJSON(d *departure, resp *http.Response) {
	body, err := readAll(resp.Body, x.MaxLine, x.budget)
	if err != nil {
		x.fail(d, notRead, plainError(err))
		return
	}
	p, arrived := x.session.proxy, time.Now()
	messages, batch, err := readBody(body)
	if err != nil {
		x.warn("a response of the server is withheld: %v", err)
		x.recordFailed(d.calls, action.Event{
			Type: action.ToolFailed, Error: "attestd withheld the server's response: " + unreadBecause(err), Output: textOf(body),
		})
		x.respond(http.StatusBadGateway, jsonType, withheldLine(err))
		return
	}
	instead, outcomes := p.filterMessages(x.number, messages, batch, arrived)
	if instead != nil {
		body = instead
	}
	answers, record := x.abandon(d, x.reason().Error(), false)
	if answers = append(answers, d.answers...); len(answers) > 0 {
		inner := [][]byte{body}
		if batch {
			text := bytes.TrimSpace(body)
			inner[0] = bytes.TrimSpace(text[1 : len(text)-1])
		}
		body = d.compose(inner, answers)
	}
	x.Remote.returnHeader(x.w.Header(), resp.Header)
	x.respond(http.StatusOK, jsonType, body)
	for _, o := range outcomes {
		p.outcome(o)
	}
	record()
}

// compose returns the body that has the server's messages and the proxy's answers. To a single
// request it is the answer alone, because a client reads one message there.
func (d *departure) compose(messages, answers [][]byte) []byte {
	if !d.batch && len(answers) > 0 {
		return answers[0]
	}
	return list(slices.Concat(messages, answers))
}

// relayOpaque forwards a response that is an error of HTTP. It ends the requests.
func (x *exchange) relayOpaque(d *departure, resp *http.Response) {
	body, err := readAll(resp.Body, maxOpaque, x.budget)
	if err != nil {
		body = []byte("attestd withheld the response: " + plainError(err).Error())
	}
	status, kind := resp.StatusCode, mediaType(resp.Header)
	why := "the server answered HTTP " + strconv.Itoa(status)
	e := action.Event{Type: action.ToolFailed, Error: why, Output: textOf(body)}
	if kind == jsonType && jsontext.Value(body).IsValid() {
		e.Output = body
	}
	if len(body) == 0 {
		e.Output = nil
	}
	x.recordFailed(d.calls, e)
	if x.streams {
		x.respond(http.StatusOK, jsonType, unanswered(d.ids[0], why))
		return
	}
	if status/100 == 2 && x.r.Method != http.MethodDelete {
		x.warn("a response of the server is withheld: its type is %.60q", kind)
		http.Error(x.w, "attestd mcp: "+notMessages, http.StatusBadGateway)
		return
	}
	if status == http.StatusUnauthorized && !x.Remote.PassAuthorization {
		x.warn("the server asks for authorization: see attestd mcp --help for the ways to give it")
	}
	if kind != jsonType {
		kind = "text/plain; charset=utf-8"
	}
	x.Remote.returnHeader(x.w.Header(), resp.Header)
	x.respond(status, kind, body)
}

// textOf is a text as a JSON string.
func textOf(text []byte) []byte {
	quoted, _ := json.Marshal(strings.ToValidUTF8(string(text), "\ufffd")) // a string has no error
	return quoted
}

// respond writes a response with a body.
func (x *exchange) respond(status int, kind string, body []byte) {
	if x.streams { // line feeds are between tokens of JSON
		line := bytes.ReplaceAll(bytes.ReplaceAll(bytes.TrimSpace(body), []byte("\n"), []byte(" ")), []byte("\r"), []byte(" "))
		x.write((&event{name: "message", data: line}).bytes())
		return
	}
	x.w.Header().Set("Content-Type", kind)
	x.w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_ = x.out.SetWriteDeadline(time.Now().Add(bodyTimeout))
	x.w.WriteHeader(status)
	_, err := x.w.Write(body)
	x.gone = err != nil
}

// abandon ends the wait for what the response has not answered. It returns the errors that answer
// these requests, so that each has an answer, and a function that records them.
func (x *exchange) abandon(d *departure, why string, resumable bool) (answers [][]byte, record func()) {
	open := x.session.proxy.calls.abandon(d.calls, why, resumable, time.Now())
	for _, c := range open {
		answers = append(answers, unanswered(d.ids[slices.Index(d.calls, c)], why))
	}
	return answers, func() {
		for _, c := range open {
			x.session.proxy.recordUnanswered(c, why)
		}
	}
}

// get forwards a stream of the server's messages, which may be the rest of an earlier response.
func (x *exchange) get() {
	resp, err := x.Remote.send(x.ctx, http.MethodGet, x.Remote.forwardedHeader(x.r.Header), nil)
	if err != nil {
		x.fail(new(departure), unreachable, err)
		return
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusOK && mediaType(resp.Header) == sseType {
		x.stream(new(departure), resp)
		return
	}
	x.relayOpaque(new(departure), resp)
}

// delete ends the client's session.
func (x *exchange) delete() {
	resp, err := x.Remote.send(x.ctx, http.MethodDelete, x.Remote.forwardedHeader(x.r.Header), nil)
	if err != nil {
		x.fail(new(departure), unreachable, err)
		return
	}
	defer resp.Body.Close()
	if x.id != "" && (resp.StatusCode/100 == 2 || resp.StatusCode == http.StatusNotFound) {
		defer x.end(x.id, x.session, errSessionEnded)
	}
	x.relayOpaque(new(departure), resp)
}
