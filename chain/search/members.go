package search

import (
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
