package cred

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// reader reads one JSON object or array. The decoder is strict by default: it refuses duplicate members at any depth,
// invalid UTF-8 and lone surrogates.
type reader struct {
	dec *jsontext.Decoder // reads in
	in  bytes.Buffer      // over src; the decoder reads its bytes in place
	src []byte
}

var readers = sync.Pool{New: func() any {
	r := new(reader)
	r.dec = jsontext.NewDecoder(&r.in)
	return r
}}

var errNotOne = errors.New("cred: not exactly one JSON value of the kind that is due")

// eachMember calls yield for every member of the object src, in order, with its unquoted name and its value as it is
// spelt in src. When it returns an error, yield may have seen members already: the caller must drop what it kept.
func eachMember(src []byte, yield func(name, value []byte)) error {
	r, err := openReader(src, '{')
	defer r.release()
	if err != nil {
		return err
	}
	for r.dec.PeekKind() != '}' {
		name, err := r.value()
		if err != nil {
			return err
		}
		value, err := r.value()
		if err != nil {
			return err
		}
		if name, err = unquote(name); err != nil {
			return err
		}
		yield(name, value)
	}
	return r.end()
}

// eachElement calls yield for every element of the array src, in order, as it is spelt there.
func eachElement(src []byte, yield func(value []byte)) error {
	r, err := openReader(src, '[')
	defer r.release()
	if err != nil {
		return err
	}
	for r.dec.PeekKind() != ']' {
		value, err := r.value()
		if err != nil {
			return err
		}
		yield(value)
	}
	return r.end()
}

func openReader(src []byte, kind jsontext.Kind) (*reader, error) {
	r := readers.Get().(*reader)
	r.in, r.src = *bytes.NewBuffer(src), src
	if r.dec.PeekKind() != kind {
		return r, errNotOne
	}
	_, err := r.dec.ReadToken()
	return r, err
}

// release gives r back without a reference to what it read.
func (r *reader) release() {
	r.in, r.src = bytes.Buffer{}, nil
	r.dec.Reset(&r.in)
	readers.Put(r)
}

func (r *reader) value() ([]byte, error) {
	value, err := r.dec.ReadValue()
	if err != nil {
		return nil, err
	}
	// value is only valid until the next read, its place in src for longer.
	end := r.dec.InputOffset()
	return r.src[end-int64(len(value)) : end], nil
}

func (r *reader) end() error {
	if _, err := r.dec.ReadToken(); err != nil {
		return err
	}
	if _, err := r.dec.ReadToken(); err != io.EOF {
		return errNotOne
	}
	return nil
}

// unquote returns what the valid JSON string quoted says, in place where it has no escape.
func unquote(quoted []byte) ([]byte, error) {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1], nil
	}
	return jsontext.AppendUnquote(nil, quoted)
}

// asString reads a string. It and the functions below take valid JSON, or nil for what is absent.
func asString(value []byte) (string, bool) {
	if len(value) == 0 || value[0] != '"' {
		return "", false
	}
	s, err := unquote(value)
	return string(s), err == nil
}

// asStrings reads an array of strings.
func asStrings(value []byte) ([]string, bool) {
	list, ok := make([]string, 0, 4), true
	err := eachElement(value, func(element []byte) {
		s, isString := asString(element)
		list, ok = append(list, s), ok && isString
	})
	return list, ok && err == nil
}

// asInteger reads a number that is spelt as an integer from 0 up.
func asInteger(value []byte) (int64, bool) {
	if len(value) == 0 || value[0] < '0' || value[0] > '9' {
		return 0, false
	}
	n, err := strconv.ParseInt(string(value), 10, 64)
	return n, err == nil
}

// asTime reads a NumericDate in whole seconds, up to the year 9999.
func asTime(value []byte) (int64, bool) {
	const last = 253402300799
	n, ok := asInteger(value)
	return n, ok && n <= last
}
