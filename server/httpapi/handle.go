package httpapi

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/google/uuid"

	"attestd/server/limit"
	"attestd/server/trace"
	"attestd/store"
)

// Handle implements what all requests have in common: the request ID, the caller, the limits, the
// error response and the log line.
func (a *API) Handle(rt Route) http.HandlerFunc {
	measured := a.Metrics.Route(cmp.Or(rt.Method, "other"), cmp.Or(rt.Path, "other"))
	traced := a.Traces != nil && !untraced[rt.Path]
	return func(w http.ResponseWriter, r *http.Request) {
		var span trace.Span
		if traced {
			var ctx context.Context
			ctx, span = a.Traces.Request(r.Context(), r.Header, cmp.Or(rt.Method, "other"), cmp.Or(rt.Path, "other"))
			r = r.WithContext(ctx)
		}
		c := a.NewCall(rt, w, r)
		h := w.Header()
		h["X-Request-Id"] = []string{c.ID}
		h["X-Content-Type-Options"] = noSniff
		if rt.Needs.AnyPage {
			h["Access-Control-Allow-Origin"] = anyOrigin
		}
		// a cacheable response replaces this
		h["Cache-Control"] = noStore
		if len(r.TransferEncoding) > 0 {
			// Content-Length may have been present too, and net/http drops it. Then a proxy in
			// front may see the next request begin elsewhere (RFC 9112 §6.1).
			h.Set("Connection", "close")
		}
		defer c.linger() // when everything else is released
		defer c.Release()
		var err error
		defer func() {
			defer func() {
				measured.Observe(c.W.status, time.Since(c.receivedAt))
				span.End(c.W.status)
			}()
			if p := recover(); p != nil {
				err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
			}
			c.finish(err)
		}()
		if err = c.admit(rt); err == nil {
			err = rt.Handler.Serve(c)
		}
	}
}

// NewCall returns the state of a request for a route.
func (a *API) NewCall(rt Route, w http.ResponseWriter, r *http.Request) *Call {
	c := &Call{Request: r, api: a, W: &Response{ResponseWriter: w}, ID: requestID(r), receivedAt: time.Now(), needs: rt.Needs, writes: rt.writes(), fresh: rt.fresh(),
		undeclared: rt.Undeclared, refuseOwn: rt.Handler.Refuse}
	c.W.call = c
	return c
}

// untraced are routes without spans: those that programs ask all the time, one that does not end,
// and those to which a collector may send the spans of this server back.
var untraced = map[string]bool{"/readyz": true, "/v1/health": true, "/v1/ws": true, "/v1/otlp/v1/traces": true, "/v1/otlp/v1/logs": true}

// admit authenticates the caller, counts the call, and checks that the handler may run.
func (c *Call) admit(rt Route) error {
	ambiguous := c.checkHeaders()
	if ambiguous == nil {
		if !rt.Needs.Gateway { // a proof there is not for this server
			c.offerNonce()
		}
		c.authenticate()
	}
	if err := c.Spend(rt.Tier, 1); err != nil {
		return err
	}
	if ambiguous != nil {
		return ambiguous
	}
	if err := c.api.checkOrigin(c.Request); err != nil && !rt.Needs.AnyPage && !rt.Needs.Gateway {
		return err
	}
	if err := c.admitCaller(); err != nil {
		return err
	}
	if err := c.useProof(); err != nil {
		return err
	}
	if form := rt.Handler.Form; form != nil {
		return c.ReadQuery(form, rt.Undeclared)
	}
	return nil
}

// finish sends an error response and writes the log line. If a response was begun and is
// incomplete, the only way left to tell the client is to abort the connection.
func (c *Call) finish(err error) {
	if err == nil {
		c.log(slog.LevelInfo, nil)
		return
	}
	// the client is gone and reads no response
	if c.Context().Err() != nil && c.W.status == 0 {
		c.W.status = statusClientGone
		c.log(slog.LevelInfo, nil)
		return
	}
	e := c.Classify(err)
	level := slog.LevelInfo
	// a company beyond its quota, or a caller at its limit, is no failure of the server
	if e.Status >= 500 && e.Status != http.StatusInsufficientStorage && !errors.Is(err, limit.ErrShare) && !errors.Is(err, store.ErrTokenKeysBusy) {
		level = slog.LevelError
	}
	if c.W.status != 0 {
		c.log(max(level, slog.LevelWarn), errors.Join(errors.New("response aborted"), err))
		c.W.early = false
		panic(http.ErrAbortHandler)
	}
	if err := c.refuse(e); err != nil {
		c.log(slog.LevelError, err)
		panic(http.ErrAbortHandler)
	}
	c.log(level, e.cause)
}

// statusClientGone is logged if the client did not wait for the response.
const statusClientGone = 499

// refuse sends an error response.
func (c *Call) refuse(e *Error) error {
	for name, values := range e.Header {
		if c.ProtoMajor >= 2 && (name == "Connection" || name == "Upgrade") { // RFC 9113 §8.2.2
			continue
		}
		if name == "Www-Authenticate" && e.Status == http.StatusUnauthorized {
			values = c.challenges(values)
		}
		c.W.Header()[name] = values
	}
	c.W.Header().Set("Cache-Control", "no-store")
	if c.refuseOwn != nil && c.refuseOwn(c, e) {
		return nil
	}
	if e.Body != nil {
		return c.JSON(e.Status, e.Body)
	}
	body := errorBody{Error: e.Message, Code: e.Code, Description: e.Description, Pointer: e.Pointer, Line: e.Line, Column: e.Column}
	if e.Status >= 500 {
		body.RequestID = c.ID
	}
	return c.JSON(e.Status, body)
}

// requestID returns a valid X-Request-ID (1 to 128 visible ASCII characters) of the request, or a
// new one.
func requestID(r *http.Request) string {
	id := r.Header.Get("X-Request-ID")
	sane := len(id) >= 1 && len(id) <= 128
	for i := 0; sane && i < len(id); i++ {
		sane = id[i] > ' ' && id[i] < 0x7f
	}
	if sane {
		return id
	}
	// no secret, so the process's own generator will do
	random := uuid.UUID(binary.NativeEndian.AppendUint64(binary.NativeEndian.AppendUint64(make([]byte, 0, 16), rand.Uint64()), rand.Uint64()))
	random[6], random[8] = random[6]&0x0f|0x40, random[8]&0x3f|0x80 // version 4 (RFC 9562 §5.4)
	return random.String()
}

// Classify adds to what anybody may know of an error what the caller may: the ID, the sizes and
// roots of a log that was rolled back are for the company alone whose log it is.
func (c *Call) Classify(err error) *Error {
	e := Classify(err)
	var rolledBack *store.RolledBackError
	if e.Code != "ROLLED_BACK" || c.presumed.Company == nil || !errors.As(err, &rolledBack) {
		return e
	}
	answer := *e
	answer.Message = rolledBackAnswer(rolledBack.ReasonFor(c.presumed.Company.ID), err).Message
	return &answer
}
