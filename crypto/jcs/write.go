package jcs

import (
	"slices"
	"sync"

	"attestd/crypto/strictjson"
)

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
	const keep = 1 << 10 // members; a value of one attestation has a few dozen
	w.in.Close()
	w.dst = nil
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

func (w *writer) tooDeep() error {
	if err := w.in.Bracket(); err != nil { // so that the place is that of the container
		return err
	}
	return w.in.Fault(strictjson.TooDeep(w.maxDepth))
}
