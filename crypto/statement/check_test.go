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
	{"another delegation", statement.CodeMismatch, claim("delegation", strings.Repeat("0", 64))},
	{"no delegation", statement.CodeMismatch, without("delegation")},

	{"61 seconds ahead", statement.CodeTime, claim("iat", now.Unix()+61)},
	{"a second more than 30 days ago", statement.CodeTime, claim("iat", now.Unix()-30*86400-1)},
	{"1970", statement.CodeTime, claim("iat", 0)},
}

// faultsOfSecond are those of what version 2 has alone.
var faultsOfSecond = []fault{
	{"log null", statement.CodeMalformed, claim("log", nil)},
	{"log empty", statement.CodeMalformed, claim("log", "")},
	{"log of 256", statement.CodeMalformed, claim("log", strings.Repeat("l", 256))},
	{"log with a space", statement.CodeMalformed, claim("log", origin+" ")},
	{"log beyond ASCII", statement.CodeMalformed, claim("log", origin+"é")},
	{"log a list", statement.CodeMalformed, claim("log", []string{origin})},
	{"delegation a jti", statement.CodeMalformed, claim("delegation", "d-1")},
	{"delegation in upper case", statement.CodeMalformed, claim("delegation", strings.Repeat("2C", 32))},
	{"delegation a digit short", statement.CodeMalformed, claim("delegation", strings.Repeat("a", 63))},
	{"delegation a digit more", statement.CodeMalformed, claim("delegation", strings.Repeat("a", 65))},
	{"refused null", statement.CodeMalformed, claim("refused", nil)},
	{"refused empty", statement.CodeMalformed, claim("refused", []object{})},
	{"refused an object", statement.CodeMalformed, claim("refused", refusal(1, earlier, "A"))},
	{"refused a number", statement.CodeMalformed, claim("refused", []int{1})},
	{"refused of nothing", statement.CodeMalformed, claim("refused", []any{nil})},
	{"refused a list in a list", statement.CodeMalformed, claim("refused", [][]object{{refusal(1, earlier, "A")}})},
	{"refused of 101", statement.CodeMalformed, func(d draft) { d.claims["seq"], d.claims["refused"] = 200, refusals(101) }},
	{"refused at 0", statement.CodeMalformed, func(d draft) { d.claims["seq"] = 0; without("prev")(d) }},
	{"refused outside a session", statement.CodeMalformed, without("sid", "seq", "prev", "end")},
	{"refused without a place", statement.CodeMalformed, claim("refused", []object{{"hash": earlier, "code": "A"}})},
	{"refused without a hash", statement.CodeMalformed, claim("refused", []object{{"seq": 1, "code": "A"}})},
	{"refused without a code", statement.CodeMalformed, claim("refused", []object{{"seq": 1, "hash": earlier}})},
	{"refused with more", statement.CodeMalformed, claim("refused", []object{{"seq": 1, "hash": earlier, "code": "A", "spoilt": 1}})},
	{"refused in another case", statement.CodeMalformed, claim("refused", []object{{"Seq": 1, "hash": earlier, "code": "A"}})},
	{"refused with a place twice", statement.CodeMalformed, claim("refused", josetest.Raw(`[{"seq":0,"seq":1,"hash":"`+earlier+`","code":"A"}]`))},
	{"refused with a text as place", statement.CodeMalformed, claim("refused", []object{refusal("1", earlier, "A")})},
	{"refused below 0", statement.CodeMalformed, claim("refused", []object{refusal(-1, earlier, "A")})},
	{"refused with a fraction", statement.CodeMalformed, claim("refused", []object{refusal(josetest.Raw("1.0"), earlier, "A")})},
	{"refused with an exponent", statement.CodeMalformed, claim("refused", []object{refusal(josetest.Raw("1e0"), earlier, "A")})},
	{"refused with a place of null", statement.CodeMalformed, claim("refused", []object{refusal(nil, earlier, "A")})},
	{"refused at its own place", statement.CodeMalformed, claim("refused", []object{refusal(3, earlier, "A")})},
	{"refused after its place", statement.CodeMalformed, claim("refused", []object{refusal(4, earlier, "A")})},
	{"refused at 2^53", statement.CodeMalformed, claim("refused", []object{refusal(int64(1)<<53, earlier, "A")})},
	{"refused the same place", statement.CodeMalformed, claim("refused", []object{refusal(1, earlier, "A"), refusal(1, earlier, "A")})},
	{"refused in another order", statement.CodeMalformed, claim("refused", []object{refusal(1, earlier, "A"), refusal(0, earlier, "A")})},
	{"refused with another hash than prev", statement.CodeMalformed, claim("refused", []object{refusal(2, earlier, "A")})},
	{"refused with a hash in upper case", statement.CodeMalformed, claim("refused", []object{refusal(1, strings.Repeat("1B", 32), "A")})},
	{"refused with a short hash", statement.CodeMalformed, claim("refused", []object{refusal(1, earlier[1:], "A")})},
	{"refused with a hash of null", statement.CodeMalformed, claim("refused", []object{refusal(1, nil, "A")})},
	{"refused with an empty code", statement.CodeMalformed, claim("refused", []object{refusal(1, earlier, "")})},
	{"refused with a code of 65", statement.CodeMalformed, claim("refused", []object{refusal(1, earlier, strings.Repeat("A", 65))})},
	{"refused with a code in lower case", statement.CodeMalformed, claim("refused", []object{refusal(1, earlier, "spoilt")})},
	{"refused with a code with a hyphen", statement.CodeMalformed, claim("refused", []object{refusal(1, earlier, "A-B")})},
	{"refused with a number as code", statement.CodeMalformed, claim("refused", []object{refusal(1, earlier, 400)})},
	{"continues above 0", statement.CodeMalformed, func(d draft) { d.claims["continues"] = continuedFrom(d) }},
	{"continues above 0 without refused", statement.CodeMalformed, func(d draft) { d.claims["continues"] = continuedFrom(d); without("refused")(d) }},
	{"continues null", statement.CodeMalformed, continues(nil)},
	{"continues a text", statement.CodeMalformed, continues("run-0")},
	{"continues a list", statement.CodeMalformed, func(d draft) { continues([]object{continuedFrom(d)})(d) }},
	{"continues empty", statement.CodeMalformed, continues(object{})},
	{"continues without a session", statement.CodeMalformed, continuesBut("sid", nil)},
	{"continues with an empty session", statement.CodeMalformed, continuesBut("sid", "")},
	{"continues with a session of 129", statement.CodeMalformed, continuesBut("sid", strings.Repeat("s", 129))},
	{"continues with a slash", statement.CodeMalformed, continuesBut("sid", "a/b")},
	{"continues without a key", statement.CodeMalformed, continuesBut("kid", nil)},
	{"continues with no thumbprint", statement.CodeMalformed, continuesBut("kid", "spoilt")},
	{"continues without a hash", statement.CodeMalformed, continuesBut("hash", nil)},
	{"continues with a hash in upper case", statement.CodeMalformed, continuesBut("hash", strings.Repeat("0A", 32))},
	{"continues with more", statement.CodeMalformed, continuesBut("seq", 1)},
	{"continues its own session", statement.CodeMalformed, continuesBut("sid", "run-1")},
	{"continues outside a session", statement.CodeMalformed, func(d draft) {
		d.claims["continues"] = continuedFrom(d)
		without("sid", "seq", "prev", "end", "refused")(d)
	}},

	{"another log", statement.CodeMismatch, claim("log", "attest.example/v1/log/spoilt")},
	{"the ID of the delegation's hash", statement.CodeMismatch, claim("delegation", previous)},
}

// faultsOfFirst are those of what version 1 has not, or has in another form.
var faultsOfFirst = []fault{
	{"refused without log", statement.CodeMalformed, claim("refused", []object{refusal(0, previous, "A")})},
	{"continues without log", statement.CodeMalformed, func(d draft) { continues(continuedFrom(d))(d) }},
	{"delegation with a space", statement.CodeMalformed, claim("delegation", "d 1")},
	{"the hash of the delegation", statement.CodeMismatch, claim("delegation", delegation)},
}

// refusals are entries of the places from 0.
func refusals(n int) (list []object) {
	for seq := range n {
		list = append(list, refusal(seq, earlier, "STATEMENT_MALFORMED"))
	}
	return list
}

// continuedFrom is what a sound statement may go on from.
func continuedFrom(d draft) object {
	return object{"sid": "run-0", "kid": d.key.Key().Thumbprint, "hash": previous}
}

// continues makes a statement the first one, with a claim continues.
func continues(value any) func(draft) {
	return func(d draft) {
		without("refused", "prev")(d)
		d.claims["seq"], d.claims["continues"] = 0, value
	}
}

// continuesBut is continues with one member changed, or left out where it is nil.
func continuesBut(name string, value any) func(draft) {
	return func(d draft) {
		c := continuedFrom(d)
		if c[name] = value; value == nil {
			delete(c, name)
		}
		continues(c)(d)
	}
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

// drafts are those of each version, with the faults that it may have.
var drafts = map[string]struct {
	sound  func(testing.TB, string) draft
	faults []fault
}{
	"version 2": {sound, slices.Concat(faults, faultsOfSecond)},
	"version 1": {soundFirst, slices.Concat(faults, faultsOfFirst)},
}

// Each fault has its code, with either algorithm and in either version.
func TestFaults(t *testing.T) {
	t.Parallel()
	for version, drafts := range drafts {
		for _, algorithm := range []string{jose.EdDSA, jose.ES256} {
			for _, f := range drafts.faults {
				t.Run(version+"/"+algorithm+"/"+f.name, func(t *testing.T) {
					t.Parallel()
					d := drafts.sound(t, algorithm)
					if got := check(t, f.sign(t, d), d.key.Key(), expected(t)); got != f.code {
						t.Errorf("%s, want %s", got, f.code)
					}
				})
			}
		}
	}
}

// Of two faults the one that is checked first is reported.
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
