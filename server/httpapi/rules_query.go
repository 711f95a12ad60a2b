package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"attestd/crypto/strictjson"
	"attestd/store"
)

// notEmpty is for parameters that bear on rights: an empty value does not count as an absent one.
func notEmpty(v value, into reflect.Value) error {
	text, ok := v.text, v.text != ""
	if v.From == "json" {
		v.given = !IsAbsent(v.json)
		text, ok = AsText(v.json)
	}
	switch {
	case !v.given:
		return nil
	case !ok && v.From == "json":
		return Invalid(v.Name, "must be a string that is not empty")
	case !ok:
		return BadQuery(v.Name + " is empty: leave it out, or give it a value")
	case into.Kind() == reflect.Pointer:
		into.Set(reflect.ValueOf(&text))
	default:
		into.SetString(text)
	}
	return nil
}

func fingerprint(v value, into reflect.Value) error {
	wrong := func(r rune) bool { return !strings.ContainsRune("0123456789abcdef", r) }
	if v.given && (len(v.text) != 16 || strings.ContainsFunc(v.text, wrong)) {
		return Fail(http.StatusBadRequest, "Invalid query parameter: "+v.Name+" must be a fingerprint, 16 hex digits in lower case")
	}
	into.SetString(v.text)
	return nil
}

// oneOf reads one of a few words, of the query or of the body.
func oneOf(v value, into reflect.Value) error {
	text, given, what := v.text, v.given, "Invalid query parameter: "
	if v.From == "json" {
		text, _ = AsText(v.json)
		given, what = !IsAbsent(v.json), "Invalid field: "
	}
	words := strings.Fields(v.argument)
	if given && !slices.Contains(words, text) {
		last := len(words) - 1
		return Fail(http.StatusBadRequest, what+v.Name+" must be "+strings.Join(words[:last], ", ")+" or "+words[last])
	}
	into.SetString(text)
	return nil
}

func logName(v value, into reflect.Value) error {
	name := store.LogName(v.text)
	if !v.given {
		name = store.Actions
	}
	if name != store.Actions && name != store.Control {
		return Fail(http.StatusBadRequest, "Invalid query parameter: "+v.Name+" must be actions or control")
	}
	into.SetString(string(name))
	return nil
}

// key reads an idempotency key: in a header bare or as a quoted string (RFC 8941 §3.3.3), which is
// the same key.
func key(v value, into reflect.Value) error {
	what, text, ok := "header", v.text, true
	if v.From == "json" {
		what, v.given = "field", !IsAbsent(v.json)
		text, ok = strictjson.AsString(v.json)
	} else if quoted, is := strings.CutPrefix(text, `"`); is {
		text, ok = unquoted(quoted)
	}
	if !v.given {
		return nil
	}
	for i := range len(text) {
		ok = ok && text[i] >= ' ' && text[i] <= '~'
	}
	if !ok || len(text) == 0 || len(text) > maxKey {
		return Fail(http.StatusBadRequest, fmt.Sprintf("Invalid %s: %s must have 1 to %d printable ASCII characters, bare or as a quoted string", what, v.Name, maxKey))
	}
	into.SetString(text)
	return nil
}

// maxKey is the length of an idempotency key.
const maxKey = 255

// unquoted reads the rest of a quoted string, after its first quote.
func unquoted(rest string) (text string, ok bool) {
	var b strings.Builder
	for i := 0; i < len(rest); i++ {
		switch {
		case rest[i] == '"':
			return b.String(), i == len(rest)-1
		case rest[i] != '\\':
			b.WriteByte(rest[i])
		case i+1 < len(rest) && (rest[i+1] == '"' || rest[i+1] == '\\'):
			i++
			b.WriteByte(rest[i])
		default:
			return "", false
		}
	}
	return "", false
}

// number reads a whole number; 60.0 and 6e1 are the number 60 in JSON, and not in a query.
func number(v value, into reflect.Value) error {
	what, written, given := "query parameter", v.text, v.given
	if v.From == "json" {
		what, given = "field", !IsAbsent(v.json)
		if f, err := jsonNumber(v.json); err == nil && f == float64(int64(f)) && f >= 0 {
			written = fmt.Sprint(int64(f))
		}
	}
	if !given {
		if written = v.Field.text; written == "" {
			return nil
		}
	}
	n, least, most, ok := parseInteger(written, v.argument)
	if !ok {
		return Fail(http.StatusBadRequest, fmt.Sprintf("Invalid %s: %s must be a whole number from %s to %s", what, v.Name, least, most))
	}
	into.SetInt(n)
	return nil
}

func jsonNumber(v jsontext.Value) (f float64, err error) {
	if v.Kind() != '0' {
		return 0, errors.New("not a number")
	}
	err = json.Unmarshal(v, &f)
	return f, err
}

func BadQuery(what string) error {
	return Fail(http.StatusBadRequest, "Invalid query parameter: "+what)
}
