// Package jcs writes JSON in the canonical form of RFC 8785 (JSON Canonicalization Scheme), and
// refuses values that the form cannot represent without loss.
//
// In the canonical form
//
//   - there is no white space outside strings;
//   - members of an object are sorted by the UTF-16 code units of their names (section 3.2.3);
//   - strings have only the escapes that JSON requires: \" \\ \b \t \n \f \r, and \u00xx for the
//     other controls; everything else is plain UTF-8 (section 3.2.2.2);
//   - numbers are spelled as ECMAScript's Number.prototype.toString does (section 3.2.2.3).
//
// RFC 8785 reads every number as an IEEE 754 double and so would write 12345678901234567890 as
// 12345678901234567000. Here that is an error, because the hash would cover another value than the
// caller's. A number is accepted if its decimal value is that of its canonical spelling, like 4.50,
// 1e2 and 0.1.
package jcs

// Append appends to dst the canonical form of src, which MUST have exactly one JSON value, and
// returns the result. It refuses, with a *strictjson.Error, what the form cannot represent without
// loss: syntax errors, duplicate keys, invalid UTF-8, lone surrogates, numbers whose decimal value
// is not that of their ECMAScript form (12345678901234567890, 1e400, 1e-400), and containers nested
// deeper than maxDepth. After an error the result is dst.
//
// Time is O(n log n) in len(src) for any input at a fixed maxDepth. dst and src must not overlap.
func Append(dst, src []byte, maxDepth int) ([]byte, error) {
	w := writers.Get().(*writer)
	defer w.release()
	w.open(dst, src, maxDepth)
	if err := w.value(0); err != nil {
		return dst, err
	}
	if err := w.in.End(); err != nil {
		return dst, err
	}
	return w.dst, nil
}
