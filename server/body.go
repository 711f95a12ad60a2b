package server

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"attestd/crypto/strictjson"
	"attestd/server/limit"
	"attestd/service"
)

// maxDepth is how deep a caller's value may nest; a body is one object around it.
const maxDepth = service.MaxDepth

// object is a JSON object as a caller sent it: each member's value, verbatim.
type object map[string]jsontext.Value

// maxPublicBody is how large a body may be that comes without a credential.
const maxPublicBody = 64 << 10

// What a body may have: members of the objects that are open at one place, and elements in all. A
// public one may have all that metadata of the largest size can have.
const (
	maxMembers        = 65_536
	maxElements       = 1_000_000
	maxPublicMembers  = 4096
	maxPublicElements = 16_384
)

// What a body is charged with beside its bytes: a member for the names that the decoder remembers
// while its object is open, a number for the digits that its canonical form may add, and all bytes
// for the stored form, the canonical form, the answer and what the database takes.
const (
	memberCost = 400
	numberCost = 24
	copies     = 4
)

// read returns the body, which the call holds until it is answered.
func (c *call) read() ([]byte, error) {
	most := c.s.MaxBody
	if c.needs == public {
		most = min(most, maxPublicBody)
	}
	return c.readAtMost(most)
}

// readAtMost returns a body that may have so many bytes.
func (c *call) readAtMost(most int64) ([]byte, error) {
	if c.ContentLength > most {
		c.w.Header().Set("Connection", "close") // or net/http would first read of it
		return nil, &http.MaxBytesError{Limit: most}
	}
	body, err := limit.ReadBody(c.s.bodies, c.holder(), http.MaxBytesReader(c.w, c.Body, most), c.ContentLength)
	if err == nil {
		c.body = body
		return body.Bytes, c.charge(body.Bytes)
	}
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) || errors.Is(err, limit.ErrFull) {
		return nil, err
	}
	return nil, fail(http.StatusBadRequest, "Request body could not be read to its end")
}

// charge refuses a body that has too much in it, and charges the call with what the decoding of the
// others takes, before it begins.
func (c *call) charge(raw []byte) error {
	w := strictjson.Weigh(raw)
	members, elements := maxMembers, maxElements
	if c.needs == public {
		members, elements = maxPublicMembers, maxPublicElements
	}
	switch {
	case w.Members > members:
		return fail(http.StatusBadRequest, fmt.Sprintf("Request body has too many members: an object, with those around it, may have %d", members))
	case w.Elements > elements:
		return fail(http.StatusBadRequest, fmt.Sprintf("Request body has too many elements: all arrays together may have %d", elements))
	case len(raw) <= uncharged:
		return nil
	}
	var err error
	c.decoded, err = c.s.decoding.Take(c.Context(), int64(w.Members)*memberCost+int64(w.Growing)*numberCost+copies*int64(len(raw)), c.holder())
	return err
}

// uncharged is the size of a body that costs nothing beside what its buffer was charged with.
const uncharged = 1 << 10

func (c *call) release() {
	if c.decoded != nil {
		c.decoded()
		c.decoded = nil
	}
	if c.body != nil {
		c.body.Release()
	}
}

// parseBody reads a body, which must be one JSON object or nothing, and keeps the members that the
// form declares.
func (form *requestForm) parseBody(raw []byte, policy undeclared) (object, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil, nil
	}
	o, err := form.parseObject(raw, form.depth, policy)
	if errors.Is(err, strictjson.ErrKind) {
		return nil, fail(http.StatusBadRequest, "Request body must be a JSON object")
	}
	return o, err
}

// parseObject reads an object and keeps the members that the form declares. An error is
// strictjson.ErrKind, or an answer.
func (form *requestForm) parseObject(raw []byte, depth int, policy undeclared) (object, error) {
	o := make(object, len(form.fields))
	var refused error
	err := strictjson.EachMember(raw, depth, func(name, value []byte) {
		if form.declares("json", string(name)) {
			o[string(name)] = value
		} else if refused == nil {
			refused = form.refuseMember(string(name), policy)
		}
	})
	switch {
	case errors.Is(err, strictjson.ErrKind):
		return nil, err
	case err != nil:
		return nil, malformed(err)
	}
	return o, refused
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
