package toolcall

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

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
	canonical, err := jcs.Append(nil, p.sanitize(raw, notSecret), maxDepth)
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
	return p.bound(appendText(nil, p.mask(s)), hashed)
}

// Member returns the recorded form of a JSON value, of which everything is masked if it is below
// the name of a secret. With hashed it is its hash and size.
func (p Policy) Member(raw json.RawMessage, secret, hashed bool) []byte {
	if !secret {
		return p.value(raw, hashed)
	}
	canonical, err := jcs.Append(nil, p.sanitize(raw, isPassword), maxDepth)
	if err != nil {
		return appendText(nil, p.masked(string(raw)))
	}
	return p.bound(canonical, hashed)
}

// MemberText is Member for a text.
func (p Policy) MemberText(s string, secret, hashed bool) []byte {
	switch {
	case s == "":
		return []byte(`""`)
	case secret:
		return appendText(nil, p.member("", s, isPassword))
	}
	return p.text(s, hashed)
}

// member masks the text of a member of JSON with a name, or below the name of a secret. Unlike in
// a text, the secret's end is known here. So it may hold signs of a shell, unless it reads like a
// command.
func (p Policy) member(name, s string, secret strength) string {
	if lower := strings.ToLower(name); strings.HasSuffix(lower, "authorization") || strings.HasSuffix(lower, "cookie") {
		head := name + ": "
		if spans := within(find(head+s), len(head)); spans != nil {
			return replace(s, spans, p.masked)
		}
	}
	if secret > notSecret && isMemberSecret(secret, s) && !isCommand(s) {
		return p.masked(s)
	}
	return p.mask(s)
}

// within returns the spans behind a place, as they are from there on.
func within(spans []span, at int) (rest []span) {
	for _, s := range spans {
		if s.start >= at {
			rest = append(rest, span{s.start - at, s.end - at, s.quote})
		}
	}
	return rest
}

// isCommand reports whether a text may be a command of a shell: it has a sign that ends a command
// beside white space, or what a shell replaces.
func isCommand(s string) bool {
	if strings.Contains(s, "${") || strings.Contains(s, "$(") || strings.ContainsAny(s, "\n\r`") {
		return true
	}
	return shellEnd(s) < len(s) && strings.ContainsAny(s, " \t")
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
func (p Policy) sanitize(raw []byte, secret strength) []byte {
	m := sanitizer{policy: p, dec: jsontext.NewDecoder(bytes.NewBuffer(raw), jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))}
	if !m.value(0, "", secret) {
		return nil
	}
	if _, err := m.dec.ReadToken(); err == nil { // something follows the value
		return nil
	}
	return m.dst
}

type sanitizer struct {
	policy  Policy
	dec     *jsontext.Decoder
	dst     []byte
	program string // the member command of this object
}

// value writes the next value, which is nested in depth containers and has a name, if it is a
// member. secret says that it is below a name such as password.
func (m *sanitizer) value(depth int, name string, secret strength) bool {
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
		m.dst = appendText(m.dst, m.policy.member(name, s, secret))
		return true
	}
	raw, err := m.dec.ReadValue()
	if err != nil {
		return false
	}
	if _, err := jcs.Append(nil, raw, 0); err != nil { // a number that no double can represent
		m.dst = appendText(m.dst, m.policy.member(name, cut(string(raw), maxName), secret))
		return true
	}
	if raw[0] != 'n' && raw[0] != 't' && raw[0] != 'f' && secret >= isToken && len(raw) > 3 {
		m.dst = appendText(m.dst, m.policy.masked(string(raw)))
		return true
	}
	m.dst = append(m.dst, raw...)
	return true
}

func (m *sanitizer) object(depth int, secret strength) bool {
	program := m.program
	m.program = ""
	var beside strength // of the value that another member names
	m.dst = append(m.dst, '{')
	for first := true; m.dec.PeekKind() != '}'; first = false {
		name, ok := m.read()
		if !ok {
			return false
		}
		if !first {
			m.dst = append(m.dst, ',')
		}
		m.dst = append(appendText(m.dst, m.policy.mask(name)), ':')
		own := nameStrength(name)
		if own < isToken && isValueName(name) {
			own = max(own, beside)
		}
		if own == notSecret && m.dec.PeekKind() == '"' && isJWKMember(name) {
			own = isKeyPart
		}
		if m.dec.PeekKind() == '"' && secret == notSecret && own == notSecret {
			s, ok := m.read()
			if !ok {
				return false
			}
			if isLabelName(name) {
				beside = max(beside, labelStrength(s))
			}
			if name == "command" || name == "cmd" || name == "program" || name == "executable" {
				m.program = s
			}
			m.dst = appendText(m.dst, m.policy.member(name, s, notSecret))
			continue
		}
		below := max(secret, own)
		if isCommandName(name) {
			below = own
		}
		if !m.value(depth, name, below) {
			return false
		}
	}
	m.program = program
	m.dst = append(m.dst, '}')
	_, err := m.dec.ReadToken()
	return err == nil
}

// array writes an array. Its strings may be the arguments of a program, or the lines of a file, so
// they are masked together at its end.
func (m *sanitizer) array(depth int, secret strength) bool {
	program := m.program
	m.program = ""
	m.dst = append(m.dst, '[')
	var texts []string
	var places []int // of the texts in dst
	for first := true; m.dec.PeekKind() != ']'; first = false {
		if !first {
			m.dst = append(m.dst, ',')
		}
		if secret == notSecret && m.dec.PeekKind() == '"' {
			s, ok := m.read()
			if !ok {
				return false
			}
			texts, places = append(texts, s), append(places, len(m.dst))
			continue
		}
		if !m.value(depth, "", secret) {
			return false
		}
	}
	if texts != nil {
		if strings.ContainsAny(program, " \t\n") {
			program = ""
		}
		rest := slices.Clone(m.dst[places[0]:])
		begin := places[0]
		m.dst = m.dst[:begin]
		done := 0
		for i, text := range m.policy.list(program, texts) {
			m.dst = append(m.dst, rest[done:places[i]-begin]...)
			m.dst = appendText(m.dst, text)
			done = places[i] - begin
		}
		m.dst = append(m.dst, rest[done:]...)
	}
	m.program = program
	m.dst = append(m.dst, ']')
	_, err := m.dec.ReadToken()
	return err == nil
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
