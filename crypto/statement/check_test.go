package statement_test

import (
	"encoding/base64"
	"slices"
	"strings"
	"testing"

	"attestd/crypto/jose"
	"attestd/crypto/jose/josetest"
	"attestd/crypto/statement"
)

// fault spoils a sound statement in one way.
type fault struct {
	name, code string
	spoil      func(draft)
}

func header(name string, value any) func(draft) { return func(d draft) { d.header[name] = value } }
func claim(name string, value any) func(draft)  { return func(d draft) { d.claims[name] = value } }
func without(names ...string) func(draft) {
	return func(d draft) {
		for _, name := range names {
			delete(d.claims, name)
		}
	}
}

// faults, in the order of the codes.
var faults = []fault{
	{"alg none", statement.CodeMalformed, header("alg", "none")},
	{"alg HS256", statement.CodeMalformed, header("alg", "HS256")},
	{"alg by its newer name", statement.CodeMalformed, header("alg", "Ed25519")},
	{"alg in another case", statement.CodeMalformed, header("alg", "eddsa")},
	{"alg a list", statement.CodeMalformed, header("alg", []string{"EdDSA"})},
	{"no alg", statement.CodeMalformed, func(d draft) { delete(d.header, "alg") }},
	{"typ JWT", statement.CodeMalformed, header("typ", "JWT")},
	{"typ of a proof", statement.CodeMalformed, header("typ", "dpop+jwt")},
	{"typ in another case", statement.CodeMalformed, header("typ", "Agent-Statement+JWT")},
	{"typ as a media type", statement.CodeMalformed, header("typ", "application/agent-statement+jwt")},
	{"no typ", statement.CodeMalformed, func(d draft) { delete(d.header, "typ") }},
	{"kid no thumbprint", statement.CodeMalformed, header("kid", "spoilt")},
	{"kid with padding", statement.CodeMalformed, header("kid", strings.Repeat("A", 43)+"=")},
	{"kid in another spelling", statement.CodeMalformed, header("kid", strings.Repeat("A", 42)+"B")},
	{"kid a number", statement.CodeMalformed, header("kid", 1)},
	{"no kid", statement.CodeMalformed, func(d draft) { delete(d.header, "kid") }},
	{"crit", statement.CodeMalformed, header("crit", []string{"exp"})},
	{"b64", statement.CodeMalformed, header("b64", true)},
	{"a key in the header", statement.CodeMalformed, func(d draft) { d.header["jwk"] = d.key.Key() }},
	{"a key's address in the header", statement.CodeMalformed, header("jku", "https://spoilt.example/")},
	{"another header member", statement.CodeMalformed, header("cty", "spoilt")},
	{"no iss", statement.CodeMalformed, without("iss")},
	{"iss null", statement.CodeMalformed, claim("iss", nil)},
	{"iss no SPIFFE ID", statement.CodeMalformed, claim("iss", "https://spoilt.example/")},
	{"iss with a space", statement.CodeMalformed, claim("iss", agent+" ")},
	{"iss beyond ASCII", statement.CodeMalformed, claim("iss", agent+"é")},
	{"no aud", statement.CodeMalformed, without("aud")},
	{"aud a list", statement.CodeMalformed, claim("aud", []string{company})},
	{"aud no SPIFFE ID", statement.CodeMalformed, claim("aud", "spoilt")},
	{"no iat", statement.CodeMalformed, without("iat")},
	{"iat a string", statement.CodeMalformed, claim("iat", "1772366400")},
	{"iat with a fraction", statement.CodeMalformed, claim("iat", josetest.Raw("1772366400.0"))},
	{"iat with an exponent", statement.CodeMalformed, claim("iat", josetest.Raw("1e9"))},
	{"iat below 0", statement.CodeMalformed, claim("iat", -1)},
	{"iat after the year 9999", statement.CodeMalformed, claim("iat", 253402300800)},
	{"no jti", statement.CodeMalformed, without("jti")},
	{"jti empty", statement.CodeMalformed, claim("jti", "")},
	{"jti of 129", statement.CodeMalformed, claim("jti", strings.Repeat("j", 129))},
	{"jti with a space", statement.CodeMalformed, claim("jti", "a b")},
	{"jti with a control", statement.CodeMalformed, claim("jti", "a\x7f")},
	{"jti beyond ASCII", statement.CodeMalformed, claim("jti", "é")},
	{"jti a number", statement.CodeMalformed, claim("jti", 1)},
	{"no action_hash", statement.CodeMalformed, without("action_hash")},
	{"action_hash in upper case", statement.CodeMalformed, claim("action_hash", strings.Repeat("0A", 32))},
	{"action_hash a digit short", statement.CodeMalformed, claim("action_hash", strings.Repeat("a", 63))},
	{"action_hash a digit more", statement.CodeMalformed, claim("action_hash", strings.Repeat("a", 65))},
	{"action_hash no hex", statement.CodeMalformed, claim("action_hash", strings.Repeat("g", 64))},
	{"delegation null", statement.CodeMalformed, claim("delegation", nil)},
	{"delegation empty", statement.CodeMalformed, claim("delegation", "")},
	{"delegation a token", statement.CodeMalformed, claim("delegation", strings.Repeat("e", 129))},
	{"delegation a list", statement.CodeMalformed, claim("delegation", []string{"d-1"})},
	{"sid alone", statement.CodeMalformed, without("seq", "prev", "end")},
	{"seq alone", statement.CodeMalformed, without("sid", "prev", "end")},
	{"prev alone", statement.CodeMalformed, without("sid", "seq", "end")},
	{"end alone", statement.CodeMalformed, without("sid", "seq", "prev")},
	{"sid null", statement.CodeMalformed, claim("sid", nil)},
	{"sid empty", statement.CodeMalformed, claim("sid", "")},
	{"sid of 129", statement.CodeMalformed, claim("sid", strings.Repeat("s", 129))},
	{"sid with a slash", statement.CodeMalformed, claim("sid", "a/b")},
	{"sid with an escape", statement.CodeMalformed, claim("sid", "a%2f")},
	{"sid beyond ASCII", statement.CodeMalformed, claim("sid", "é")},
	{"sid a number", statement.CodeMalformed, claim("sid", 1)},
	{"seq null", statement.CodeMalformed, claim("seq", nil)},
	{"seq a string", statement.CodeMalformed, claim("seq", "1")},
	{"seq below 0", statement.CodeMalformed, claim("seq", -1)},
	{"seq minus 0", statement.CodeMalformed, claim("seq", josetest.Raw("-0"))},
	{"seq with a fraction", statement.CodeMalformed, claim("seq", josetest.Raw("1.0"))},
	{"seq with an exponent", statement.CodeMalformed, claim("seq", josetest.Raw("1e0"))},
	{"seq 2^53", statement.CodeMalformed, claim("seq", int64(1)<<53)},
	{"seq beyond 64 bits", statement.CodeMalformed, claim("seq", josetest.Raw("18446744073709551617"))},
	{"prev at 0", statement.CodeMalformed, claim("seq", 0)},
	{"no prev at 1", statement.CodeMalformed, without("prev")},
	{"prev null", statement.CodeMalformed, claim("prev", nil)},
	{"prev in upper case", statement.CodeMalformed, claim("prev", strings.Repeat("0A", 32))},
	{"prev a digit short", statement.CodeMalformed, claim("prev", strings.Repeat("a", 63))},
	{"end false", statement.CodeMalformed, claim("end", false)},
	{"end null", statement.CodeMalformed, claim("end", nil)},
	{"end a string", statement.CodeMalformed, claim("end", "true")},
	{"end a number", statement.CodeMalformed, claim("end", 1)},
	{"exp", statement.CodeMalformed, claim("exp", now.Unix()+60)},
	{"nbf", statement.CodeMalformed, claim("nbf", 0)},
	{"sub", statement.CodeMalformed, claim("sub", agent)},
	{"a claim in another case", statement.CodeMalformed, claim("Sid", "spoilt")},
	{"an unknown claim", statement.CodeMalformed, claim("spoilt", object{"a": 1})},
	{"too long", statement.CodeMalformed, claim("iss", "spiffe://"+strings.Repeat("a", statement.MaxSize))},

	{"another kid", statement.CodeSignatureInvalid, header("kid", strings.Repeat("A", 43))},
	{"another claim than signed", statement.CodeSignatureInvalid, nil}, // see TestCodesComeInOrder
	{"alg of another kind of key", statement.CodeSignatureInvalid, func(d draft) {
		d.header["alg"] = map[string]string{jose.EdDSA: jose.ES256, jose.ES256: jose.EdDSA}[d.key.Key().Algorithm]
	}},

	{"another agent", statement.CodeMismatch, claim("iss", company+"/agent/spoilt")},
	{"an agent of another company", statement.CodeMismatch, claim("iss", "spiffe://attestd.local/company/spoilt/agent/build-bot")},
	{"the company as agent", statement.CodeMismatch, claim("iss", company)},
	{"another company", statement.CodeMismatch, claim("aud", "spiffe://attestd.local/company/spoilt")},
	{"the agent as company", statement.CodeMismatch, claim("aud", agent)},
	{"another trust domain", statement.CodeMismatch, claim("aud", "spiffe://spoilt/company/acme")},
	{"another action", statement.CodeMismatch, claim("action_hash", strings.Repeat("0", 64))},
	{"another delegation", statement.CodeMismatch, claim("delegation", "spoilt")},
	{"no delegation", statement.CodeMismatch, without("delegation")},

	{"61 seconds ahead", statement.CodeTime, claim("iat", now.Unix()+61)},
	{"a second more than 30 days ago", statement.CodeTime, claim("iat", now.Unix()-30*86400-1)},
	{"1970", statement.CodeTime, claim("iat", 0)},
}

// sign spoils d and signs it.
func (f fault) sign(t testing.TB, d draft) string {
	if f.spoil != nil {
		f.spoil(d)
		return d.sign(t)
	}
	return resign(d.sign(t))
}

// resign changes the last byte of the signature.
func resign(compact string) string {
	i := strings.LastIndexByte(compact, '.') + 1
	signature, err := base64.RawURLEncoding.DecodeString(compact[i:])
	if err != nil {
		panic(err)
	}
	signature[40] ^= 1
	return compact[:i] + josetest.Encode(signature)
}

// Each fault has its code, with either algorithm.
func TestFaults(t *testing.T) {
	t.Parallel()
	for _, algorithm := range []string{jose.EdDSA, jose.ES256} {
		for _, f := range faults {
			t.Run(algorithm+"/"+f.name, func(t *testing.T) {
				t.Parallel()
				d := sound(t, algorithm)
				if got := check(t, f.sign(t, d), d.key.Key(), expected(t)); got != f.code {
					t.Errorf("%s, want %s", got, f.code)
				}
			})
		}
	}
}

// Of two faults the one that is checked first is said.
func TestCodesComeInOrder(t *testing.T) {
	t.Parallel()
	order := []string{statement.CodeMalformed, statement.CodeSignatureInvalid, statement.CodeMismatch, statement.CodeTime}
	for i, first := range faults {
		for _, second := range faults[i+1:] {
			if first.code == second.code || first.name == "too long" {
				continue
			}
			d := sound(t, jose.EdDSA)
			for _, f := range []fault{second, first} {
				if f.spoil != nil {
					f.spoil(d)
				}
			}
			compact := d.sign(t)
			if first.spoil == nil || second.spoil == nil {
				compact = resign(compact)
			}
			got := check(t, compact, d.key.Key(), expected(t))
			if want := order[min(slices.Index(order, first.code), slices.Index(order, second.code))]; got != want {
				// the second may have mended the first: then it is the only one
				if got != second.code || !mends(second, first) {
					t.Errorf("%s and %s: %s, want %s", first.name, second.name, got, want)
				}
			}
		}
	}
}

// mends reports whether two faults are of the same header member or claim, so that one replaces the
// other.
func mends(a, b fault) bool {
	return strings.Fields(a.name)[0] == strings.Fields(b.name)[0]
}

func TestRefusesJSONThatIsNotStrict(t *testing.T) {
	t.Parallel()
	d := sound(t, jose.EdDSA)
	head, claims := string(josetest.Marshal(t, d.header)), string(josetest.Marshal(t, d.claims))
	for _, parts := range [][2]string{
		{head, ""}, {head, "null"}, {head, "[]"}, {head, claims + claims}, {head, claims + "x"}, {head, "\ufeff" + claims},
		{head, strings.Replace(claims, "{", `{"jti":"spoilt",`, 1)},
		{head, strings.Replace(claims, "{", `{"j\u0074i":"spoilt",`, 1)},
		{head, strings.Replace(claims, `"j-1"`, `"\ud800"`, 1)},
		{head, strings.Replace(claims, `"j-1"`, "\"\xff\"", 1)},
		{head, strings.Replace(claims, `"j-1"`, `'j-1'`, 1)},
		{strings.Replace(head, "{", `{"alg":"none",`, 1), claims},
		{head + " {}", claims}, {"", claims}, {"[]", claims},
	} {
		compact := josetest.Forge(t, d.key, []byte(parts[0]), []byte(parts[1]))
		if got := check(t, compact, d.key.Key(), expected(t)); got != statement.CodeMalformed {
			t.Errorf("%s: %s", parts, got)
		}
	}
	compact := d.sign(t)
	for _, spoilt := range []string{
		"", compact + "\n", compact + "=", compact[:len(compact)-2], compact + "AA", compact + ".", " " + compact, strings.Replace(compact, ".", "\n.", 1),
		compact[:strings.LastIndexByte(compact, '.')+1], compact[:strings.LastIndexByte(compact, '.')],
	} {
		if got := check(t, spoilt, d.key.Key(), expected(t)); got != statement.CodeMalformed {
			t.Errorf("%q: %s", spoilt, got)
		}
	}
}

// Each byte of a statement counts: with one of its bits changed it passes nowhere.
func TestEveryBitIsCovered(t *testing.T) {
	t.Parallel()
	for _, algorithm := range []string{jose.EdDSA, jose.ES256} {
		d := sound(t, algorithm)
		compact := d.sign(t)
		for i := range len(compact) {
			for _, bit := range []byte{1, 2, 16, 32} {
				spoilt := []byte(compact)
				spoilt[i] ^= bit
				if check(t, string(spoilt), d.key.Key(), expected(t)) == "accepted" {
					t.Fatalf("%s: byte %d does not count", algorithm, i)
				}
			}
		}
	}
}
