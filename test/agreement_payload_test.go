package test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
)

// plainPayloads are values at the edges of what JSON, JavaScript and Unicode can express. RFC 8785
// preserves each without loss.
func plainPayloads() []string {
	values := []string{
		`null`, `true`, `false`, `""`, `{}`, `[]`, `[[]]`, `[{}]`, `{"":{"":{}}}`, "\t[ 1 ,\r\n 2 ]", `{ "b" : 1, "a" : 2 }`,
		// Names that one language or another sorts, retains or drops wrongly.
		`{"9":1,"10":2,"1":3,"-1":4,"01":5,"1e1":6}`,
		`{"__proto__":{"x":1},"constructor":null,"prototype":2,"toString":3,"hasOwnProperty":4,"length":5,"toJSON":6,"valueOf":7}`,
		`{"\u20ac":1,"\r":2,"\ufb33":3,"1":4,"\ud83d\ude00":5,"\u0080":6,"\u00f6":7}`,
		`{"😀":"astral","ﬀ":"later in UTF-16, earlier in UTF-8","דּ":0,"𐀀":1,"\uffff":2}`,
		`{"e\u0301":"decomposed","\u00e9":"composed"}`,
		`{"A":1,"a":2,"B":3,"b":4,"_":5,"aa":6,"a ":7," a":8}`,
		`{"hash":"0","signature":"x","index":-1,"timestamp":0,"payload":{"payload":null},"delegation":null}`,
		// Strings: every escape, what must be escaped, what need not be, and what must never be.
		`"\"\\\/\b\f\n\r\t\u0000\u001f\u007f\u0080\u2028\u2029\ufeff\ufffe\uffff"`,
		"\"\u007f\u0080\u2028\u2029\ufeff\ufffe\uffff\"",
		`"\u003cscript>&amp;</script> \u0026 |"`,
		`"\ud83d\ude00 \uD834\uDD1E 😀 𝄞 \u00E9 é é"`,
		`"ﷺ 한국어 日本語 العربية עברית ไทย 👩‍👩‍👧‍👦 🇨🇭"`,
		`"` + strings.Repeat("long ", 4000) + `"`,
		strings.Repeat("[", 100) + strings.Repeat("]", 100),
		strings.Repeat(`{"a":`, 100) + "0" + strings.Repeat("}", 100),
	}
	numbers := []string{
		"0", "-0", "0.0", "-0.0", "0e5", "-0E-999", "1", "-1", "10", "1.0", "1e0", "100e-2", "1E+2", "4.50", "0.1", "-0.1", "1e-1",
		"4.35", "0.3", "0.30000000000000004", "333333333.3333333", "1e23", "9.999999999999997e22", "1.0000000000000001e23", "1e-27", "295147905179352830000",
		"999999999999999900000", "123456789012345680000", "1e20", "1e21", "-1e21", "1.5e21", "1000000000000000000000", "1e22",
		"0.000001", "1e-6", "0.0000001", "1e-7", "1.5e-7", "-0.0000033333333333",
		"9007199254740991", "-9007199254740991", "9007199254740992", "-9007199254740992", "9007199254740994", "2251799813685248.5",
		"9223372036854776000", "18446744073709552000", "1152921504606847000",
		"5e-324", "-5e-324", "1e-323", "1.5e-323", "2.225073858507201e-308", "2.2250738585072014e-308", "0.000005e-318",
		"1.7976931348623157e308", "-1.7976931348623157E+308", "17976931348623157e292", "8.98846567431158e307",
	}
	return append(append(values, numbers...), "["+strings.Join(numbers, ", ")+"]")
}

// payloads makes random JSON texts of every shape.
type payloads struct{ *rand.Rand }

// value returns a random value that is no deeper than depth.
func (p payloads) value(depth int) string {
	kind := p.IntN(9)
	if depth == 0 {
		kind = p.IntN(5)
	}
	switch kind {
	case 0:
		return []string{"null", "true", "false"}[p.IntN(3)]
	case 1, 2:
		return p.number()
	case 3, 4:
		return p.quoted(p.text())
	case 5, 6:
		items := make([]string, p.IntN(5))
		for i := range items {
			items[i] = p.space() + p.value(depth-1) + p.space()
		}
		return "[" + strings.Join(items, ",") + "]"
	default:
		seen := map[string]bool{}
		var members []string
		for range p.IntN(7) {
			name := p.name()
			if !seen[name] {
				members = append(members, p.space()+p.quoted(name)+p.space()+":"+p.space()+p.value(depth-1)+p.space())
			}
			seen[name] = true
		}
		return "{" + strings.Join(members, ",") + "}"
	}
}

func (p payloads) space() string { return []string{"", "", "", " ", "\n", "\t", "\r\n "}[p.IntN(7)] }

// number returns a random double, of the magnitudes that are and are not written with an exponent,
// in a random spelling that keeps its decimal value.
func (p payloads) number() string {
	f := math.Float64frombits(p.Uint64())
	switch p.IntN(5) {
	case 0:
		f = float64(p.Int64N(1<<54) - 1<<53)
	case 1:
		f = p.NormFloat64() * math.Pow10(p.IntN(50)-25)
	case 2:
		f = math.Float64frombits(p.Uint64() & (1<<52 - 1)) // subnormal
	}
	if math.IsNaN(f) || math.IsInf(f, 0) {
		f = 0
	}
	switch p.IntN(4) {
	case 0:
		return strconv.FormatFloat(f, 'E', -1, 64)
	case 1:
		if math.Abs(f) < 1e30 && math.Abs(f) > 1e-30 {
			return strconv.FormatFloat(f, 'f', -1, 64)
		}
	case 2:
		digits, exponent, _ := strings.Cut(strconv.FormatFloat(f, 'e', -1, 64), "e")
		if !strings.Contains(digits, ".") {
			digits += "."
		}
		return digits + "000e" + exponent
	}
	return strconv.FormatFloat(f, 'g', -1, 64)
}

func (p payloads) name() string {
	known := []string{"", "9", "10", "__proto__", "constructor", "a", "A", "é", "e\u0301", "😀", "\ufb33", "\U00010000", "\uffff", "\x00", "\n", `"`, `\`}
	if i := p.IntN(2 * len(known)); i < len(known) {
		return known[i]
	}
	return p.text()
}

func (p payloads) text() string {
	var b strings.Builder
	for range p.IntN(12) {
		switch r := rune(0); p.IntN(6) {
		case 0:
			b.WriteRune(rune(p.IntN(0x20)))
		case 1, 2:
			b.WriteRune(' ' + rune(p.IntN(0x5f)))
		case 3:
			b.WriteRune(0x80 + rune(p.IntN(0x780)))
		default:
			for r == 0 || r >= 0xd800 && r < 0xe000 {
				r = rune(p.IntN(0x110000))
			}
			b.WriteRune(r)
		}
	}
	return b.String()
}

// quoted writes a text with escapes here and there, those of JSON and those of UTF-16.
func (p payloads) quoted(text string) string {
	b := []byte{'"'}
	for _, r := range text {
		switch {
		case r == '"' || r == '\\' || r == '/' && p.IntN(2) == 0:
			b = append(b, '\\', byte(r))
		case strings.ContainsRune("\b\f\n\r\t", r) && p.IntN(2) == 0:
			b = append(b, '\\', "btn?fr"[r-'\b'])
		case r < 0x20 || r < 0x10000 && p.IntN(5) == 0:
			b = fmt.Appendf(b, []string{`\u%04x`, `\u%04X`}[p.IntN(2)], r)
		case p.IntN(3) == 0 && r >= 0x10000:
			b = fmt.Appendf(b, `\u%04x\u%04X`, 0xd800+(r-0x10000)>>10, 0xdc00+(r-0x10000)&0x3ff)
		default:
			b = fmt.Append(b, string(r))
		}
	}
	return string(append(b, '"'))
}
