package attestd

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"unicode/utf16"
)

// replacement replaces what is not a character.
const replacement = "\uFFFD"

// wellFormed replaces, in a JSON text, bytes that are not UTF-8 and escaped surrogates without
// their other half. All else stays byte for byte.
func wellFormed(text []byte) []byte {
	text = bytes.ToValidUTF8(text, []byte(replacement))
	if !bytes.Contains(text, []byte(`\u`)) {
		return text
	}
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text); {
		unit, escaped := escapedUnit(text[i:])
		switch {
		case !escaped && text[i] == '\\' && i+1 < len(text):
			out = append(out, text[i:i+2]...)
			i += 2
		case !escaped:
			out = append(out, text[i])
			i++
		case !utf16.IsSurrogate(unit):
			out = append(out, text[i:i+6]...)
			i += 6
		default:
			second, _ := escapedUnit(text[i+6:])
			if utf16.DecodeRune(unit, second) != '\uFFFD' { // no pair decodes to that
				out = append(out, text[i:i+12]...)
				i += 12
				continue
			}
			out = append(out, `\ufffd`...)
			i += 6
		}
	}
	return out
}

// escapedUnit reads the \uXXXX that text begins with.
func escapedUnit(text []byte) (unit rune, ok bool) {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	return rune(n), err == nil
}

// wellFormedText is the same for text that is not JSON.
func wellFormedText(s string) string { return strings.ToValidUTF8(s, replacement) }

// marshal is json.Marshal, but that it leaves <, > and & as they are: what is recorded should read
// as it was written. JSON that is at hand already stays byte for byte.
func marshal(v any) ([]byte, error) {
	if raw, ok := v.(json.RawMessage); ok {
		if !json.Valid(raw) {
			return nil, errors.New("not JSON")
		}
		return raw, nil
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
