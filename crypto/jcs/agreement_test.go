package jcs_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"

	cyberphone "github.com/cyberphone/json-canonicalization/go/src/webpki.org/jsoncanonicalizer"
	gowebpki "github.com/gowebpki/jcs"
	"pgregory.net/rapid"

	"attestd/crypto/jcs"
)

// Two other implementations give the same bytes for documents with every kind of spelling.
func TestAgreement(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		doc := []byte(drawDocument(t))
		got, err := jcs.Append(nil, doc, maxDepth)
		if err != nil {
			t.Fatalf("%s: %v", doc, err)
		}
		for name, transform := range map[string]func([]byte) ([]byte, error){
			"gowebpki": gowebpki.Transform, "cyberphone": cyberphone.Transform,
		} {
			want, err := transform(doc)
			if err != nil || !bytes.Equal(got, want) {
				t.Fatalf("%s\nours:  %s\n%s: %s, %v", doc, got, name, want, err)
			}
		}
	})
}

// A number passes exactly when its value, computed with big rationals, is the value of the form
// that is written; a refusal says what is true of it.
func TestNumbersAgainstRationals(t *testing.T) {
	t.Parallel()
	number := rapid.Custom(func(t *rapid.T) string {
		s := rapid.SampledFrom([]string{"", "-"}).Draw(t, "sign")
		s += rapid.StringMatching(`(0|[1-9][0-9]{0,20})(\.[0-9]{1,20}0{0,5})?`).Draw(t, "mantissa")
		if rapid.Bool().Draw(t, "has exponent") {
			s += rapid.SampledFrom([]string{"e", "E", "e+", "E-", "e-0"}).Draw(t, "e")
			s += strconv.Itoa(rapid.IntRange(0, 350).Draw(t, "exponent"))
		}
		return s
	})
	rapid.Check(t, func(t *rapid.T) {
		lexeme := number.Draw(t, "number")
		f, inRange := strconv.ParseFloat(lexeme, 64)
		survives := inRange == nil && rational(lexeme).Cmp(rational(strconv.FormatFloat(f, 'g', -1, 64))) == 0

		double := inRange == nil && rational(lexeme).Cmp(new(big.Rat).SetFloat64(f)) == 0

		form, err := jcs.Append(nil, []byte(lexeme), 0)
		if (err == nil) != survives {
			t.Fatalf("%s: %s, %v; its value survives: %v", lexeme, form, err, survives)
		}
		if err != nil && strings.Contains(err.Error(), "is an IEEE 754 double") != double || err != nil && strings.Contains(err.Error(), "beyond the range") != (inRange != nil) {
			t.Fatalf("%s: %v", lexeme, err)
		}
		if survives && rational(string(form)).Cmp(rational(lexeme)) != 0 {
			t.Fatalf("%s has become %s", lexeme, form)
		}
	})
}

// Members are in the order of their names' UTF-16 code units.
func TestOrderOfKeys(t *testing.T) {
	t.Parallel()
	// Characters on both sides of each border that matters.
	name := rapid.StringOfN(rapid.RuneFrom([]rune("aAé0\x00\"\\\ud7ff\ue000\uffff\U00010000\U0010ffff")), 0, 4, -1)
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfNDistinct(name, 1, 30, rapid.ID[string]).Draw(t, "names")
		var doc, want []string
		for _, s := range names {
			doc = append(doc, string(jcs.AppendString(nil, s))+":0")
		}
		slices.SortFunc(names, func(a, b string) int {
			return slices.Compare(utf16.Encode([]rune(a)), utf16.Encode([]rune(b)))
		})
		for _, s := range names {
			want = append(want, string(jcs.AppendString(nil, s))+":0")
		}
		got, err := jcs.Append(nil, []byte("{"+strings.Join(doc, ",")+"}"), 1)
		if wanted := "{" + strings.Join(want, ",") + "}"; err != nil || string(got) != wanted {
			t.Fatalf("got  %s, %v\nwant %s", got, err, wanted)
		}
	})
}

func rational(number string) *big.Rat {
	r, ok := new(big.Rat).SetString(number)
	if !ok {
		panic("not a number: " + number)
	}
	return r
}

// drawDocument draws an object or array in a spelling that is not canonical: white space, escapes
// that are not needed, numbers with zeros and exponents.
func drawDocument(t *rapid.T) string {
	space := rapid.SampledFrom([]string{"", "", "", " ", "\n\t", "\r "})
	text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "9", "10", "__proto__", "é", "😀", "\uffff", "\ue000", "\x1f\"\\/"}))
	number := rapid.OneOf(
		rapid.Map(rapid.Float64(), func(f float64) string { return strconv.FormatFloat(f, 'e', -1, 64) }),
		rapid.Map(rapid.Float64Range(-1e6, 1e6), func(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }),
		rapid.Map(rapid.Int64Range(-1<<53, 1<<53), func(n int64) string { return strconv.FormatInt(n, 10) }),
		rapid.Map(rapid.IntRange(-999, 999), func(n int) string { return strconv.Itoa(n) + ".50E-3" }),
		rapid.SampledFrom([]string{"-0", "0.0", "1e2", "1E+2", "9007199254740992", "1e23", "5e-324", "0.000001", "1e-7", "1e21"}),
	)
	var value func(depth int) string
	list := func(depth int, open, end string, element func() string, n int) string {
		parts := make([]string, n)
		for i := range parts {
			parts[i] = space.Draw(t, "space") + element()
		}
		return open + strings.Join(parts, ",") + space.Draw(t, "space") + end
	}
	array := func(depth int) string {
		return list(depth, "[", "]", func() string { return value(depth + 1) }, rapid.IntRange(0, 4).Draw(t, "elements"))
	}
	object := func(depth int) string {
		names := rapid.SliceOfNDistinct(text, 0, 6, rapid.ID[string]).Draw(t, "names")
		next := 0
		return list(depth, "{", "}", func() string {
			next++
			return drawQuoted(t, names[next-1]) + space.Draw(t, "space") + ":" + value(depth+1)
		}, len(names))
	}
	value = func(depth int) string {
		kind := rapid.IntRange(0, 5).Draw(t, "kind")
		if depth > 4 {
			kind %= 4
		}
		switch kind {
		case 0:
			return rapid.SampledFrom([]string{"null", "true", "false"}).Draw(t, "literal")
		case 1, 2:
			return number.Draw(t, "number")
		case 3:
			return drawQuoted(t, text.Draw(t, "text"))
		case 4:
			return array(depth)
		default:
			return object(depth)
		}
	}
	if rapid.Bool().Draw(t, "object") {
		return space.Draw(t, "space") + object(0)
	}
	return array(0) + space.Draw(t, "space")
}

// drawQuoted quotes s and escapes some characters that need no escape.
func drawQuoted(t *rapid.T, s string) string {
	if rapid.Bool().Draw(t, "plain") {
		quoted, err := json.Marshal(s) // escapes <, >, & and U+2028 too
		if err != nil {
			t.Fatal(err)
		}
		return string(quoted)
	}
	var b strings.Builder
	b.WriteByte('"')
	for _, unit := range utf16.Encode([]rune(s)) {
		fmt.Fprintf(&b, `\u%04X`, unit)
	}
	b.WriteByte('"')
	return b.String()
}
