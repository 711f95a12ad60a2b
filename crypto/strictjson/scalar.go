package strictjson

import (
	"bytes"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// Unquote returns the text of a valid JSON string. It aliases quoted if that has no escapes.
func Unquote(quoted []byte) []byte {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1]
	}
	// its errors are those of strings that are not valid
	text, _ := jsontext.AppendUnquote(nil, quoted)
	return text
}

// AsString reads a string. It and the functions below take valid JSON as it stands between white
// space, or nothing for what is absent, which is of no kind.
func AsString(value []byte) (string, bool) {
	if len(value) == 0 || value[0] != '"' {
		return "", false
	}
	return string(Unquote(value)), true
}

// maxStrings is how many strings a list of them may have, above all lists that anything here takes.
const maxStrings = 10_000

// AsStrings reads an array of at most 10,000 strings.
func AsStrings(value []byte) ([]string, bool) {
	list, ok := make([]string, 0, 4), true
	err := EachElement(value, len(value), func(element []byte) {
		if ok = ok && len(list) < maxStrings; ok {
			var s string
			s, ok = AsString(element)
			list = append(list, s)
		}
	})
	return list, ok && err == nil
}

// AsInteger reads a number that is spelt as an integer from 0 to 2⁶³-1.
func AsInteger(value []byte) (int64, bool) {
	if len(value) == 0 || value[0] < '0' || value[0] > '9' {
		return 0, false
	}
	n, err := strconv.ParseInt(string(value), 10, 64)
	return n, err == nil
}
