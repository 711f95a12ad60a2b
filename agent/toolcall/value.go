package toolcall

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"attestd/crypto/jcs"
	"attestd/crypto/strictjson"
)

// maxDepth is the maximum nesting depth of a value; a server accepts 128 in all.
const maxDepth = 64

// maxHead is the maximum size in bytes of a recorded beginning.
const maxHead = 1 << 10

// value returns the recorded form of a JSON value, or nil for an absent one.
func (p Policy) value(raw json.RawMessage, hashed bool) []byte {
	if len(raw) == 0 {
		return nil
	}
	canonical, err := jcs.Append(nil, sanitize(raw, false), maxDepth)
	if err != nil { // it is not JSON, or has no canonical form
		return p.text(string(raw), hashed)
	}
	return p.bound(canonical, hashed)
}

// text returns the recorded form of a text, or nil for an empty one.
func (p Policy) text(s string, hashed bool) []byte {
	if s == "" {
		return nil
	}
	return p.bound(appendText(nil, mask(s)), hashed)
}

// NamesSecret reports whether everything below a name is masked.
func NamesSecret(name string) bool { return secretName.MatchString(name) }

// Member returns the recorded form of a JSON value, of which everything is masked if it is below
// the name of a secret. With hashed it is its hash and size.
func (p Policy) Member(raw json.RawMessage, secret, hashed bool) []byte {
	if !secret {
		return p.value(raw, hashed)
	}
	canonical, err := jcs.Append(nil, sanitize(raw, true), maxDepth)
	if err != nil {
		return appendText(nil, masked)
	}
	return p.bound(canonical, hashed)
}

// MemberText is Member for a text.
func (p Policy) MemberText(s string, secret, hashed bool) []byte {
	switch {
	case s == "":
		return []byte(`""`)
	case secret:
		return appendText(nil, masked)
	}
	return p.text(s, hashed)
}

// bound returns the canonical value, or its hash and size if it is too long or redacted.
func (p Policy) bound(canonical []byte, hashed bool) []byte {
	limit := p.Limit
	if limit == 0 {
		limit = DefaultLimit
	}
	if !hashed && len(canonical) <= limit {
		return canonical
	}
	sum := sha256.Sum256(canonical)
	short := []byte(`{"sha256":"` + hex.EncodeToString(sum[:]) + `","bytes":` + strconv.Itoa(len(canonical)))
	if !hashed {
		head, isText := strictjson.AsString(canonical)
		if !isText {
			head = string(canonical)
		}
		short = appendText(append(short, `,"head":`...), cut(head, min(maxHead, limit)))
	}
	return append(short, '}')
}

// sanitize rewrites a JSON value well-formed and masked. secret says that it is below the name of a
// secret. It returns nil for a value that it cannot parse.
func sanitize(raw []byte, secret bool) []byte {
	m := sanitizer{dec: jsontext.NewDecoder(bytes.NewBuffer(raw), jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))}
	if !m.value(0, secret) {
		return nil
	}
	if _, err := m.dec.ReadToken(); err == nil { // something follows the value
		return nil
	}
	return m.dst
}

type sanitizer struct {
	dec *jsontext.Decoder
	dst []byte

	// inKey says that a private key has begun and not ended. An array may contain one line by line,
	// as in a patch. All strings up to its end, or the end of the array, are masked.
	inKey bool

	// the strings of this array so far: a secret follows an option such as --password
	command command
}

// value writes the next value, which is nested in depth containers. secret says that it is below a
// name such as password.
func (m *sanitizer) value(depth int, secret bool) bool {
	switch kind := m.dec.PeekKind(); kind {
	case '{', '[':
		if depth == maxDepth {
			return false
		}
		if _, err := m.dec.ReadToken(); err != nil {
			return false
		}
		if kind == '{' {
			return m.object(depth+1, secret)
		}
		return m.array(depth+1, secret)
	case '"':
		s, ok := m.read()
		if !ok {
			return false
		}
		m.dst = appendText(m.dst, m.mask(s, secret))
		return true
	case '0':
		if secret {
			m.dst = appendText(m.dst, masked)
			return m.dec.SkipValue() == nil
		}
	}
	m.command.before = ""
	raw, err := m.dec.ReadValue()
	if err != nil {
		return false
	}
	if _, err := jcs.Append(nil, raw, 0); err != nil { // a number that no double can represent
		m.dst = appendText(m.dst, cut(string(raw), maxName))
		return true
	}
	m.dst = append(m.dst, raw...)
	return true
}

func (m *sanitizer) object(depth int, secret bool) bool {
	outer := m.command
	m.dst = append(m.dst, '{')
	for first := true; m.dec.PeekKind() != '}'; first = false {
		name, ok := m.read()
		if !ok {
			return false
		}
		if !first {
			m.dst = append(m.dst, ',')
		}
		m.dst = append(appendText(m.dst, mask(name)), ':')
		m.command = command{}
		if !m.value(depth, secret || secretName.MatchString(name)) {
			return false
		}
	}
	m.command = command{curl: outer.curl}
	m.dst = append(m.dst, '}')
	_, err := m.dec.ReadToken()
	return err == nil
}

func (m *sanitizer) array(depth int, secret bool) bool {
	outer := m.command
	m.command = command{}
	m.dst = append(m.dst, '[')
	for first := true; m.dec.PeekKind() != ']'; first = false {
		if !first {
			m.dst = append(m.dst, ',')
		}
		if !m.value(depth, secret) {
			return false
		}
	}
	m.inKey, m.command = false, command{curl: outer.curl}
	m.dst = append(m.dst, ']')
	_, err := m.dec.ReadToken()
	return err == nil
}

// mask masks the secrets in a string, or all of it if secret is set or a private key continues in
// it.
func (m *sanitizer) mask(s string, secret bool) string {
	within := m.inKey
	m.inKey = endsInKey(s, within)
	shown := m.command.mask(s)
	if s != "" && (within || secret) {
		return masked
	}
	return shown
}

// read reads the next string or member name.
func (m *sanitizer) read() (string, bool) {
	raw, err := m.dec.ReadValue()
	if err != nil || len(raw) == 0 || raw[0] != '"' {
		return "", false
	}
	// The error reports malformed text, which is replaced.
	text, _ := jsontext.AppendUnquote(nil, raw)
	return string(text), true
}
