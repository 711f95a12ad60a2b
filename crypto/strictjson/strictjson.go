// Package strictjson reads JSON that a stranger wrote. It takes RFC 8259 and nothing beside it, and
// of that it refuses what two readers may understand in two ways:
//
//   - a member name that occurs twice in one object, in whatever spelling, at any depth;
//   - bytes that are no UTF-8, and escapes of lone surrogates, in names and in strings;
//   - anything but white space after the value;
//   - containers nested deeper than the caller allows.
//
// Values are given as they are spelt in the source, of which they are sub-slices: nothing is
// copied, and a number keeps the digits that it was sent with. The source must not change while
// they are used.
package strictjson

import (
	"errors"
	"sync"
)

// ErrKind says that the source holds one sound value, and that it is of another kind than the one
// that was asked for.
var ErrKind = errors.New("JSON of another kind")

// EachMember calls yield for every member of the object src, in order, with its unquoted name and
// its value as it is spelt in src. Each value may nest maxDepth deep. An error is an *Error, or
// ErrKind where src is no object. When there is one, yield may have seen members already: the
// caller must drop what it kept.
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

// EachElement calls yield for every element of the array src, in order, as it is spelt there. All
// else is as for EachMember.
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
