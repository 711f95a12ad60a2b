// Package jcs writes JSON in the canonical form of RFC 8785 (JSON Canonicalization Scheme), and
// refuses values that the form cannot represent without loss.
//
// In the canonical form
//
//   - there is no white space outside strings;
//   - members of an object are sorted by the UTF-16 code units of their names (section 3.2.3);
//   - strings have only the escapes that JSON requires: \" \\ \b \t \n \f \r, and \u00xx for the
//     other controls; everything else is plain UTF-8 (section 3.2.2.2);
//   - numbers are spelled as ECMAScript's Number.prototype.toString does (section 3.2.2.3).
//
// RFC 8785 reads every number as an IEEE 754 double and so would write 12345678901234567890 as
// 12345678901234567000. Here that is an error, because the hash would cover another value than the
// caller's. A number is accepted if its decimal value is that of its canonical spelling, like 4.50,
// 1e2 and 0.1.
package jcs

import (
	"bytes"
	"cmp"
	"slices"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"attestd/crypto/strictjson"
)

// Append appends to dst the canonical form of src, which MUST have exactly one JSON value, and
// returns the result. It refuses, with a *strictjson.Error, what the form cannot represent without
// loss: syntax errors, duplicate keys, invalid UTF-8, lone surrogates, numbers whose decimal value
// is not that of their ECMAScript form (12345678901234567890, 1e400, 1e-400), and containers nested
// deeper than maxDepth. After an error the result is dst.
//
// Time is O(n log n) in len(src) for any input at a fixed maxDepth. dst and src must not overlap.
func Append(dst, src []byte, maxDepth int) ([]byte, error) {
	w := writers.Get().(*writer)
	defer w.release()
	w.open(dst, src, maxDepth)
	if err := w.value(0); err != nil {
		return dst, err
	}
	if err := w.in.End(); err != nil {
		return dst, err
	}
	return w.dst, nil
}

// writer makes one pass over a value: it writes each token as it reads it, and when an object ends
// whose members came in another order, it moves their finished spellings into place. An object
// inside k unsorted objects is moved k times, so maxDepth bounds the work.
type writer struct {
	in       *strictjson.Reader
	dst      []byte
	maxDepth int
	members  []member // a stack: those of the objects that are open
	scratch  []byte
}

// member is one member of an open object.
type member struct {
	name       []byte // unquoted
	start, end int    // its spelling is dst[start:end], without a comma
}

var writers = sync.Pool{New: func() any { return &writer{in: strictjson.NewReader()} }}

func (w *writer) open(dst, src []byte, maxDepth int) {
	w.in.Open(src)
	w.dst, w.maxDepth = dst, maxDepth
}

// release gives w back without any reference to the caller's memory, and without buffers that one
// large value grew.
func (w *writer) release() {
	const maxPooled = 1 << 10 // members; a value of one attestation has a few dozen
	w.in.Close()
	w.dst = nil
	clear(w.members) // after an error; else it is empty
	w.members = w.members[:0]
	if cap(w.members) > maxPooled {
		w.members = nil
	}
	if cap(w.scratch) > 64*maxPooled {
		w.scratch = nil
	}
	writers.Put(w)
}

// value writes the next value, which is nested in depth containers.
func (w *writer) value(depth int) error {
	switch w.in.Kind() {
	case '{':
		if depth == w.maxDepth {
			return w.tooDeep()
		}
		return w.object(depth + 1)
	case '[':
		if depth == w.maxDepth {
			return w.tooDeep()
		}
		return w.array(depth + 1)
	}
	raw, err := w.in.Value()
	if err != nil {
		return err
	}
	switch raw[0] {
	case '"':
		w.dst = appendString(w.dst, raw)
	case 'n', 't', 'f':
		w.dst = append(w.dst, raw...)
	default:
		var refusal string
		if w.dst, refusal = appendNumber(w.dst, raw); refusal != "" {
			return w.in.Fault(refusal)
		}
	}
	return nil
}

func (w *writer) array(depth int) error {
	if err := w.in.Bracket(); err != nil {
		return err
	}
	w.dst = append(w.dst, '[')
	for first := true; w.in.Kind() != ']'; first = false {
		if !first {
			w.dst = append(w.dst, ',')
		}
		if err := w.value(depth); err != nil {
			return err
		}
	}
	if err := w.in.Bracket(); err != nil {
		return err
	}
	w.dst = append(w.dst, ']')
	return nil
}

func (w *writer) object(depth int) error {
	if err := w.in.Bracket(); err != nil {
		return err
	}
	w.dst = append(w.dst, '{')
	bottom, sorted := len(w.members), true
	for w.in.Kind() != '}' {
		if len(w.members) > bottom {
			w.dst = append(w.dst, ',')
		}
		m, err := w.name()
		if err != nil {
			return err
		}
		if err := w.value(depth); err != nil {
			return err
		}
		m.end = len(w.dst)
		if n := len(w.members); n > bottom && compareUTF16(w.members[n-1].name, m.name) > 0 {
			sorted = false
		}
		w.members = append(w.members, m)
	}
	if err := w.in.Bracket(); err != nil {
		return err
	}
	if !sorted {
		w.sort(w.members[bottom:])
	}
	clear(w.members[bottom:])
	w.members = w.members[:bottom]
	w.dst = append(w.dst, '}')
	return nil
}

// name writes the next name and its colon.
func (w *writer) name() (member, error) {
	raw, err := w.in.Value()
	if err != nil {
		return member{}, err
	}
	m := member{name: strictjson.Unquote(raw), start: len(w.dst)}
	if len(m.name) == len(raw)-len(`""`) { // without an escape it has its canonical form already
		w.dst = append(w.dst, raw...)
	} else {
		w.dst = AppendString(w.dst, m.name)
	}
	w.dst = append(w.dst, ':')
	return m, nil
}

// sort puts the spellings of members, which are adjacent in dst, in the order of their names.
func (w *writer) sort(members []member) {
	from := members[0].start
	w.scratch = append(w.scratch[:0], w.dst[from:]...)
	slices.SortFunc(members, func(a, b member) int { return compareUTF16(a.name, b.name) })
	w.dst = w.dst[:from]
	for i, m := range members {
		if i > 0 {
			w.dst = append(w.dst, ',')
		}
		w.dst = append(w.dst, w.scratch[m.start-from:m.end-from]...)
	}
}

func (w *writer) tooDeep() error {
	if err := w.in.Bracket(); err != nil { // so that the place is that of the container
		return err
	}
	return w.in.Fault(strictjson.TooDeep(w.maxDepth))
}

// AppendString appends the canonical form of the string s, which must be valid UTF-8.
func AppendString[Text string | []byte](dst []byte, s Text) []byte {
	// its only error is invalid UTF-8, which it replaces by U+FFFD
	dst, _ = jsontext.AppendQuote(dst, s)
	return dst
}

// appendString appends the canonical form of the valid JSON string raw. Without an escape it has
// that form already.
func appendString(dst, raw []byte) []byte {
	if bytes.IndexByte(raw, '\\') < 0 {
		return append(dst, raw...)
	}
	text, _ := jsontext.AppendUnquote(make([]byte, 0, 128), raw)
	dst, _ = jsontext.AppendQuote(dst, text)
	return dst
}

// compareUTF16 compares valid UTF-8 strings by their UTF-16 code units. That is the order of the
// bytes, except that the surrogates of a character beyond U+FFFF (first byte F0 and up) stand
// before U+E000–U+FFFF (EE and EF).
func compareUTF16(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if x, y := a[i], b[i]; x != y {
			if min(x, y) >= 0xEE && (x >= 0xF0) != (y >= 0xF0) {
				x, y = y, x
			}
			return cmp.Compare(x, y)
		}
	}
	return cmp.Compare(len(a), len(b))
}
