package server

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/google/uuid"

	"attestd/store"
)

// call is one request on its way through its handler.
type call struct {
	*http.Request
	s       *Server
	w       *response
	id      string         // request ID
	now     time.Time      // when it came
	bearer  string         // credential as presented
	claimed bool           // whether one was presented, be it an empty one
	authErr error          // that it could not be found out whose credential it is
	company *store.Company // whose valid credential it is; never nil behind a route with auth
}

// handler does the work of a route. A nil error means that it has answered.
type handler func(s *Server, c *call) error

// handle takes a request through what all have in common: its ID, its caller, the limits, the error and the log line.
func (s *Server) handle(rt route) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c := &call{Request: r, s: s, w: &response{ResponseWriter: w}, id: requestID(r), now: time.Now()}
		c.w.Header().Set("X-Request-ID", c.id)
		c.w.Header().Set("X-Content-Type-Options", "nosniff")
		var err error
		defer func() {
			if p := recover(); p != nil {
				if p == http.ErrAbortHandler {
					c.log(slog.LevelWarn, errors.New("answer broken off"))
					panic(p)
				}
				err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
			}
			c.finish(err)
		}()
		err = s.serve(rt, c)
	}
}

func (s *Server) serve(rt route, c *call) error {
	c.authenticate()
	key := c.bearer
	if c.company == nil { // made-up tokens count against their sender's address, so they buy nothing
		key = limitKey(clientIP(c.Request, s.TrustedProxies))
	}
	q := s.limiter.Take(rt.tier, key, c.now)
	q.Header(c.w.Header(), c.now)
	switch {
	case !q.OK:
		return fail(http.StatusTooManyRequests, "Too Many Requests")
	case rt.auth && c.authErr != nil:
		return c.authErr
	case rt.auth && c.company == nil:
		return unauthorized()
	}
	return rt.handler(s, c)
}

// authenticate finds out whose credential the request presents, if any. Where it cannot, routes without auth go on without
// it, so that the health check does not depend on the database.
func (c *call) authenticate() {
	scheme, token, _ := strings.Cut(c.Header.Get("Authorization"), " ")
	if strings.EqualFold(scheme, "Bearer") {
		c.identify(strings.TrimSpace(token))
	}
}

// identify finds the company of a presented credential; there is none for an unknown one.
func (c *call) identify(credential string) {
	c.bearer, c.claimed = credential, true
	c.company, c.authErr = c.s.Store.Authenticate(c.Context(), credential, c.now)
	if errors.Is(c.authErr, store.ErrNotFound) {
		c.authErr = nil
	}
}

// finish answers an error and writes the log line.
func (c *call) finish(err error) {
	if err == nil {
		c.log(slog.LevelInfo, nil)
		return
	}
	if c.Context().Err() != nil && c.w.status == 0 { // the client has gone: nobody reads an answer
		c.w.status = 499
		c.log(slog.LevelInfo, nil)
		return
	}
	e := classify(err)
	body := errorBody{Error: e.Message, Code: e.Code, Description: e.Description}
	level := slog.LevelInfo
	if e.Status >= 500 {
		body.RequestID, level = c.id, slog.LevelError
	}
	if c.w.status == 0 {
		for name, values := range e.Header {
			c.w.Header()[name] = values
		}
		c.w.Header().Set("Cache-Control", "no-store")
		c.json(e.Status, body)
	}
	c.log(level, e.cause)
}

// log writes the one line of a request. The route's pattern stands in for the path: keys stand in paths.
func (c *call) log(level slog.Level, cause error) {
	route := c.Pattern[strings.IndexByte(c.Pattern, ' ')+1:]
	attrs := make([]slog.Attr, 0, 8)
	attrs = append(attrs,
		slog.String("id", c.id),
		slog.String("method", method(c.Method)),
		slog.String("route", route),
		slog.Int("status", c.w.status),
		slog.Duration("duration", time.Since(c.now).Round(time.Microsecond)))
	if c.company != nil {
		attrs = append(attrs, slog.String("company", c.company.ID))
	}
	if cause != nil {
		attrs = append(attrs, slog.String("error", cause.Error()))
	}
	c.s.Log.LogAttrs(c.Context(), level, "request", attrs...)
}

// method keeps what a client makes up out of the log.
func method(m string) string {
	switch m {
	case "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS":
		return m
	}
	return "other"
}

// json answers with v.
func (c *call) json(status int, v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	return c.bytes(status, b.Bytes())
}

// bytes answers with JSON that stands ready. That the client may have gone is its business, not ours.
func (c *call) bytes(status int, body []byte) error {
	c.w.Header().Set("Content-Type", "application/json")
	c.w.WriteHeader(status)
	_, _ = c.w.Write(body)
	return nil
}

// secret answers with something that must not be kept by anyone on the way.
func (c *call) secret(status int, v any) error {
	c.w.Header().Set("Cache-Control", "no-store")
	return c.json(status, v)
}

// requestID echoes a sane X-Request-ID (1 to 128 visible ASCII characters), else makes one.
func requestID(r *http.Request) string {
	id := r.Header.Get("X-Request-ID")
	sane := len(id) >= 1 && len(id) <= 128
	for i := 0; sane && i < len(id); i++ {
		sane = id[i] > ' ' && id[i] < 0x7f
	}
	if sane {
		return id
	}
	return uuid.NewString()
}

// response remembers the status for the log.
type response struct {
	http.ResponseWriter
	status int
}

func (w *response) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *response) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap serves http.ResponseController.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Hijack serves the WebSocket upgrade, which looks for it here.
func (w *response) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	w.status = http.StatusSwitchingProtocols
	return http.NewResponseController(w.ResponseWriter).Hijack()
}
