package httpapi

import (
	"errors"
	"fmt"
	"net/http"

	"attestd/crypto/strictjson"
	"attestd/server/limit"
)

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
	Copies     = 4
)

// Read returns the body, which stays charged until the response.
func (c *Call) Read() ([]byte, error) {
	most := c.api.MaxBody
	if c.needs.IsPublic() {
		most = min(most, maxPublicBody)
	}
	return c.ReadAtMost(most)
}

// ReadAtMost reads a body of JSON of at most most bytes, and charges the call for decoding it.
func (c *Call) ReadAtMost(most int64) ([]byte, error) {
	raw, err := c.readBytes(most)
	if err != nil {
		return nil, err
	}
	return raw, c.charge(raw)
}

// readBytes reads a body of at most most bytes.
func (c *Call) readBytes(most int64) ([]byte, error) {
	if c.ContentLength > most {
		c.closes = true // otherwise net/http would first read some of it
		return nil, &http.MaxBytesError{Limit: most}
	}
	c.sent.ReadCloser = c.Body
	body, err := limit.ReadBody(c.api.Bodies, c.Holder(), http.MaxBytesReader(c.W, &c.sent, most), c.ContentLength)
	if err == nil {
		c.body = body
		return body.Bytes, nil
	}
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) || errors.Is(err, limit.ErrFull) {
		return nil, err
	}
	return nil, Fail(http.StatusBadRequest, "Request body could not be read to its end")
}

// charge refuses a body with too many members or elements, and charges the call for decoding it
// before that begins.
func (c *Call) charge(raw []byte) error {
	w := strictjson.Weigh(raw)
	members, elements := maxMembers, maxElements
	if c.needs.IsPublic() {
		members, elements = maxPublicMembers, maxPublicElements
	}
	switch {
	case w.Members > members:
		return Fail(http.StatusBadRequest, fmt.Sprintf("Request body has too many members: an object, with those around it, may have %d", members))
	case w.Elements > elements:
		return Fail(http.StatusBadRequest, fmt.Sprintf("Request body has too many elements: all arrays together may have %d",
			elements))
	case len(raw) <= Uncharged:
		return nil
	}
	return c.ChargeDecoding(int64(w.Members)*memberCost + int64(w.Growing)*numberCost + Copies*int64(len(raw)))
}

// Uncharged is the size up to which a body is charged only for its buffer.
const Uncharged = 1 << 10

func (c *Call) Release() {
	if c.decoded != nil {
		c.decoded()
		c.decoded = nil
	}
	if c.body != nil {
		c.body.Release()
	}
}

// ChargeDecoding charges the call for the bytes of memory that decoding its body needs.
func (c *Call) ChargeDecoding(cost int64) (err error) {
	c.decoded, err = c.api.Decoding.Acquire(c.Context(), cost, c.Holder())
	return err
}
