package search

import (
	"bytes"

	"attestd/crypto/jcs"
	"attestd/crypto/strictjson"
)

// in reports whether each part holds in a JSON value. It reads the value at most once for each
// part, with a reader that it makes where there is none.
func (m *Members) in(value []byte, reader **strictjson.Reader) (bool, error) {
	for i := range m.parts {
		if p := &m.parts[i]; !p.isPossible(value) {
			return false, nil
		}
	}
	if *reader == nil {
		*reader = strictjson.NewReader()
	}
	r := *reader
	defer r.Close()
	for i := range m.parts {
		r.Close()
		r.Open(value)
		holds, err := m.parts[i].holds(r)
		if !holds || err != nil {
			return false, err
		}
	}
	return true, nil
}

// isPossible returns false if a value lacks a text that the part demands, which takes a fraction of
// the time of reading it. A value with escapes may spell each text in several ways.
func (p *memberPart) isPossible(value []byte) bool {
	if bytes.IndexByte(value, '\\') >= 0 {
		return true
	}
	for _, name := range p.path {
		if name.index < 0 && !bytes.Contains(value, name.quoted) {
			return false
		}
	}
	return p.value[0] != '"' || bytes.Contains(value, p.value)
}

// holds reports whether the next value of r has the scalar at the path. It reads no further than it
// must.
func (p *memberPart) holds(r *strictjson.Reader) (bool, error) {
	for _, name := range p.path {
		var found bool
		var err error
		switch r.Kind() {
		case '{':
			found, err = enterMember(r, name.text)
		case '[':
			found, err = enterElement(r, name.index)
		}
		if !found || err != nil {
			return false, err
		}
	}
	if kind := r.Kind(); kind == '{' || kind == '[' {
		return false, nil
	}
	value, err := r.Value()
	if err != nil {
		return false, err
	}
	canonical, err := jcs.Append(nil, value, 0)
	return bytes.Equal(canonical, p.value), err
}

// enterMember reads an object up to the value of a member.
func enterMember(r *strictjson.Reader, name string) (found bool, err error) {
	if err := r.Bracket(); err != nil {
		return false, err
	}
	for r.Kind() != '}' {
		quoted, err := r.Value()
		if err != nil {
			return false, err
		}
		if string(strictjson.Unquote(quoted)) == name {
			return true, nil
		}
		if _, err := r.Value(); err != nil {
			return false, err
		}
	}
	return false, nil
}

// enterElement reads an array up to the element with an index.
func enterElement(r *strictjson.Reader, index int) (found bool, err error) {
	if index < 0 {
		return false, nil
	}
	if err := r.Bracket(); err != nil {
		return false, err
	}
	for ; r.Kind() != ']'; index-- {
		if index == 0 {
			return true, nil
		}
		if _, err := r.Value(); err != nil {
			return false, err
		}
	}
	return false, nil
}
