package strictjson

import (
	"bytes"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

// Reader reads one value in steps, for callers that need its inner parts. It makes every check of
// this package except that of depth, which the caller MUST count. Its errors have the type *Error.
// A Reader should be reused, because its decoder is larger than most values.
//
// The decoder, in its default mode, is what refuses duplicate names, invalid UTF-8 and lone
// surrogates.
type Reader struct {
	dec *jsontext.Decoder // reads in
	in  bytes.Buffer      // over src; the decoder reads its bytes in place
	src []byte
}

// NewReader returns a Reader of nothing.
func NewReader() *Reader {
	r := new(Reader)
	r.dec = jsontext.NewDecoder(&r.in)
	return r
}

// Open makes r ready to read src.
func (r *Reader) Open(src []byte) { r.in, r.src = *bytes.NewBuffer(src), src }

// Close ends the reading of src, at whatever point, and drops every reference to it. Then r may be
// opened again.
func (r *Reader) Close() {
	r.in, r.src = bytes.Buffer{}, nil
	r.dec.Reset(&r.in)
}

// Kind returns the kind of what comes next, without reading it: n, t or f of the literals, " for a
// string, 0 for a number, or a bracket. Where it is none of them, the next read returns the error.
func (r *Reader) Kind() byte { return byte(r.dec.PeekKind()) }

// Bracket reads a bracket, which Kind has announced.
func (r *Reader) Bracket() error {
	if _, err := r.dec.ReadToken(); err != nil {
		return asError(err)
	}
	return nil
}

// Value reads the next value, or name of a member, whole.
func (r *Reader) Value() ([]byte, error) {
	value, err := r.dec.ReadValue()
	if err != nil {
		return nil, asError(err)
	}
	// The decoder promises value until the next read only. But it reads a Buffer in place, so value
	// is a part of src and stays as long as that; a test holds it to this.
	return value[:len(value):len(value)], nil
}

// End demands that only white space is left.
func (r *Reader) End() error {
	if _, err := r.dec.ReadToken(); err != io.EOF {
		return &Error{Reason: "data after the end of the value"}
	}
	return nil
}

// Fault is an error of the caller's at what was read last.
func (r *Reader) Fault(reason string) *Error { return newError(string(r.dec.StackPointer()), reason) }
