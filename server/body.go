package server

import (
	"bytes"
	"errors"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"attestd/crypto/strictjson"
	"attestd/server/limit"
)

// maxDepth is how deep a caller's value may nest; a body is one object around it.
const maxDepth = 128

// object is a JSON object as a caller sent it: each member's value, verbatim.
type object map[string]jsontext.Value

// read returns the body, which the call holds until it is answered.
func (c *call) read() ([]byte, error) {
	body, err := limit.ReadBody(c.s.bodies, c.holder(), http.MaxBytesReader(c.w, c.Body, c.s.MaxBody), c.ContentLength)
	if err == nil {
		c.body = body
		return body.Bytes, nil
	}
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) || errors.Is(err, limit.ErrFull) {
		return nil, err
	}
	return nil, fail(http.StatusBadRequest, "Request body could not be read to its end")
}

func (c *call) release() {
	if c.body != nil {
		c.body.Release()
	}
}

// parseBody reads a body, which must be one JSON object or nothing.
func parseBody(raw []byte, depth int) (object, error) {
	o := make(object, 4)
	if len(bytes.TrimSpace(raw)) == 0 {
		return o, nil
	}
	err := strictjson.EachMember(raw, depth, func(name, value []byte) { o[string(name)] = value })
	if errors.Is(err, strictjson.ErrKind) {
		return nil, fail(http.StatusBadRequest, "Request body must be a JSON object")
	}
	if err != nil {
		return nil, malformed(err)
	}
	return o, nil
}

// malformed answers a *strictjson.Error.
func malformed(err error) error {
	refused := fail(http.StatusBadRequest, "Malformed "+err.Error())
	var at *strictjson.Error
	if errors.As(err, &at) {
		refused.pointer = at.Pointer
	}
	return refused
}
