package search

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"attestd/crypto/jcs"
	"attestd/crypto/strictjson"
)

// Members is a condition on members of a payload: each of its parts must hold. Its text has one to
// four parts with spaces between them:
//
//	part   path, an equals sign, value; nothing between them
//	path   one to sixteen names with a dot between them, each the name of a member, or the index of
//	       an element of an array
//	name   characters other than spaces, quotes, dots and equals signs; or a JSON string
//	value  a JSON number, true, false, null or string; or characters other than spaces and quotes,
//	       not beginning with { or [, which are a string
//
// So tool=Bash means the string, retries=3 the number, and retries="3" a string again. Values are
// equal if their canonical forms (RFC 8785) are, so 1.0 equals 1. No array and no object equals a
// value.
type Members struct {
	parts []memberPart
}

// memberPart demands a scalar at a path.
type memberPart struct {
	path  []memberName
	value []byte // in canonical form
}

type memberName struct {
	text   string
	quoted []byte // as a canonical JSON string
	index  int    // of an element; -1 if the text is no index
}

const (
	maxMembers    = 1024 // bytes of the text
	maxParts      = 4
	maxPathLength = 16 // names
)

// MembersError says what is wrong with the text of a condition on members.
type MembersError struct{ Reason string }

func (e *MembersError) Error() string { return e.Reason }

func badMembers(format string, about ...any) error {
	return &MembersError{fmt.Sprintf(format, about...)}
}

// ParseMembers parses a condition. The error is a *MembersError.
func ParseMembers(text string) (*Members, error) {
	if len(text) > maxMembers || !utf8.ValidString(text) {
		return nil, badMembers("it must have at most %d bytes, in UTF-8", maxMembers)
	}
	m := new(Members)
	for rest := strings.Trim(text, " "); rest != ""; rest = strings.TrimLeft(rest, " ") {
		if len(m.parts) == maxParts {
			return nil, badMembers("it has more than %d parts", maxParts)
		}
		var part memberPart
		var err error
		if part.path, rest, err = cutPath(rest); err != nil {
			return nil, err
		}
		if part.value, rest, err = cutScalar(rest); err != nil {
			return nil, err
		}
		m.parts = append(m.parts, part)
	}
	if len(m.parts) == 0 {
		return nil, badMembers("it must be as in tool=Bash")
	}
	return m, nil
}

// String returns the text in its one form: with each name and each string as a JSON string.
func (m *Members) String() string {
	var b strings.Builder
	for i := range m.parts {
		if i > 0 {
			b.WriteByte(' ')
		}
		for j, name := range m.parts[i].path {
			if j > 0 {
				b.WriteByte('.')
			}
			b.Write(name.quoted)
		}
		b.WriteByte('=')
		b.Write(m.parts[i].value)
	}
	return b.String()
}

// cutPath parses a path and the equals sign after it.
func cutPath(src string) (path []memberName, rest string, err error) {
	for {
		if len(path) == maxPathLength {
			return nil, "", badMembers("a path has more than %d names", maxPathLength)
		}
		text, quoted, rest, err := cutWord(src, `.= "`)
		if err != nil {
			return nil, "", err
		}
		if text == "" && !quoted {
			return nil, "", badMembers("a name is missing: write parts as in tool=Bash or input.command=ls, and names with other " +
				"characters as JSON strings")
		}
		path = append(path, memberName{text, jcs.AppendString(nil, text), indexIn(text)})
		switch {
		case strings.HasPrefix(rest, "="):
			return path, rest[1:], nil
		case !strings.HasPrefix(rest, "."):
			return nil, "", badMembers("after %s an equals sign and a value are missing, as in tool=Bash", path[len(path)-1].quoted)
		}
		src = rest[1:]
	}
}

// cutScalar parses a value, which ends at a space or at the end.
func cutScalar(src string) (canonical []byte, rest string, err error) {
	text, quoted, rest, err := cutWord(src, ` "`)
	switch {
	case err != nil:
		return nil, "", err
	case rest != "" && rest[0] != ' ':
		return nil, "", badMembers("a value with a quote or a space in it must be a JSON string, as in command=\"ls -l\"")
	case quoted:
		return jcs.AppendString(nil, text), rest, nil
	case text == "":
		return nil, "", badMembers(`a value is missing; the empty text is ""`)
	case text[0] == '{' || text[0] == '[':
		return nil, "", badMembers("a value must be a string, a number, true, false or null")
	}
	canonical, err = jcs.Append(nil, []byte(text), 0)
	if err == nil {
		return canonical, rest, nil
	}
	var refusal *strictjson.Error
	if errors.As(err, &refusal) && isNumber(text) { // which no payload can have
		return nil, "", badMembers("%s", refusal.Reason)
	}
	return jcs.AppendString(nil, text), rest, nil
}

// cutWord parses a JSON string, or the characters before the first of those in ends.
func cutWord(src, ends string) (text string, quoted bool, rest string, err error) {
	if !strings.HasPrefix(src, `"`) {
		at := strings.IndexAny(src, ends)
		if at < 0 {
			at = len(src)
		}
		for _, c := range src[:at] {
			if c < 0x20 {
				return "", false, "", badMembers("control characters must be written in JSON strings")
			}
		}
		return src[:at], false, src[at:], nil
	}
	end, _ := endOfText([]byte(src[1:]))
	if end < 0 {
		return "", true, "", badMembers("a JSON string has no closing quote")
	}
	literal := []byte(src[:end+2])
	canonical, err := jcs.Append(nil, literal, 0)
	if err != nil {
		return "", true, "", badMembers("%s is not a JSON string", literal)
	}
	return string(strictjson.Unquote(canonical)), true, src[end+2:], nil
}

// isNumber reports whether a text is a JSON number.
func isNumber(text string) bool {
	r := strictjson.NewReader()
	r.Open([]byte(text))
	defer r.Close()
	if r.Kind() != '0' {
		return false
	}
	_, err := r.Value()
	return err == nil && r.End() == nil
}

// indexIn returns the index that a name is of an element, or -1.
func indexIn(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || strconv.Itoa(n) != text {
		return -1
	}
	return n
}

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
