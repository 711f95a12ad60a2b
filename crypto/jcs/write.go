package jcs

import (
	"bytes"
	"io"
	"slices"
	"strconv"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// writer makes one pass over a value: it writes each token as it reads it, and when an object ends whose members
// came in another order, it moves their finished spellings into place. An object inside k unsorted objects is
// moved k times, so maxDepth bounds the work.
//
// The decoder, in its default mode, is the one that refuses duplicate names, invalid UTF-8 and lone surrogates.
type writer struct {
	dec      *jsontext.Decoder // reads in
	in       bytes.Buffer      // over src; the decoder reads its bytes in place
	src      []byte
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

var writers = sync.Pool{New: func() any {
	w := new(writer)
	w.dec = jsontext.NewDecoder(&w.in)
	return w
}}

func (w *writer) reset(dst, src []byte, maxDepth int) {
	w.in = *bytes.NewBuffer(src)
	w.src, w.dst, w.maxDepth = src, dst, maxDepth
}

// release gives w back without any reference to the caller's memory, and without buffers that one large value grew.
func (w *writer) release() {
	const keep = 1 << 10 // members; a value of one attestation has a few dozen
	w.src, w.dst, w.in = nil, nil, bytes.Buffer{}
	w.dec.Reset(&w.in)
	clear(w.members) // after an error; else it is empty
	w.members = w.members[:0]
	if cap(w.members) > keep {
		w.members = nil
	}
	if cap(w.scratch) > 64*keep {
		w.scratch = nil
	}
	writers.Put(w)
}

// value writes the next value, which stands inside depth containers.
func (w *writer) value(depth int) error {
	switch w.dec.PeekKind() {
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
	raw, err := w.dec.ReadValue()
	if err != nil {
		return asError(err)
	}
	switch raw.Kind() {
	case '"':
		w.dst = appendString(w.dst, raw)
	case '0':
		var exact bool
		if w.dst, exact = appendNumber(w.dst, raw); !exact {
			return w.fault(inexact(raw))
		}
	default:
		w.dst = append(w.dst, raw...) // null, true, false
	}
	return nil
}

func (w *writer) array(depth int) error {
	if _, err := w.dec.ReadToken(); err != nil {
		return asError(err)
	}
	w.dst = append(w.dst, '[')
	for first := true; w.dec.PeekKind() != ']'; first = false {
		if !first {
			w.dst = append(w.dst, ',')
		}
		if err := w.value(depth); err != nil {
			return err
		}
	}
	if _, err := w.dec.ReadToken(); err != nil {
		return asError(err)
	}
	w.dst = append(w.dst, ']')
	return nil
}

func (w *writer) object(depth int) error {
	if _, err := w.dec.ReadToken(); err != nil {
		return asError(err)
	}
	w.dst = append(w.dst, '{')
	bottom, sorted := len(w.members), true
	for w.dec.PeekKind() != '}' {
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
	if _, err := w.dec.ReadToken(); err != nil {
		return asError(err)
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
	m := member{start: len(w.dst)}
	raw, err := w.dec.ReadValue()
	if err != nil {
		return m, asError(err)
	}
	// raw is only valid until the next read, its place in src for longer.
	end := w.dec.InputOffset()
	raw = jsontext.Value(w.src[end-int64(len(raw)) : end])
	if bytes.IndexByte(raw, '\\') < 0 {
		m.name = raw[1 : len(raw)-1]
	} else if m.name, err = jsontext.AppendUnquote(nil, raw); err != nil {
		return m, asError(err)
	}
	w.dst = append(appendString(w.dst, raw), ':')
	return m, nil
}

// sort puts the spellings of members, which stand together in dst, in the order of their names.
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

// end refuses anything but white space after the value.
func (w *writer) end() error {
	_, err := w.dec.ReadToken()
	switch {
	case err == nil:
		return &Error{Reason: "there is more than one value"}
	case err == io.EOF:
		return nil
	default:
		return asError(err)
	}
}

// fault is an error at the value just read.
func (w *writer) fault(reason string) *Error {
	return &Error{Pointer: string(w.dec.StackPointer()), Reason: reason}
}

func (w *writer) tooDeep() error {
	if _, err := w.dec.ReadToken(); err != nil { // so that the pointer is that of the container
		return asError(err)
	}
	return w.fault("nested deeper than " + strconv.Itoa(w.maxDepth) + " levels")
}
