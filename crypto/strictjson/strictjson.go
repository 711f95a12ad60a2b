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
	"errors"
	"sync"
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
