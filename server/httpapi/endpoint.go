package httpapi

import (
	"context"
	"net/http"

	"attestd/store"
)

// Work implements an endpoint as a function of the caller and the request. It depends on HTTP only
// as far as its request type asks for it. It is called when the request was read and validated, and
// the caller is permitted.
type Work[Request, Answer any] func(ctx context.Context, by store.Caller, r Request) (Answer, error)

// Endpoint makes a handler of work. status is the status of a success. See Form for the tags
// of Request.
//
// An Answer is encoded as JSON, unless it is verbatim or a body, which writes itself. A cached one
// sets its own caching headers.
func Endpoint[Request, Answer any](status int, f Work[Request, Answer]) Handler {
	return EndpointOf(FormOf[Request](), status, f)
}

// EndpointOf is endpoint for a request with its own form.
func EndpointOf[Request, Answer any](form *Form, status int, f Work[Request, Answer]) Handler {
	serve := func(c *Call) error {
		var r Request
		if err := form.Read(c, &r); err != nil {
			return err
		}
		by, err := c.By(Anybody)
		if err != nil {
			return err
		}
		if counted, ok := any(&r).(Itemized); ok {
			if err := counted.Spend(c); err != nil {
				return err
			}
		}
		answer, err := f(c.Context(), by, r)
		if err != nil {
			return err
		}
		return c.answer(status, answer)
	}
	return Handler{Serve: serve, Form: form}
}

// Itemized is a request that counts as several calls. Their number is known after parsing, so they
// are counted then.
type Itemized interface{ Spend(c *Call) error }

// Guard calls h only if allow returns nil. It calls allow before the body is read.
func Guard(allow func(c *Call) error, h Handler) Handler {
	serve := h.Serve
	h.Serve = func(c *Call) error {
		if err := allow(c); err != nil {
			return err
		}
		return serve(c)
	}
	return h
}

// None is the request type of an endpoint without parameters.
type None struct{}

// Verbatim is a response in encoded JSON.
type Verbatim []byte

// Body is a response that writes itself, piece by piece.
type Body interface {
	WriteTo(c *Call, status int) error
}

// Cached is a response that may be cached.
type Cached interface{ SetHeader(h http.Header) }

func (c *Call) answer(status int, answer any) error {
	if a, ok := answer.(Cached); ok {
		a.SetHeader(c.W.Header())
	}
	switch a := answer.(type) {
	case Verbatim:
		return c.Bytes(status, a)
	case Body:
		return a.WriteTo(c, status)
	}
	return c.JSON(status, answer)
}
