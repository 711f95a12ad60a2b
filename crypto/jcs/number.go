package jcs

import (
	"bytes"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// appendNumber appends the ECMAScript form of the valid JSON number lexeme. exact says whether both have the same
// decimal value; without that dst is returned as it was.
func appendNumber(dst, lexeme []byte) (_ []byte, exact bool) {
	const safe = 15 // digits that every double keeps
	if len(lexeme) <= safe && isPlainInteger(lexeme) {
		return append(dst, lexeme...), true
	}
	// ParseFloat is linear in the lexeme, whatever the exponent. It misreads exponents of six digits and more, which can
	// only matter where as many zeros make up for them; the comparison below then refuses what it made of them.
	f, err := strconv.ParseFloat(string(lexeme), 64)
	if err != nil { // out of range: every JSON number is one for ParseFloat
		return dst, false
	}
	if f == 0 {
		f = 0 // RFC 8785 writes -0 as 0
	}
	n := len(dst)
	dst = jsontext.AppendFloat(dst, f, 64)
	if form := dst[n:]; !bytes.Equal(form, lexeme) && !parseDecimal(form).equal(parseDecimal(lexeme)) {
		return dst[:n], false
	}
	return dst, true
}

// isPlainInteger reports whether the valid lexeme is digits with perhaps a sign, and not -0.
func isPlainInteger(lexeme []byte) bool {
	for _, c := range lexeme {
		if (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return string(lexeme) != "-0"
}

// decimal is the exact value of a number's spelling: ±0.d₁d₂d₃… × 10^exp with d₁ and the last digit not 0.
// It refers to the spelling and is never expanded, so a huge exponent costs nothing.
type decimal struct {
	neg    bool
	digits []byte // may hold one '.'; empty for zero
	exp    int64
}

func parseDecimal(lexeme []byte) decimal {
	var d decimal
	if lexeme[0] == '-' {
		d.neg, lexeme = true, lexeme[1:]
	}
	mantissa := lexeme
	if e := bytes.IndexAny(lexeme, "eE"); e >= 0 {
		mantissa = lexeme[:e]
		d.exp = parseExponent(lexeme[e+1:])
	}
	first, last := bytes.IndexAny(mantissa, "123456789"), bytes.LastIndexAny(mantissa, "123456789")
	if first < 0 {
		return decimal{} // zero, with whatever sign and exponent
	}
	point := bytes.IndexByte(mantissa, '.')
	if point < 0 {
		point = len(mantissa)
	}
	d.digits = mantissa[first : last+1]
	d.exp += int64(point - first)
	if first > point {
		d.exp++ // the point itself is no digit
	}
	return d
}

// parseExponent reads an exponent, held within ±10^15: far beyond what the digits of any input could make up for.
func parseExponent(s []byte) int64 {
	const limit = 1e15
	neg := s[0] == '-'
	if neg || s[0] == '+' {
		s = s[1:]
	}
	var n int64
	for _, c := range s {
		n = min(n*10+int64(c-'0'), limit)
	}
	if neg {
		return -n
	}
	return n
}

func (d decimal) equal(other decimal) bool {
	if d.neg != other.neg || d.exp != other.exp {
		return false
	}
	a, b := d.digits, other.digits
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0] == '.':
			a = a[1:]
		case b[0] == '.':
			b = b[1:]
		case a[0] != b[0]:
			return false
		default:
			a, b = a[1:], b[1:]
		}
	}
	return len(a) == len(b) // both are used up: neither ends in a point
}

// inexact is the reason given for a number that no double holds. A long lexeme is cut.
func inexact(lexeme []byte) string {
	const most = 64
	quoted, cut := lexeme, ""
	if len(quoted) > most {
		quoted, cut = quoted[:most], "…"
	}
	return "number " + string(quoted) + cut + " does not survive as an IEEE 754 double; send it as a string"
}
