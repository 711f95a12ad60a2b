package search

import (
	"bytes"
	"errors"

	"github.com/go-json-experiment/json/jsontext"
)

var errText = errors.New("malformed string in the payload")

// containsText reports whether a string or a member name in a JSON value contains text, ignoring
// ASCII case. scratch is a reusable buffer.
func containsText(value []byte, text string, scratch *[]byte) (bool, error) {
	low := appendLower((*scratch)[:0], text)
	n := len(low)
	plain := bytes.IndexByte(value, '\\') < 0
	if plain {
		low = appendLower(low, value)
		*scratch = low
		at := bytes.Index(low[n:], low[:n])
		if at < 0 { // the usual case: the value does not contain it anywhere
			return false, nil
		}
		value = low[n:]
		low = low[:n:n]
	}
	for {
		start := bytes.IndexByte(value, '"')
		if start < 0 {
			return false, nil
		}
		value = value[start+1:]
		end, escaped := endOfText(value)
		if end < 0 {
			return false, errText
		}
		said := value[:end]
		value = value[end+1:]
		switch {
		case escaped:
			quoted := append(append([]byte{'"'}, said...), '"')
			var ok bool
			if said, ok = unescape(nil, quoted); !ok {
				return false, errText
			}
			lower(said)
		case !plain:
			said = appendLower(nil, said)
		}
		if bytes.Contains(said, low[:n]) {
			return true, nil
		}
	}
}

func unescape(dst, quoted []byte) ([]byte, bool) {
	said, err := jsontext.AppendUnquote(dst, quoted)
	return said, err == nil
}

func appendLower[T string | []byte](dst []byte, src T) []byte {
	at := len(dst)
	dst = append(dst, src...)
	lower(dst[at:])
	return dst
}

// lower converts ASCII letters to lower case.
func lower(text []byte) {
	for i, c := range text {
		if 'A' <= c && c <= 'Z' {
			text[i] = c | 0x20
		}
	}
}
