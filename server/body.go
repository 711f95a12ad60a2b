package server

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// maxDepth is how deep a caller's value may nest; a body is one object around it.
const maxDepth = 128

// object is a JSON object as a caller sent it: each member's value, verbatim.
type object map[string]jsontext.Value

func (c *call) read() ([]byte, error) {
	var buf bytes.Buffer
	if n := c.ContentLength; n > 0 && n <= c.s.MaxBody {
		buf.Grow(int(n) + bytes.MinRead) // room for the read that finds the end
	}
	if _, err := buf.ReadFrom(http.MaxBytesReader(c.w, c.Body, c.s.MaxBody)); err != nil {
		var tooLarge *http.MaxBytesError
		if errors.As(err, &tooLarge) {
			return nil, err
		}
		return nil, fail(http.StatusBadRequest, "Request body could not be read to its end")
	}
	return buf.Bytes(), nil
}

var decoders = sync.Pool{New: func() any { return jsontext.NewDecoder(bytes.NewReader(nil)) }}

// parseBody reads a body, which must be one JSON object or nothing. Duplicate members anywhere, invalid UTF-8,
// lone surrogates and trailing data are refused with the place where they stand.
func parseBody(raw []byte) (object, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return object{}, nil
	}
	if depth(raw) > maxDepth+1 {
		return nil, fail(http.StatusBadRequest, fmt.Sprintf("Malformed JSON: nested deeper than %d", maxDepth))
	}
	dec := decoders.Get().(*jsontext.Decoder)
	defer decoders.Put(dec)
	dec.Reset(bytes.NewBuffer(raw)) // a Buffer is decoded in place
	if dec.PeekKind() != '{' {
		if _, err := dec.ReadValue(); err != nil {
			return nil, malformed(err)
		}
		return nil, fail(http.StatusBadRequest, "Request body must be a JSON object")
	}
	o := make(object, 4)
	if _, err := dec.ReadToken(); err != nil {
		return nil, malformed(err)
	}
	for dec.PeekKind() != '}' {
		name, err := dec.ReadToken()
		if err != nil {
			return nil, malformed(err)
		}
		key := name.String()
		value, err := dec.ReadValue()
		if err != nil {
			return nil, malformed(err)
		}
		end := dec.InputOffset() // value is only lent, but raw, where it stands, is ours
		o[key] = raw[end-int64(len(value)) : end : end]
	}
	if _, err := dec.ReadToken(); err != nil {
		return nil, malformed(err)
	}
	if _, err := dec.ReadToken(); err != io.EOF {
		return nil, fail(http.StatusBadRequest, "Malformed JSON: data after the end of the object")
	}
	return o, nil
}

// malformed says where a body stops being JSON, and why; of what stands there it shows a character or a member's name at most.
func malformed(err error) error {
	var syntax *jsontext.SyntacticError
	if errors.As(err, &syntax) {
		return badJSON(string(syntax.JSONPointer), fmt.Sprintf("%s (byte %d)", strings.TrimPrefix(syntax.Err.Error(), "jsontext: "), syntax.ByteOffset))
	}
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return badJSON("", "unexpected end of the body")
	}
	return badJSON("", "not valid JSON")
}

// badJSON names the place of a fault. A pointer is as long as the caller's names are, so a long one is cut.
func badJSON(pointer, reason string) error {
	const most = 256
	if len(pointer) > most {
		pointer = strings.ToValidUTF8(pointer[:most], "") + "…"
	}
	if pointer == "" {
		return fail(http.StatusBadRequest, "Malformed JSON: "+reason)
	}
	return fail(http.StatusBadRequest, fmt.Sprintf("Malformed JSON at %q: %s", pointer, reason))
}

// depth counts how deep the containers of src nest, without asking whether src is valid.
func depth(src []byte) int {
	deepest, now, inString := 0, 0, false
	for i := 0; i < len(src); i++ {
		switch b := src[i]; {
		case inString && b == '\\':
			i++
		case b == '"':
			inString = !inString
		case inString:
		case b == '{' || b == '[':
			now++
			deepest = max(deepest, now)
		case b == '}' || b == ']':
			now--
		}
	}
	return deepest
}
