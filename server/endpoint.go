package server

import (
	"context"
	"net/http"

	"attestd/store"
)

// work is what an endpoint does: a function of who asks and what is asked. It knows nothing of HTTP
// but for what its request asks to be given of it, and is called when the request is whole, was
// found to be what its type says, and the caller may ask.
type work[Request, Answer any] func(s *Server, ctx context.Context, by store.Caller, r Request) (Answer, error)

// endpoint makes a handler of work. status is that of a success. What the tags of Request mean is
// said at requestForm.
//
// An Answer is encoded as JSON. One that is a verbatim stands ready; one that is a body writes
// itself; one that is cached says in its own headers who may keep it.
func endpoint[Request, Answer any](status int, f work[Request, Answer]) handler {
	return endpointOf(formOf[Request](), status, f)
}

// endpointOf is endpoint for a request that is read by a form of its own.
func endpointOf[Request, Answer any](form *requestForm, status int, f work[Request, Answer]) handler {
	serve := func(c *call) error {
		var r Request
		if err := form.read(c, &r); err != nil {
			return err
		}
		if err := c.reauthenticate(); err != nil {
			return err
		}
		if counted, ok := any(&r).(itemized); ok {
			if err := counted.spend(c); err != nil {
				return err
			}
		}
		answer, err := f(c.s, c.Context(), c.caller, r)
		if err != nil {
			return err
		}
		return c.answer(status, answer)
	}
	return handler{serve, form}
}

// itemized is a request that stands for as many as it holds, which is known once it was read: they
// are counted then.
type itemized interface{ spend(c *call) error }

// guard lets a call to h only when allow has nothing against it, which is asked before the body is
// read.
func guard(allow func(c *call) error, h handler) handler {
	serve := func(c *call) error {
		if err := allow(c); err != nil {
			return err
		}
		return h.serve(c)
	}
	return handler{serve, h.form}
}

// none is the request of an endpoint that is asked for nothing but itself.
type none struct{}

// verbatim is an answer in JSON that stands ready.
type verbatim []byte

// body is an answer that writes itself, piece by piece.
type body interface {
	writeTo(c *call, status int) error
}

// cached is an answer that others may keep.
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
