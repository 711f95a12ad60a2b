package jcs

import (
	"bytes"
	"cmp"

	"github.com/go-json-experiment/json/jsontext"
)

// AppendString appends the canonical form of the string s, which must be valid UTF-8.
func AppendString[Text string | []byte](dst []byte, s Text) []byte {
	// its only error is invalid UTF-8, which it replaces by U+FFFD
	dst, _ = jsontext.AppendQuote(dst, s)
	return dst
}

// appendString appends the canonical form of the valid JSON string raw. Without an escape it has
// that form already.
func appendString(dst, raw []byte) []byte {
	if bytes.IndexByte(raw, '\\') < 0 {
		return append(dst, raw...)
	}
	text, _ := jsontext.AppendUnquote(make([]byte, 0, 128), raw)
	dst, _ = jsontext.AppendQuote(dst, text)
	return dst
}

// compareUTF16 compares valid UTF-8 strings by their UTF-16 code units. That is the order of the
// bytes, except that the surrogates of a character beyond U+FFFF (first byte F0 and up) stand
// before U+E000–U+FFFF (EE and EF).
func compareUTF16(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if x, y := a[i], b[i]; x != y {
			if min(x, y) >= 0xEE && (x >= 0xF0) != (y >= 0xF0) {
				x, y = y, x
			}
			return cmp.Compare(x, y)
		}
	}
	return cmp.Compare(len(a), len(b))
}
