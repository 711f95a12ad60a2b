package mask

import (
	"bytes"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"attestd/crypto/jcs"
)

// MaxDepth is the maximum nesting depth of a JSON value; a server accepts 128 in all.
const MaxDepth = 64

// maxNumber is the maximum size in bytes of a number that no double can represent. The rest of a
// longer one is left out.
const maxNumber = 256

// JSON returns a JSON value well-formed and with its secrets masked. It returns nil for what is no
// JSON value, or nests deeper than MaxDepth. Members keep their order and may be duplicated.
func (k Key) JSON(raw []byte) []byte { return k.json(raw, notSecret) }

// SecretJSON is JSON for a value that the name of a secret announces: all texts and numbers in it
// that can be secrets are masked in full.
func (k Key) SecretJSON(raw []byte) []byte { return k.json(raw, isPassword) }

// SecretText is Text for a text that the name of a secret announces: it is masked in full, unless
// it may be a command.
func (k Key) SecretText(text string) string { return k.member("", text, isPassword) }

// json masks a value. secret says that it is below the name of a secret.
func (k Key) json(raw []byte, secret strength) []byte {
	m := sanitizer{key: k, dec: jsontext.NewDecoder(bytes.NewBuffer(raw), jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))}
	if !m.value(0, "", secret) {
		return nil
	}
	if _, err := m.dec.ReadToken(); err == nil { // something follows the value
		return nil
	}
	return m.dst
}

// member masks the text of a member of JSON with a name, or below the name of a secret. Unlike in
// a text, the secret's end is known here. So it may hold signs of a shell, unless it reads like a
// command.
func (k Key) member(name, s string, secret strength) string {
	if lower := strings.ToLower(name); strings.HasSuffix(lower, "authorization") || strings.HasSuffix(lower, "cookie") {
		head := name + ": "
		if spans := within(find(head+s), len(head)); spans != nil {
			return replace(s, spans, k.Replacement)
		}
	}
	if secret > notSecret && isMemberSecret(secret, s) && !isCommand(s) {
		return k.Replacement(s)
	}
	return k.Text(s)
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
// apart from white space, or what a shell expands.
func isCommand(s string) bool {
	if strings.Contains(s, "${") || strings.Contains(s, "$(") || strings.ContainsAny(s, "\n\r`") {
		return true
	}
	return shellEnd(s) < len(s) && strings.ContainsAny(s, " \t")
}

type sanitizer struct {
	key     Key
	dec     *jsontext.Decoder
	dst     []byte
	program string // the member command of this object
}

// value writes the next value, which is nested in depth containers and has a name, if it is a
// member. secret says that it is below a name such as password.
func (m *sanitizer) value(depth int, name string, secret strength) bool {
	switch kind := m.dec.PeekKind(); kind {
	case '{', '[':
		if depth == MaxDepth {
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
		m.dst = jcs.AppendString(m.dst, m.key.member(name, s, secret))
		return true
	}
	raw, err := m.dec.ReadValue()
	if err != nil {
		return false
	}
	if _, err := jcs.Append(nil, raw, 0); err != nil { // a number that no double can represent
		m.dst = jcs.AppendString(m.dst, m.key.member(name, string(raw[:min(len(raw), maxNumber)]), secret))
		return true
	}
	if raw[0] != 'n' && raw[0] != 't' && raw[0] != 'f' && secret >= isToken && len(raw) > 3 {
		m.dst = jcs.AppendString(m.dst, m.key.Replacement(string(raw)))
		return true
	}
	m.dst = append(m.dst, raw...)
	return true
}

func (m *sanitizer) object(depth int, secret strength) bool {
	program := m.program
	m.program = ""
	var labelled strength // of the value that another member names
	m.dst = append(m.dst, '{')
	for first := true; m.dec.PeekKind() != '}'; first = false {
		name, ok := m.read()
		if !ok {
			return false
		}
		if !first {
			m.dst = append(m.dst, ',')
		}
		m.dst = append(jcs.AppendString(m.dst, m.key.Text(name)), ':')
		own := nameStrength(name)
		if own < isToken && isValueName(name) {
			own = max(own, labelled)
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
				labelled = max(labelled, labelStrength(s))
			}
			if name == "command" || name == "cmd" || name == "program" || name == "executable" {
				m.program = s
			}
			m.dst = jcs.AppendString(m.dst, m.key.member(name, s, notSecret))
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
		for i, text := range m.key.list(program, texts) {
			m.dst = append(m.dst, rest[done:places[i]-begin]...)
			m.dst = jcs.AppendString(m.dst, text)
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
