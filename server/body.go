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

// maxDepth is the maximum nesting of a caller's value; a body is one object around it.
const maxDepth = service.MaxDepth

// object is a JSON object from a caller, with each member's value verbatim.
type object map[string]jsontext.Value

// maxPublicBody is the maximum size of a body without a credential.
const maxPublicBody = 64 << 10

// The maximum number of members of the objects that are open at one place, and of elements in
// total. For a public body, they suffice for metadata of the maximum size.
const (
	maxMembers        = 65_536
	maxElements       = 1_000_000
	maxPublicMembers  = 4096
	maxPublicElements = 16_384
)

// The memory that a body is charged for beyond its bytes: per member for the names that the decoder
// remembers while the object is open, per number for the digits that its canonical form may add,
// and per byte for the stored form, the canonical form, the response and the database's copy.
const (
	memberCost = 400
	numberCost = 24
	copies     = 4
)

// read returns the body, which stays charged until the response.
func (c *call) read() ([]byte, error) {
	most := c.api.MaxBody
	if c.needs.isPublic() {
		most = min(most, maxPublicBody)
	}
	return c.readAtMost(most)
}

// readAtMost reads a body of JSON of at most most bytes, and charges the call for decoding it.
func (c *call) readAtMost(most int64) ([]byte, error) {
	raw, err := c.readBytes(most)
	if err != nil {
		return nil, err
	}
	return raw, c.charge(raw)
}

// readBytes reads a body of at most most bytes.
func (c *call) readBytes(most int64) ([]byte, error) {
	if c.ContentLength > most {
		c.closes = true // otherwise net/http would first read some of it
		return nil, &http.MaxBytesError{Limit: most}
	}
	c.sent.ReadCloser = c.Body
	body, err := limit.ReadBody(c.api.Bodies, c.holder(), http.MaxBytesReader(c.w, &c.sent, most), c.ContentLength)
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

// charge refuses a body with too many members or elements, and charges the call for decoding it
// before that begins.
func (c *call) charge(raw []byte) error {
	w := strictjson.Weigh(raw)
	members, elements := maxMembers, maxElements
	if c.needs.isPublic() {
		members, elements = maxPublicMembers, maxPublicElements
	}
	switch {
	case w.Members > members:
		return fail(http.StatusBadRequest, fmt.Sprintf("Request body has too many members: an object, with those around it, may have %d", members))
	case w.Elements > elements:
		return fail(http.StatusBadRequest, fmt.Sprintf("Request body has too many elements: all arrays together may have %d",
			elements))
	case len(raw) <= uncharged:
		return nil
	}
	return c.chargeDecoding(int64(w.Members)*memberCost + int64(w.Growing)*numberCost + copies*int64(len(raw)))
}

// uncharged is the size up to which a body is charged only for its buffer.
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

// parseBody parses a body, which must be one JSON object or empty, and returns the members that the
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

// parseObject parses an object and returns the members that the form declares. An error is
// strictjson.ErrKind, or an *apiError.
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

// malformed returns the response for a *strictjson.Error.
func malformed(err error) error {
	refused := fail(http.StatusBadRequest, "Malformed "+err.Error())
	var at *strictjson.Error
	if errors.As(err, &at) {
		refused.pointer = at.Pointer
	}
	return refused
}

// chargeDecoding charges the call for bytes of memory that decoding its body takes.
func (c *call) chargeDecoding(cost int64) (err error) {
	c.decoded, err = c.api.Decoding.Take(c.Context(), cost, c.holder())
	return err
}
