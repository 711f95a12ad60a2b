package server

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/google/uuid"
)

// handle takes a request through what all have in common: its ID, its caller, the limits, the error
// and the log line.
func (s *Server) handle(rt route) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c := &call{Request: r, s: s, w: &response{ResponseWriter: w}, id: requestID(r), came: time.Now(), needs: rt.needs, undeclared: rt.undeclared}
		h := w.Header()
		h.Set("X-Request-ID", c.id)
		h.Set("X-Content-Type-Options", "nosniff")
		// what may be kept, by whom and how long, is said by the answer itself
		h.Set("Cache-Control", "no-store")
		if len(r.TransferEncoding) > 0 {
			// Content-Length may have come with it, which net/http drops: then the next request may
			// begin elsewhere for a proxy in front (RFC 9112 §6.1).
			h.Set("Connection", "close")
		}
		defer c.release()
		var err error
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
			}
			c.finish(err)
		}()
		if err = c.admit(rt); err == nil {
			err = rt.handler.serve(c)
		}
	}
}

// admit finds out who calls, counts the call, and says whether it may go on to its handler.
func (c *call) admit(rt route) error {
	ambiguous := c.checkHeaders()
	if ambiguous == nil {
		c.authenticate()
	}
	if err := c.spend(rt.tier, 1); err != nil {
		return err
	}
	if ambiguous != nil {
		return ambiguous
	}
	if err := c.s.checkOrigin(c.Request); err != nil {
		return err
	}
	if err := c.permit(); err != nil {
		return err
	}
	if form := rt.handler.form; form != nil {
		return c.readQuery(form, rt.undeclared)
	}
	return nil
}

// finish answers an error and writes the log line. An answer that was begun and is not whole must
// not look whole to its reader: then the connection is broken off, which is the only way left to
// say so.
func (c *call) finish(err error) {
	if err == nil {
		c.log(slog.LevelInfo, nil)
		return
	}
	if c.Context().Err() != nil && c.w.status == 0 { // the client has gone: nobody reads an answer
		c.w.status = statusClientGone
		c.log(slog.LevelInfo, nil)
		return
	}
	e := classify(err)
	level := slog.LevelInfo
	if e.Status >= 500 {
		level = slog.LevelError
	}
	if c.w.status != 0 {
		c.log(max(level, slog.LevelWarn), errors.Join(errors.New("answer broken off"), err))
		panic(http.ErrAbortHandler)
	}
	if err := c.refuse(e); err != nil {
		c.log(slog.LevelError, err)
		panic(http.ErrAbortHandler)
	}
	c.log(level, e.cause)
}

// statusClientGone stands in the log where the client did not wait for an answer.
const statusClientGone = 499

// refuse answers with an error.
func (c *call) refuse(e *apiError) error {
	for name, values := range e.Header {
		c.w.Header()[name] = values
	}
	c.w.Header().Set("Cache-Control", "no-store")
	if c.caller.Company == nil && c.body == nil && c.ContentLength != 0 {
		// or net/http would first wait for the body of a stranger
		c.w.Header().Set("Connection", "close")
	}
	if e.Body != nil {
		return c.json(e.Status, e.Body)
	}
	body := errorBody{Error: e.Message, Code: e.Code, Description: e.Description, Pointer: e.Pointer}
	if e.Status >= 500 {
		body.RequestID = c.id
	}
	return c.json(e.Status, body)
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
