// Package strictjson parses untrusted JSON. It accepts RFC 8259 only, and refuses texts that two
// parsers may interpret differently:
//
//   - a member name that occurs twice in one object, in whatever spelling, at any depth;
//   - invalid UTF-8, and escapes of lone surrogates, in names and in strings;
//   - anything but white space after the value;
//   - containers nested deeper than the caller allows.
//
// Values are sub-slices of the source with their original spelling, so a number keeps its digits.
// The caller MUST NOT change the source while it uses them.
package strictjson

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// ErrKind reports that the source has one valid value of another kind than the requested one.
var ErrKind = errors.New("JSON of another kind")

// EachMember calls yield for every member of the object src, in order, with its unquoted name and
// its value as spelt in src. Each value may nest maxDepth deep. The error is an *Error, or ErrKind
// if src is no object. yield may have been called before an error: the caller MUST then discard the
// results.
func EachMember(src []byte, maxDepth int, yield func(name, value []byte)) error {
	r := open(src)
	defer r.release()
	if err := r.enter('{', maxDepth); err != nil {
		return err
	}
	for r.Kind() != '}' {
		quoted, err := r.Value()
		if err != nil {
			return err
		}
		value, err := r.Value()
		if err != nil {
			return err
		}
		yield(Unquote(quoted), value)
	}
	return r.leave()
}

// EachElement calls yield for every element of the array src, in order, as spelt there. Otherwise
// it is like EachMember.
func EachElement(src []byte, maxDepth int, yield func(value []byte)) error {
	r := open(src)
	defer r.release()
	if err := r.enter('[', maxDepth); err != nil {
		return err
	}
	for r.Kind() != ']' {
		value, err := r.Value()
		if err != nil {
			return err
		}
		yield(value)
	}
	return r.leave()
}

var readers = sync.Pool{New: func() any { return NewReader() }}

func open(src []byte) *Reader {
	r := readers.Get().(*Reader)
	r.Open(src)
	return r
}

func (r *Reader) release() {
	r.Close()
	readers.Put(r)
}

// enter reads the bracket that begins a container of the kind, whose members or elements may nest
// maxDepth deep.
func (r *Reader) enter(kind byte, maxDepth int) error {
	if err := r.within(maxDepth+1, maxDepth); err != nil {
		return err
	}
	if r.Kind() == kind {
		return r.Bracket()
	}
	if _, err := r.Value(); err != nil {
		return err
	}
	if err := r.End(); err != nil {
		return err
	}
	return ErrKind
}

// leave reads the bracket that ends the container, and demands that nothing follows it.
func (r *Reader) leave() error {
	if err := r.Bracket(); err != nil {
		return err
	}
	return r.End()
}

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

// Value reads the next value, or name of a member, in full.
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

// Unquote returns the text of a valid JSON string. It aliases quoted if that has no escapes.
func Unquote(quoted []byte) []byte {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1]
	}
	// its errors are those of strings that are not valid
	text, _ := jsontext.AppendUnquote(nil, quoted)
	return text
}

// AsString reads a string. It and the functions below take valid JSON without surrounding white
// space, or nothing for what is absent, which is of no kind.
func AsString(value []byte) (string, bool) {
	if len(value) == 0 || value[0] != '"' {
		return "", false
	}
	return string(Unquote(value)), true
}

// maxStrings is how many strings a list of them may have, above all lists that anything here takes.
const maxStrings = 10_000

// AsStrings reads an array of at most 10,000 strings.
func AsStrings(value []byte) ([]string, bool) {
	list, ok := make([]string, 0, 4), true
	err := EachElement(value, len(value), func(element []byte) {
		if ok = ok && len(list) < maxStrings; ok {
			var s string
			s, ok = AsString(element)
			list = append(list, s)
		}
	})
	return list, ok && err == nil
}

// AsInteger reads a number that is spelt as an integer from 0 to 2⁶³-1.
func AsInteger(value []byte) (int64, bool) {
	if len(value) == 0 || value[0] < '0' || value[0] > '9' {
		return 0, false
	}
	n, err := strconv.ParseInt(string(value), 10, 64)
	return n, err == nil
}

// TooDeep is the reason of the fault that a container nests deeper than maxDepth.
func TooDeep(maxDepth int) string { return "nested deeper than " + strconv.Itoa(maxDepth) }

// within demands that the containers of src, which is not read yet, nest at most limit deep. It
// says where they do not as nested deeper than reported.
func (r *Reader) within(limit, reported int) error {
	if !deeper(r.src, limit) {
		return nil
	}
	for {
		if _, err := r.dec.ReadToken(); err != nil {
			return asError(err)
		}
		switch r.dec.StackDepth() {
		case 0:
			return r.End() // deeper counted what follows the value
		case limit + 1:
			return r.Fault(TooDeep(reported))
		}
	}
}

// deeper reports whether the containers of src nest deeper than limit. Where src is not valid it
// may be wrong in either way.
func deeper(src []byte, limit int) bool {
	// These two answer for most of what is read, at a fraction of the cost of the third.
	if len(src) <= limit || bytes.Count(src, []byte("{"))+bytes.Count(src, []byte("[")) <= limit {
		return false
	}
	depth, inString := 0, false
	for i := 0; i < len(src); i++ {
		switch b := src[i]; {
		case inString && b == '\\':
			i++
		case b == '"':
			inString = !inString
		case inString:
		case b == '{' || b == '[':
			if depth++; depth > limit {
				return true
			}
		case b == '}' || b == ']':
			depth--
		}
	}
	return false
}

// Error has the position and the reason of a refusal. It contains the names of members on the path
// to that position, and a few characters of the text there.
type Error struct {
	// a JSON Pointer (RFC 6901) to the member or element at fault; "" is the whole value. A long
	// one is cut and ends in …
	Pointer string
	Reason  string // at most a few hundred bytes
}

// Error reads well after a word such as malformed.
func (e *Error) Error() string {
	if e.Pointer == "" {
		return "JSON: " + e.Reason
	}
	return "JSON at " + strconv.Quote(e.Pointer) + ": " + e.Reason
}

// Within is e as seen from a value that has the refused one at pointer.
func (e *Error) Within(pointer string) *Error { return newError(pointer+e.Pointer, e.Reason) }

// newError cuts the pointer, which is as long as the names in it are.
func newError(pointer, reason string) *Error {
	const most, cut = 256, "…"
	if len(pointer) > most+len(cut) {
		pointer = strings.ToValidUTF8(pointer[:most], "") + cut
	}
	return &Error{pointer, reason}
}

// asError translates what the decoder says.
func asError(err error) *Error {
	var syntax *jsontext.SyntacticError
	if !errors.As(err, &syntax) {
		return &Error{Reason: "there is no value"} // io.EOF: nothing else can fail in memory
	}
	reason := strings.TrimPrefix(syntax.Err.Error(), "jsontext: ")
	if errors.Is(syntax.Err, io.ErrUnexpectedEOF) {
		reason = "unexpected end"
	}
	return newError(string(syntax.JSONPointer), reason+" (byte "+strconv.FormatInt(syntax.ByteOffset, 10)+")")
}
