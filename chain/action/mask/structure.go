package mask

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// markup finds secrets in XML and HTML: <password>X</password>, and <input name="token" value="X">.
func (f *finder) markup() {
	const most = 512 // bytes of a tag
	for at := 0; ; {
		i := strings.IndexByte(f.text[at:], '<')
		if i < 0 {
			return
		}
		at += i + 1
		n := run(f.text[at:], charsets["dotted"], 80)
		if n == 0 {
			continue
		}
		limit := min(len(f.text), at+most)
		end := strings.IndexAny(f.text[at:limit], "><")
		if end < 0 || f.text[at+end] != '>' {
			continue
		}
		tag := f.text[at : at+end]
		if s := nameStrength(f.text[at : at+n]); s > notSecret {
			start := at + end + 1
			if close := strings.IndexByte(f.text[start:min(len(f.text), start+maxValue)], '<'); close > 0 &&
				strings.HasPrefix(f.text[start+close:], "</") {
				f.addIf(s, start, start+close, true, false)
			}
		}
		name, named := attribute(tag, " name=")
		if !named {
			name, named = attribute(tag, " id=")
		}
		if !named {
			name, named = attribute(tag, " key=")
		}
		if named {
			if value, ok := attribute(tag, " value="); ok {
				if s := nameStrength(name); s > notSecret {
					start := at + strings.Index(tag, " value=") + len(" value=") + 1
					f.addIf(s, start, start+len(value), true, false)
				}
			}
		}
	}
}

// attribute returns the value of an attribute of a tag.
func attribute(tag, name string) (string, bool) {
	_, rest, found := strings.Cut(tag, name)
	if !found || rest == "" || rest[0] != '"' && rest[0] != '\'' {
		return "", false
	}
	value, _, found := strings.Cut(rest[1:], rest[:1])
	return value, found
}

// tables finds secrets in columns with the names of secrets, under a line of dashes: the tables of
// psql, Markdown and others.
func (f *finder) tables() {
	type column struct {
		at int
		s  strength
	}
	var header string
	var columns []column
	f.lines(func(start, end int) {
		line := f.text[start:end]
		isRule := len(line) > 2 && strings.Trim(line, "-+|=: \t") == "" && strings.Contains(line, "--")
		switch {
		case isRule && header != "" && columns == nil:
			n := 0
			for cell := range strings.SplitSeq(header, "|") {
				if s := nameStrength(strings.TrimSpace(cell)); s > notSecret {
					columns = append(columns, column{n, s})
				}
				if n++; n > 64 {
					break
				}
			}
		case columns != nil && line != "" && !isRule:
			n, at := 0, start
			for cell := range strings.SplitSeq(line, "|") {
				for _, c := range columns {
					trimmed := strings.TrimSpace(cell)
					from := at + strings.Index(cell, trimmed)
					if c.at == n && trimmed != "" && (random(trimmed, 8) || c.s == isPassword &&
						tokenLike(trimmed, true)) {
						f.add(from, from+len(trimmed))
					}
				}
				at += len(cell) + 1
				n++
			}
		default:
			columns = nil
		}
		if !isRule {
			header = line
		}
	})
}

// manifests finds secrets whose name is in the line before: name and value of YAML, and all data of
// a Secret of Kubernetes.
func (f *finder) manifests() {
	isSecret := false // within a manifest of the kind Secret
	data := -1        // the indentation of data, or -1
	var named strength
	f.lines(func(start, end int) {
		line := f.text[start:end]
		trimmed := strings.TrimLeft(line, " \t")
		indent := len(line) - len(trimmed)
		trimmed = strings.TrimPrefix(trimmed, "- ")
		key, value, found := strings.Cut(trimmed, ":")
		value = strings.TrimSpace(value)
		at := start + strings.LastIndex(line, value)
		before := named
		named = notSecret
		switch {
		case line == "---":
			isSecret, data = false, -1
		case !found:
			return
		case indent == 0 && key == "kind":
			isSecret, data = value == "Secret", -1
		case indent == 0 && isSecret && (key == "data" || key == "stringData"):
			data = 0
		case indent == 0:
			data = -1
		case data >= 0 && indent > data && len(value) >= 6 && !placeholder(value):
			f.add(at, at+len(value))
		}
		value = strings.Trim(value, "\"'")
		switch {
		case key == "name" || key == "key" || key == "Name" || key == "Key":
			named = nameStrength(value)
		case (key == "value" || key == "Value") && before > notSecret && value != "":
			at = start + strings.LastIndex(line, value)
			f.addIf(before, at, at+len(value), true, true)
		}
	})
}

// json finds secrets in JSON within the text: all strings and numbers below the names of secrets,
// and the value that belongs to the name of one. What begins like JSON and is none costs a bounded
// number of bytes.
func (f *finder) json() {
	budget := 4*len(f.text) + 4096
	for at := 0; at < len(f.text) && budget > 0; {
		i := strings.IndexAny(f.text[at:], "{[")
		if i < 0 {
			return
		}
		at += i
		if !beginsJSON(f.text[at:]) {
			at++
			continue
		}
		r := jsonReader{f: f, base: at, dec: jsontext.NewDecoder(strings.NewReader(f.text[at:]), jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))}
		found := len(f.spans)
		ok := r.value(0, notSecret)
		n := int(r.dec.InputOffset())
		budget -= n + 64
		if !ok || n == 0 {
			f.spans = f.spans[:found]
			at++
			continue
		}
		at += n
	}
}

// beginsJSON reports whether a text begins as an object or an array with something in it does.
func beginsJSON(text string) bool {
	open := text[0]
	rest := strings.TrimLeft(text[1:min(len(text), 256)], " \t\r\n")
	if rest == "" {
		return false
	}
	return rest[0] == '"' || open == '[' && (rest[0] == '{' || rest[0] == '[')
}

// jsonReader reads one JSON value in a text.
type jsonReader struct {
	f    *finder
	base int
	dec  *jsontext.Decoder
}

// value reads the next value, which is below a name of some strength.
func (r *jsonReader) value(depth int, s strength) bool {
	kind := r.dec.PeekKind()
	switch kind {
	case '{', '[':
		if depth == MaxDepth {
			return false
		}
		if _, err := r.dec.ReadToken(); err != nil {
			return false
		}
		var labelled strength // of the member that holds a name
		for kind == '{' && r.dec.PeekKind() != '}' || kind == '[' && r.dec.PeekKind() != ']' {
			below := s
			if kind == '{' {
				name, err := r.dec.ReadToken()
				if err != nil || name.Kind() != '"' {
					return false
				}
				member := name.String()
				own := nameStrength(member)
				if own < isToken && isValueName(member) {
					own = max(own, labelled)
				}
				below = max(s, own)
				if isCommandName(member) {
					below = own
				}
				if below == notSecret && r.dec.PeekKind() == '"' && isJWKMember(member) {
					below = isKeyPart
				}
				if isLabelName(member) {
					if text, ok := r.label(); ok {
						labelled = labelStrength(text)
						continue
					}
				}
			}
			if !r.value(depth+1, below) {
				return false
			}
		}
		_, err := r.dec.ReadToken()
		return err == nil
	}
	raw, err := r.dec.ReadValue()
	if err != nil {
		return false
	}
	end := r.base + int(r.dec.InputOffset())
	start := end - len(raw)
	switch {
	case s == notSecret:
	case kind == '"' && len(raw) > 2:
		if v := string(raw[1 : len(raw)-1]); isMemberSecret(s, v) {
			r.f.add(start+1, end-1)
		}
	case kind == '0' && s >= isToken && len(raw) > 3:
		r.f.spans = append(r.f.spans, span{start, end, true})
	}
	return true
}

// label reads a string that may name another member's value.
func (r *jsonReader) label() (string, bool) {
	if r.dec.PeekKind() != '"' {
		return "", false
	}
	token, err := r.dec.ReadToken()
	if err != nil {
		return "", false
	}
	return token.String(), true
}

// isMemberSecret reports whether the value of a member, or a value below it, is a secret.
func isMemberSecret(s strength, v string) bool {
	switch {
	case placeholder(v):
		return false
	case s == isKeyPart:
		c := classesOf(v)
		return len(v) >= 40 && run(v, charsets["name"], len(v)) == len(v) && c.upper > 0 && c.lower > 0 && c.digit > 0
	case s == isPassword:
		return true
	case s == isToken:
		if scheme, rest, found := strings.Cut(v, " "); found && isScheme(scheme) {
			v = rest
		}
		return tokenLike(v, true)
	}
	return random(v, 8)
}

// isJWKMember reports whether a member of a JSON Web Key is a part of a private one (RFC 7518 §6).
func isJWKMember(name string) bool {
	switch name {
	case "d", "p", "q", "dp", "dq", "qi", "k":
		return true
	}
	return false
}

// isCommandName reports whether a member of an object holds what is run. It is never masked for the
// name of what is around it.
func isCommandName(name string) bool {
	switch name {
	case "command", "cmd", "program", "executable", "script", "code", "args", "argv", "arguments":
		return true
	}
	return false
}

// isLabelName reports whether a member of an object names the value of another member.
func isLabelName(name string) bool {
	switch name {
	case "name", "key", "label", "field", "header", "element", "selector", "Name", "Key", "id", "type", "Type",
		"variable", "ref":
		return true
	}
	return false
}

// isValueName reports whether a member of an object holds the value that another member names.
func isValueName(name string) bool {
	switch name {
	case "value", "text", "Value", "val", "content", "default", "data", "fill":
		return true
	}
	return false
}

// labelStrength returns what a label says of the value that it names. A label may be a selector or
// a description.
func labelStrength(text string) strength {
	if len(text) > maxSecretName {
		return notSecret
	}
	if text == "SecureString" {
		return isPassword
	}
	for field := range strings.FieldsFuncSeq(text, func(r rune) bool { return strings.ContainsRune(" #[]()=\"'>.", r) }) {
		if s := nameStrength(field); s >= isToken {
			return s
		}
	}
	return nameStrength(text)
}
