package jcs

import (
	"bytes"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// appendNumber appends the ECMAScript form of the valid JSON number lexeme. It refuses a number
// whose decimal value that form does not have: it then says why, and dst is returned as it was.
func appendNumber(dst, lexeme []byte) (_ []byte, refusal string) {
	const safe = 15 // digits that every double keeps
	if len(lexeme) <= safe && isPlainInteger(lexeme) {
		return append(dst, lexeme...), ""
	}
	if f, err := strconv.ParseFloat(string(lexeme), 64); err == nil {
		n := len(dst)
		dst = appendFloat(dst, f)
		if form := dst[n:]; bytes.Equal(form, lexeme) || parseDecimal(form).equal(parseDecimal(lexeme)) {
			return dst, ""
		}
		dst = dst[:n]
	}
	return appendRare(dst, lexeme)
}

// appendRare does the same for what is almost certainly refused. ParseFloat misreads an exponent of
// six digits and more, which matters only where as many zeros make up for it, so it is asked again
// with the point before the first digit.
func appendRare(dst, lexeme []byte) (_ []byte, refusal string) {
	exact := parseDecimal(lexeme)
	f, err := exact.float()
	if err != nil { // every JSON number is one for ParseFloat
		return dst, "number " + brief(lexeme) + " is beyond the range of an IEEE 754 double; send it as a string"
	}
	form := appendFloat(nil, f)
	switch {
	case exact.equal(parseDecimal(form)):
		return append(dst, form...), ""
	case exact.equal(parseDecimal(strconv.AppendFloat(nil, f, 'e', doubleDigits-1, 64))):
		return dst, "number " + brief(lexeme) + " is an IEEE 754 double whose canonical form has other digits, " + string(form) +
			"; send those, or send it as a string"
	default:
		return dst, "number " + brief(lexeme) + " does not survive as an IEEE 754 double; send it as a string"
	}
}

// doubleDigits is how many significant digits the exact value of a double has at most.
const doubleDigits = 767

// appendFloat appends the ECMAScript form of f.
func appendFloat(dst []byte, f float64) []byte {
	if f == 0 {
		f = 0 // RFC 8785 writes -0 as 0
	}
	return jsontext.AppendFloat(dst, f, 64)
}

// brief is a lexeme for a message: a long one is cut.
func brief(lexeme []byte) string {
	const most = 64
	if len(lexeme) > most {
		return string(lexeme[:most]) + "…"
	}
	return string(lexeme)
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

// decimal is the exact value of a number's spelling: ±0.d₁d₂d₃… × 10^exp with d₁ and the last digit
// not 0. It refers to the spelling and is never expanded, so a huge exponent costs nothing.
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

// parseExponent reads an exponent, held within ±10^15: far beyond what the digits of any input
// could make up for.
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

// float returns the double nearest to d, or an error where d is out of range. The first digit
// directly follows the point, so an exponent too long for ParseFloat leads out of range or to 0
// however it is read.
func (d decimal) float() (float64, error) {
	if len(d.digits) == 0 {
		return 0, nil
	}
	spelling := make([]byte, 0, len(d.digits)+24)
	if d.neg {
		spelling = append(spelling, '-')
	}
	spelling = append(spelling, "0."...)
	for _, c := range d.digits {
		if c != '.' {
			spelling = append(spelling, c)
		}
	}
	spelling = strconv.AppendInt(append(spelling, 'e'), d.exp, 10)
	return strconv.ParseFloat(string(spelling), 64)
}
