package attack

import (
	"encoding/base64"
	"fmt"
	"strings"
)

// forms returns tokens with valid contents in an invalid encoding, because RFC 7515 §7.1 allows
// only one.
func (t thief) forms(k kind) (list []forgery) {
	add := func(name, token string) { list = append(list, forgery{name, token}) }
	parts := strings.Split(k.good, ".")
	head, body, sig := parts[0], parts[1], parts[2]
	for name, token := range map[string]string{
		"nothing": "", "a dot": ".", "two dots": "..", "one part": head, "two parts": head + "." + body,
		"no signature": head + "." + body + ".",
		"no header":    "." + body + "." + sig, "no claims": head + ".." + sig, "four parts": k.good + "." + sig,
		"five parts, as in JWE": k.good + "." + sig + "." + sig,
		"a dot before":          "." + k.good, "a dot after": k.good + ".", "Bearer before": "Bearer " + k.good, "in quotes": `"` +
			k.good + `"`, "twice": k.good + "," + k.good,
		"a no-break space after": k.good + "\u00a0", "a byte order mark before": "\ufeff" + k.good,
		"dots of another kind": strings.ReplaceAll(k.good, ".", "。"),
		"dots as %2E":          strings.ReplaceAll(k.good, ".", "%2E"), "in upper case": strings.ToUpper(k.good),
		"encoded again":      encode([]byte(k.good)),
		"as JSON, flattened": string(marshal(object{"protected": head, "payload": body, "signature": sig})),
		"as JSON, general": string(marshal(object{"payload": body,
			"signatures": []any{object{"protected": head, "signature": sig}}})),
		"parts in another order": body + "." + head + "." + sig,
		"nested, as cty JWT":     signed(t.own, marshal(k.header), []byte(k.good)),
	} {
		add(name, token)
	}
	for _, tail := range []string{" ", "\t", "\n", "\r\n", "\x00", "=", "==", "A", "AAAA", "%", "#x", "?x", ";x"} {
		add(fmt.Sprintf("%q after", tail), k.good+tail)
		add(fmt.Sprintf("%q before", tail), tail+k.good)
		for i := range parts {
			spoilt := append([]string(nil), parts...)
			spoilt[i] += tail
			if i < 2 {
				add(fmt.Sprintf("%q after part %d", tail, i+1), strings.Join(spoilt, "."))
			}
			spoilt[i] = parts[i][:9] + tail + parts[i][9:]
			add(fmt.Sprintf("%q within part %d", tail, i+1), strings.Join(spoilt, "."))
		}
	}
	// The last character of each part has unused bits if its length is not a multiple of four; they
	// must be zero.
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	for i, part := range parts {
		if len(part)%4 == 0 {
			continue
		}
		spoilt := append([]string(nil), parts...)
		last := len(part) - 1
		spoilt[i] = part[:last] + string(alphabet[strings.IndexByte(alphabet, part[last])|1])
		if spoilt[i] != part {
			add(fmt.Sprintf("stray bits in part %d", i+1), strings.Join(spoilt, "."))
		}
	}
	for i := range parts {
		spoilt := append([]string(nil), parts...)
		bytes, _ := base64.RawURLEncoding.DecodeString(parts[i]) // it is valid
		spoilt[i] = base64.URLEncoding.EncodeToString(bytes)
		if spoilt[i] != parts[i] {
			add(fmt.Sprintf("part %d padded", i+1), strings.Join(spoilt, "."))
		}
		spoilt[i] = base64.RawStdEncoding.EncodeToString(append(bytes, 0xfb, 0xff, 0xbf))
		add(fmt.Sprintf("part %d in the other alphabet", i+1), strings.Join(spoilt, "."))
	}
	header, claims := string(marshal(k.header)), string(marshal(k.claims))
	open := strings.TrimSuffix(claims, "}")
	texts := map[string][2]string{
		"an empty header": {"", claims}, "empty claims": {header, ""}, "a header that is null": {"null", claims},
		"claims that are null": {header, "null"},
		"a header in an array": {"[" + header + "]", claims}, "claims in an array": {header, "[" + claims + "]"},
		"a header and more": {header + "{}", claims},
		"claims and more":   {header, claims + " 1"}, "a header cut off": {header[:len(header)-1], claims},
		"claims cut off":        {header, open},
		"claims with a comment": {header, open + "/**/}"}, "claims with a comma too many": {header, open + ",}"},
		"claims with NaN":                 {header, open + `,"x":NaN}`},
		"claims with invalid UTF-8":       {header, open + ",\"x\":\"\xff\"}"},
		"claims with a lone surrogate":    {header, open + `,"x":"\ud800"}`},
		"claims with a byte order mark":   {header, "\ufeff" + claims},
		"a header with a byte order mark": {"\ufeff" + header, claims},
		"a token of 17 KB":                {header, open + `,"x":"` + strings.Repeat("x", 13<<10) + `"}`},
		"a token of 900 KB":               {header, open + `,"x":"` + strings.Repeat("x", 600<<10) + `"}`},
		"claims with any member twice":    {header, open + `,"x":{"y":1,"y":2}}`},
		"claims as a text":                {header, string(marshal(claims))},
	}
	for name, text := range texts {
		add(name, signed(t.own, []byte(text[0]), []byte(text[1])))
	}
	return list
}
