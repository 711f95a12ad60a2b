package server

import (
	"context"
	"net/http"

	"attestd/store"
)

// work implements an endpoint as a function of the caller and the request. It depends on HTTP only
// as far as its request type asks for it. It is called when the request was read and validated, and
// the caller is permitted.
type work[Request, Answer any] func(ctx context.Context, by store.Caller, r Request) (Answer, error)

// endpoint makes a handler of work. status is the status of a success. See requestForm for the tags
// of Request.
//
// An Answer is encoded as JSON, unless it is verbatim or a body, which writes itself. A cached one
// sets its own caching headers.
func endpoint[Request, Answer any](status int, f work[Request, Answer]) handler {
	return endpointOf(formOf[Request](), status, f)
}

// endpointOf is endpoint for a request with its own form.
func endpointOf[Request, Answer any](form *requestForm, status int, f work[Request, Answer]) handler {
	serve := func(c *call) error {
		var r Request
		if err := form.read(c, &r); err != nil {
			return err
		}
		by, err := c.by(anybody)
		if err != nil {
			return err
		}
		if counted, ok := any(&r).(itemized); ok {
			if err := counted.spend(c); err != nil {
				return err
			}
		}
		answer, err := f(c.Context(), by, r)
		if err != nil {
			return err
		}
		return c.answer(status, answer)
	}
	return handler{serve, form}
}

// itemized is a request that counts as several calls. Their number is known after parsing, so they
// are counted then.
type itemized interface{ spend(c *call) error }

// guard calls h only if allow returns nil. It calls allow before the body is read.
func guard(allow func(c *call) error, h handler) handler {
	serve := func(c *call) error {
		if err := allow(c); err != nil {
			return err
		}
		return h.serve(c)
	}
	return handler{serve, h.form}
}

// none is the request type of an endpoint without parameters.
type none struct{}

// verbatim is a response in encoded JSON.
type verbatim []byte

// body is a response that writes itself, piece by piece.
type body interface {
	writeTo(c *call, status int) error
}

// cached is a response that may be cached.
type cached interface{ setHeader(h http.Header) }

func (c *call) answer(status int, answer any) error {
	if a, ok := answer.(cached); ok {
		a.setHeader(c.w.Header())
	}
	switch a := answer.(type) {
	case verbatim:
		return c.bytes(status, a)
	case body:
		return a.writeTo(c, status)
	}
	return c.json(status, answer)
}
