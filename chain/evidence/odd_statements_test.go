package evidence_test

import (
	"bytes"
	"compress/gzip"
	"crypto"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"attestd/chain/evidence"
	"attestd/crypto/jose"
	"attestd/crypto/statement"
	"attestd/internal/must"
)

// oddFile is a file that the company's key has signed, and the code to which every checker comes.
type oddFile struct {
	Name string        `json:"name"`
	File string        `json:"file"`
	Code evidence.Code `json:"code"` // "" where it passes
}

type odd struct {
	t    testing.TB
	list []oddFile
	own  *agentSigner
	p256 *agentSigner
}

func (o *odd) add(name string, code evidence.Code, f *evidence.File) {
	o.list = append(o.list, oddFile{name, string(f.JSON()), code})
}

// stmt is a file about a record with any text as its statement, of a key that an admin enrolled.
func (o *odd) stmt(name string, code evidence.Code, key *agentSigner, compact string) {
	c := newCompany(o.t)
	kid := c.enrol(agentID, key.key, nil)
	c.addStated(agentID, "step", `1`, compact, "")
	o.add(name, code, c.agentKeyFile(0, kid))
}

// claims of a record that is made 2 s after began.
func (o *odd) claims(change map[string]string) string {
	hash, err := statement.HashAction("step", agentID, "acme", []byte(`1`))
	must.OK(o.t, err)
	members := map[string]string{
		"iss": `"` + spiffeCompany + `/agent/` + agentID + `"`, "aud": `"` + spiffeCompany + `"`, "iat": fmt.Sprint(began.Unix()), "jti": `"j"`, "action_hash": `"` + hash + `"`,
	}
	maps.Copy(members, change)
	var list []string
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if members[name] != "" {
			list = append(list, fmt.Sprintf("%q:%s", name, members[name]))
		}
	}
	return "{" + strings.Join(list, ",") + "}"
}

func (o *odd) header(key *agentSigner, change map[string]string) string {
	members := map[string]string{"alg": `"` + key.key.Algorithm + `"`, "typ": `"agent-statement+jwt"`, "kid": `"` + key.key.Thumbprint + `"`}
	maps.Copy(members, change)
	var list []string
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if members[name] != "" {
			list = append(list, fmt.Sprintf("%q:%s", name, members[name]))
		}
	}
	return "{" + strings.Join(list, ",") + "}"
}

func (o *odd) forms() {
	const bad = evidence.BadStatement
	head, claims := o.header(o.own, nil), o.claims(nil)
	for name, parts := range map[string][2]string{
		"whitespace":            {" {\n" + head[1:] + "\t", "\r\n" + claims + " "},
		"escapes":               {strings.Replace(head, `"kid"`, `"k\u0069d"`, 1), strings.Replace(claims, `"j"`, `"\u006a"`, 1)},
		"members in no order":   {head, `{"jti":"j",` + strings.Replace(claims[1:], `,"jti":"j"`, "", 1)},
		"a session, first":      {head, o.claims(map[string]string{"sid": `"run"`, "seq": "0"})},
		"a session, later":      {head, o.claims(map[string]string{"sid": `"a.~_-"`, "seq": "9007199254740991", "prev": `"` + strings.Repeat("0a", 32) + `"`, "end": "true"})},
		"another trust domain":  {head, o.claims(map[string]string{"iss": `"spiffe://a.b/company/acme/agent/build-bot"`, "aud": `"spiffe://a.b/company/acme"`})},
		"a jti of 128":          {head, o.claims(map[string]string{"jti": `"` + strings.Repeat("~", 128) + `"`})},
		"a jti with a quote":    {head, o.claims(map[string]string{"jti": `"\"\\"`})},
		"a jti with a solidus":  {head, o.claims(map[string]string{"jti": `"\/<>&"`})},
		"a sid with an escape":  {head, o.claims(map[string]string{"sid": `"\u0072"`, "seq": "0"})},
		"60 seconds after":      {head, o.claims(map[string]string{"iat": fmt.Sprint(began.Unix() + 62)})},
		"30 days and 5 minutes": {head, o.claims(map[string]string{"iat": fmt.Sprint(began.Unix() + 2 - 30*86400 - 300)})},
	} {
		o.stmt("passes: "+name, "", o.own, forge(o.t, o.own, parts[0], parts[1]))
	}
	for _, size := range []int{statement.MaxSize, statement.MaxSize + 1} {
		for n := 1000; ; n++ { // the domain is there twice, and 3 bytes are 4 characters
			domain := "spiffe://" + strings.Repeat("d", n) + "/company/acme"
			text := forge(o.t, o.own, head+strings.Repeat(" ", n%2), o.claims(map[string]string{"iss": `"` + domain + `/agent/build-bot"`, "aud": `"` + domain + `"`}))
			if len(text) == size && size == statement.MaxSize {
				o.stmt("passes: as long as may be", "", o.own, text)
			} else if len(text) > size {
				o.stmt("text: too long", bad, o.own, text)
			}
			if len(text) >= size {
				break
			}
		}
	}
	for name, change := range map[string]map[string]string{
		"alg by its newer name": {"alg": `"Ed25519"`}, "alg none": {"alg": `"none"`}, "alg of another key": {"alg": `"ES256"`}, "alg null": {"alg": "null"},
		"alg a list": {"alg": `["EdDSA"]`}, "no alg": {"alg": ""}, "typ JWT": {"typ": `"JWT"`}, "typ in capitals": {"typ": `"Agent-Statement+jwt"`},
		"typ of an endorsement": {"typ": `"agent-key+jwt"`}, "no typ": {"typ": ""}, "another kid": {"kid": `"` + strings.Repeat("A", 43) + `"`},
		"kid in another spelling": {"kid": `"` + o.own.key.Thumbprint[:42] + otherBits(o.own.key.Thumbprint[42]) + `"`}, "kid padded": {"kid": `"` + o.own.key.Thumbprint + `="`},
		"no kid": {"kid": ""}, "crit": {"crit": `["exp"]`}, "b64": {"b64": "true"}, "jwk": {"jwk": o.own.key.JWK()}, "cty": {"cty": `"x"`}, "a member of every object": {"toString": `"x"`},
		"__proto__": {"__proto__": `{"alg":"EdDSA"}`},
	} {
		o.stmt("header: "+name, bad, o.own, forge(o.t, o.own, o.header(o.own, change), claims))
	}
	for name, change := range map[string]map[string]string{
		"no iss": {"iss": ""}, "iss of another agent": {"iss": `"` + spiffeCompany + `/agent/other"`}, "iss without an agent": {"iss": `"` + spiffeCompany + `"`},
		"iss of another domain": {"iss": `"spiffe://a.b/company/acme/agent/build-bot"`}, "iss null": {"iss": "null"}, "aud a list": {"aud": `["` + spiffeCompany + `"]`},
		"no aud": {"aud": ""}, "no trust domain": {"iss": `"spiffe:///company/acme/agent/build-bot"`, "aud": `"spiffe:///company/acme"`},
		"a trust domain with a slash": {"iss": `"spiffe://a/b/company/acme/agent/build-bot"`, "aud": `"spiffe://a/b/company/acme"`},
		"another scheme":              {"iss": `"https://a.b/company/acme/agent/build-bot"`, "aud": `"https://a.b/company/acme"`},
		"a space in the domain":       {"iss": `"spiffe://a b/company/acme/agent/build-bot"`, "aud": `"spiffe://a b/company/acme"`},
		"a letter beyond ASCII":       {"iss": `"spiffe://ä/company/acme/agent/build-bot"`, "aud": `"spiffe://ä/company/acme"`},
		"a line feed":                 {"iss": `"spiffe://a\n/company/acme/agent/build-bot"`, "aud": `"spiffe://a\n/company/acme"`},
		"another company":             {"iss": `"spiffe://attestd.local/company/acm/agent/build-bot"`, "aud": `"spiffe://attestd.local/company/acm"`},
		"no iat":                      {"iat": ""}, "iat a string": {"iat": `"1795251600"`}, "iat with a fraction": {"iat": "1795251600.0"}, "iat with an exponent": {"iat": "1795251600e0"},
		"iat of 1970": {"iat": "0"}, "iat minus 0": {"iat": "-0"}, "iat of the year 10000": {"iat": "253402300800"}, "iat infinite": {"iat": "1e400"},
		"iat of many digits": {"iat": "1" + strings.Repeat("0", 400)}, "61 seconds after": {"iat": fmt.Sprint(began.Unix() + 63)},
		"a second more than 30 days and 5 minutes": {"iat": fmt.Sprint(began.Unix() + 1 - 30*86400 - 300)}, "iat true": {"iat": "true"},
		"no jti": {"jti": ""}, "jti empty": {"jti": `""`}, "jti of 129": {"jti": `"` + strings.Repeat("j", 129) + `"`}, "jti a space": {"jti": `" "`}, "jti DEL": {"jti": `"\u007f"`},
		"jti beyond ASCII": {"jti": `"é"`}, "jti a number": {"jti": "1"}, "jti half a pair": {"jti": `"\ud800"`},
		"no action_hash": {"action_hash": ""}, "another action_hash": {"action_hash": `"` + strings.Repeat("0", 64) + `"`},
		"action_hash in capitals": {"action_hash": strings.ToUpper(o.hash())}, "a delegation that is not": {"delegation": `"d-1"`}, "delegation empty": {"delegation": `""`},
		"delegation null": {"delegation": "null"}, "sid alone": {"sid": `"run"`}, "seq alone": {"seq": "0"}, "sid empty": {"sid": `""`, "seq": "0"}, "sid with a slash": {"sid": `"a/b"`, "seq": "0"},
		"sid of 129": {"sid": `"` + strings.Repeat("s", 129) + `"`, "seq": "0"}, "sid with a line feed": {"sid": `"run\n"`, "seq": "0"},
		"seq with a fraction": {"sid": `"run"`, "seq": "0.0"}, "seq minus 0": {"sid": `"run"`, "seq": "-0"}, "seq with an exponent": {"sid": `"run"`, "seq": "0e0"},
		"seq too large": {"sid": `"run"`, "seq": "9007199254740992", "prev": `"` + strings.Repeat("0a", 32) + `"`}, "seq false": {"sid": `"run"`, "seq": "false"},
		"prev at 0": {"sid": `"run"`, "seq": "0", "prev": `"` + strings.Repeat("0a", 32) + `"`}, "no prev": {"sid": `"run"`, "seq": "1"},
		"prev short": {"sid": `"run"`, "seq": "1", "prev": `"` + strings.Repeat("0a", 31) + `"`}, "prev in capitals": {"sid": `"run"`, "seq": "1", "prev": `"` + strings.Repeat("0A", 32) + `"`},
		"end false": {"sid": `"run"`, "seq": "0", "end": "false"}, "end a number": {"sid": `"run"`, "seq": "0", "end": "1"}, "end alone": {"end": "true"},
		"exp": {"exp": "1895251600"}, "a claim in another case": {"Iss": `"x"`}, "a claim of every object": {"constructor": "1"}, "__proto__": {"__proto__": `{"end":true}`},
		"a deep claim": {"x": strings.Repeat("[", 200) + strings.Repeat("]", 200)},
	} {
		o.stmt("claims: "+name, bad, o.own, forge(o.t, o.own, head, o.claims(change)))
	}
	for name, parts := range map[string][2]string{
		"a claim twice": {head, strings.Replace(claims, "{", `{"jti":"j",`, 1)}, "a claim twice, once escaped": {head, strings.Replace(claims, "{", `{"\u006ati":"j",`, 1)},
		"a header member twice": {strings.Replace(head, "{", `{"alg":"EdDSA",`, 1), claims}, "claims null": {head, "null"}, "claims a list": {head, "[]"}, "claims a string": {head, `"x"`},
		"no claims": {head, ""}, "two claims": {head, claims + claims}, "a byte order mark": {head, "\ufeff" + claims}, "not UTF-8": {head, strings.Replace(claims, `"j"`, "\"\xff\"", 1)},
		"header a list": {"[]", claims}, "header null": {"null", claims}, "no header": {"", claims}, "a space of another kind": {head, "\u00a0" + claims},
	} {
		o.stmt("JSON: "+name, bad, o.own, forge(o.t, o.own, parts[0], parts[1]))
	}
	sound := forge(o.t, o.own, head, claims)
	parts := strings.Split(sound, ".")
	for name, text := range map[string]string{
		"empty": "", "a dot more": sound + ".", "four parts": sound + ".AA", "two parts": parts[0] + "." + parts[1], "padded": sound + "==", "a line feed": sound + "\n", "a space": " " + sound,
		"a line feed inside": parts[0] + ".\n" + parts[1] + "." + parts[2], "stray bits": sound[:len(sound)-1] + otherBits(sound[len(sound)-1]), "not signed": parts[0] + "." + parts[1] + ".",
		"standard base64": parts[0] + "." + parts[1] + "." + strings.NewReplacer("-", "+", "_", "/").Replace(parts[2][:85]) + "=", "a byte less": parts[0] + "." + parts[1] + "." + parts[2][:84],
		"a byte more": sound + "AA", "beyond ASCII": sound + "é", "S plus the order": parts[0] + "." + parts[1] + "." + o.plusOrder(parts[2]), "NUL": sound + "\\u0000",
		"the agent's key signed other claims": parts[0] + "." + strings.Split(forge(o.t, o.own, head, o.claims(map[string]string{"jti": `"k"`})), ".")[1] + "." + parts[2],
	} {
		o.stmt("text: "+name, bad, o.own, strings.ReplaceAll(text, "\\u0000", "\x00"))
	}
}

func (o *odd) hash() string {
	var c struct {
		Hash string `json:"action_hash"`
	}
	must.OK(o.t, json.Unmarshal([]byte(o.claims(nil)), &c))
	return `"` + c.Hash + `"`
}

// otherBits is another spelling of a last character, whose lowest bit says nothing.
func otherBits(c byte) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	return string(alphabet[strings.IndexByte(alphabet, c)^1])
}

func (o *odd) plusOrder(signature string) string {
	b, err := base64.RawURLEncoding.DecodeString(signature)
	must.OK(o.t, err)
	order, _ := new(big.Int).SetString("7237005577332262213973186563042994240857116359379907606001950938285454250989", 10)
	s := slices.Clone(b[32:])
	slices.Reverse(s)
	new(big.Int).Add(new(big.Int).SetBytes(s), order).FillBytes(s)
	slices.Reverse(s)
	return base64.RawURLEncoding.EncodeToString(append(b[:32], s...))
}

// secondForms are statements of version 2, in the one form and in others.
func (o *odd) secondForms() {
	const bad = evidence.BadStatement
	head, prev, hash := o.header(o.own, nil), `"`+strings.Repeat("0a", 32)+`"`, `"`+strings.Repeat("1b", 32)+`"`
	origin := newCompany(o.t).origin()
	kid := `"` + o.own.key.Thumbprint + `"`
	claims := func(change map[string]string) string {
		members := map[string]string{"log": `"` + origin + `"`}
		maps.Copy(members, change)
		return o.claims(members)
	}
	at := func(change map[string]string) map[string]string { // a place above 0
		members := map[string]string{"sid": `"run"`, "seq": "3", "prev": prev}
		maps.Copy(members, change)
		return members
	}
	entry := func(seq, hash, code string) string {
		return `{"seq":` + seq + `,"hash":` + hash + `,"code":` + code + `}`
	}
	refused := func(list ...string) map[string]string {
		return at(map[string]string{"refused": "[" + strings.Join(list, ",") + "]"})
	}
	many := func(n int) map[string]string {
		var list []string
		for i := range n {
			list = append(list, entry(fmt.Sprint(9007199254740000+i), hash, `"`+strings.Repeat("C", 64)+`"`))
		}
		members := refused(list...)
		members["seq"] = "9007199254740991"
		return members
	}
	from := func(sid, kid, hash string) map[string]string {
		return map[string]string{"sid": `"run"`, "seq": "0", "continues": `{"sid":` + sid + `,"kid":` + kid + `,"hash":` + hash + `}`}
	}
	first := func(change map[string]string) map[string]string {
		members := map[string]string{"sid": `"run"`, "seq": "0"}
		maps.Copy(members, change)
		return members
	}
	for name, change := range map[string]map[string]string{
		"no session": {}, "a session, first": first(nil), "a session, later": at(map[string]string{"end": "true"}),
		"one refused": refused(entry("0", hash, `"A"`)), "the one before refused": refused(entry("2", prev, `"HTTP_400"`)),
		"three refused": refused(entry("0", hash, `"AZ09_"`), entry("1", hash, `"B"`), entry("2", prev, `"C"`)), "100 refused": many(100),
		"a refusal with escapes": refused(` { "code" : "\u0041" , "s\u0065q" : 1 , "hash" : ` + hash + ` } `), "a code of 64": refused(entry("1", hash, `"`+strings.Repeat("C", 64)+`"`)),
		"goes on from another session": from(`"run-0"`, kid, hash), "goes on from another key": from(`"run"`, `"`+strings.Repeat("A", 43)+`"`, hash),
		"goes on and ends":     func() map[string]string { m := from(`"a.~_-"`, kid, hash); m["end"] = "true"; return m }(),
		"a log with an escape": {"log": `"\u006c` + origin[1:] + `"`},
	} {
		o.stmt("passes: version 2, "+name, "", o.own, forge(o.t, o.own, head, claims(change)))
	}
	for name, change := range map[string]map[string]string{
		"log null": {"log": "null"}, "log empty": {"log": `""`}, "log a list": {"log": `["` + origin + `"]`}, "log of 256": {"log": `"` + strings.Repeat("l", 256) + `"`},
		"log with a space": {"log": `"` + origin + ` "`}, "log beyond ASCII": {"log": `"` + origin + `é"`}, "another log": {"log": `"` + origin[1:] + `"`}, "log twice in another case": {"Log": `"` + origin + `"`},
		"a delegation that is not": {"delegation": hash}, "delegation a jti": {"delegation": `"d-1"`}, "delegation in capitals": {"delegation": strings.ToUpper(hash)}, "delegation null": {"delegation": "null"},
		"refused null": at(map[string]string{"refused": "null"}), "refused empty": at(map[string]string{"refused": "[]"}), "refused an object": at(map[string]string{"refused": entry("1", hash, `"A"`)}),
		"refused a number": at(map[string]string{"refused": "[1]"}), "refused of null": at(map[string]string{"refused": "[null]"}), "refused a list in a list": refused("[" + entry("1", hash, `"A"`) + "]"),
		"refused of 101": many(101), "refused outside a session": {"refused": "[" + entry("1", hash, `"A"`) + "]"}, "refused at 0": first(map[string]string{"refused": "[" + entry("0", hash, `"A"`) + "]"}),
		"refused without seq": refused(`{"hash":` + hash + `,"code":"A"}`), "refused without hash": refused(`{"seq":1,"code":"A"}`), "refused without code": refused(`{"seq":1,"hash":` + hash + `}`),
		"refused with more": refused(`{"seq":1,"hash":` + hash + `,"code":"A","x":1}`), "refused with a member twice": refused(`{"seq":1,"seq":1,"hash":` + hash + `,"code":"A"}`),
		"refused with a member of every object": refused(`{"seq":1,"hash":` + hash + `,"code":"A","toString":1}`), "refused with __proto__": refused(`{"seq":1,"hash":` + hash + `,"code":"A","__proto__":{}}`),
		"refused, seq a string": refused(entry(`"1"`, hash, `"A"`)), "refused, seq below 0": refused(entry("-1", hash, `"A"`)), "refused, seq minus 0": refused(entry("-0", hash, `"A"`)),
		"refused, seq with a fraction": refused(entry("1.0", hash, `"A"`)), "refused, seq with an exponent": refused(entry("1e0", hash, `"A"`)), "refused, seq null": refused(entry("null", hash, `"A"`)),
		"refused, its own seq": refused(entry("3", hash, `"A"`)), "refused, a later seq": refused(entry("4", hash, `"A"`)), "refused, seq 2^53": refused(entry("9007199254740992", hash, `"A"`)),
		"refused twice": refused(entry("1", hash, `"A"`), entry("1", hash, `"A"`)), "refused in another order": refused(entry("1", hash, `"A"`), entry("0", hash, `"A"`)),
		"refused, another hash than prev": refused(entry("2", hash, `"A"`)), "refused, hash in capitals": refused(entry("1", strings.ToUpper(hash), `"A"`)), "refused, hash short": refused(entry("1", hash[:63]+`"`, `"A"`)),
		"refused, hash null": refused(entry("1", "null", `"A"`)), "refused, code empty": refused(entry("1", hash, `""`)), "refused, code of 65": refused(entry("1", hash, `"`+strings.Repeat("C", 65)+`"`)),
		"refused, code in lower case": refused(entry("1", hash, `"a"`)), "refused, code with a hyphen": refused(entry("1", hash, `"A-B"`)), "refused, code a number": refused(entry("1", hash, "400")),
		"refused, code with a line feed": refused(entry("1", hash, `"A\n"`)), "refused, code beyond ASCII": refused(entry("1", hash, `"É"`)), "refused, another digit": refused(entry("\u0661", hash, `"A"`)),
		"continues null": first(map[string]string{"continues": "null"}), "continues a text": first(map[string]string{"continues": `"run-0"`}), "continues a list": first(map[string]string{"continues": `[{"sid":"a","kid":` + kid + `,"hash":` + hash + `}]`}),
		"continues empty": first(map[string]string{"continues": "{}"}), "continues above 0": at(map[string]string{"continues": `{"sid":"a","kid":` + kid + `,"hash":` + hash + `}`}),
		"continues and refused above 0": at(map[string]string{"continues": `{"sid":"a","kid":` + kid + `,"hash":` + hash + `}`, "refused": "[" + entry("1", hash, `"A"`) + "]"}),
		"continues outside a session":   {"continues": `{"sid":"a","kid":` + kid + `,"hash":` + hash + `}`}, "continues its own session": from(`"run"`, kid, hash), "continues, sid empty": from(`""`, kid, hash),
		"continues, sid with a slash": from(`"a/b"`, kid, hash), "continues, sid of 129": from(`"`+strings.Repeat("s", 129)+`"`, kid, hash), "continues, sid a number": from("1", kid, hash),
		"continues, no thumbprint": from(`"a"`, `"x"`, hash), "continues, kid padded": from(`"a"`, kid[:44]+`="`, hash), "continues, kid in another spelling": from(`"a"`, kid[:43]+otherBits(kid[43])+`"`, hash),
		"continues, kid null": from(`"a"`, "null", hash), "continues, hash in capitals": from(`"a"`, kid, strings.ToUpper(hash)), "continues, hash null": from(`"a"`, kid, "null"),
		"continues with more": first(map[string]string{"continues": `{"sid":"a","kid":` + kid + `,"hash":` + hash + `,"seq":1}`}), "continues without sid": first(map[string]string{"continues": `{"kid":` + kid + `,"hash":` + hash + `}`}),
		"continues with a member twice": first(map[string]string{"continues": `{"sid":"a","sid":"a","kid":` + kid + `,"hash":` + hash + `}`}),
	} {
		o.stmt("version 2: "+name, bad, o.own, forge(o.t, o.own, head, claims(change)))
	}
	older := map[string]string{"log": ""}
	for name, change := range map[string]map[string]string{
		"refused without log": refused(entry("1", hash, `"A"`)), "continues without log": from(`"a"`, kid, hash),
	} {
		maps.Copy(change, older)
		o.stmt("version 1: "+name, bad, o.own, forge(o.t, o.own, head, claims(change)))
	}
}

// p256Signatures are of ECDSA, in the one form and in others.
func (o *odd) p256Signatures() {
	sound := forge(o.t, o.p256, o.header(o.p256, nil), o.claims(nil))
	i := strings.LastIndex(sound, ".") + 1
	b, err := base64.RawURLEncoding.DecodeString(sound[i:])
	must.OK(o.t, err)
	order, _ := new(big.Int).SetString("ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551", 16)
	r, s := new(big.Int).SetBytes(b[:32]), new(big.Int).SetBytes(b[32:])
	both := func(r, s *big.Int) string {
		signature := make([]byte, 64)
		r.FillBytes(signature[:32])
		s.FillBytes(signature[32:])
		return sound[:i] + base64.RawURLEncoding.EncodeToString(signature)
	}
	o.stmt("passes: ES256", "", o.p256, sound)
	o.stmt("passes: ES256 with the other S", "", o.p256, both(r, new(big.Int).Sub(order, s)))
	const bad = evidence.BadStatement
	o.stmt("ES256: R and S exchanged", bad, o.p256, both(s, r))
	o.stmt("ES256: R of 0", bad, o.p256, both(new(big.Int), s))
	o.stmt("ES256: S of 0", bad, o.p256, both(r, new(big.Int)))
	o.stmt("ES256: S of the order", bad, o.p256, both(r, order))
	der, err := o.p256.p256.Sign(nil, bytes.Repeat([]byte{1}, 32), crypto.SHA256)
	must.OK(o.t, err)
	o.stmt("ES256: a signature in DER", bad, o.p256, sound[:i]+base64.RawURLEncoding.EncodeToString(der))
	o.stmt("ES256: alg of the other key", bad, o.p256, forge(o.t, o.p256, o.header(o.p256, map[string]string{"alg": `"EdDSA"`}), o.claims(nil)))
}

// records are odd control records of the key.
func (o *odd) records() {
	const bad = evidence.BadStatement
	with := func(name string, code evidence.Code, details map[string]any) {
		c := newCompany(o.t)
		kid := c.enrol(agentID, o.own.key, details)
		c.stated(o.own, agentID, "step", `1`, nil)
		o.add("record: "+name, code, c.agentKeyFile(0, kid))
	}
	raw := func(s string) json.RawMessage { return json.RawMessage(s) }
	x := strings.Split(o.own.key.JWK(), `"`)[11]
	with("a member more", "", map[string]any{"more": []int{1}, "label": "é"})
	with("by the service itself", "", map[string]any{"by": nil})
	with("jwk in another order", "", map[string]any{"jwk": raw(`{"x":"` + x + `", "kty":"OKP", "crv":"Ed25\u003519"}`)})
	for name, details := range map[string]map[string]any{
		"another agent": {"agentId": "other"}, "no agent": {"agentId": nil}, "agent a number": {"agentId": 1}, "thumbprint of another": {"thumbprint": o.p256.key.Thumbprint},
		"no thumbprint": {"thumbprint": nil}, "jwk null": {"jwk": nil}, "jwk a list": {"jwk": []int{}}, "jwk with its kid": {"jwk": raw(`{"crv":"Ed25519","kid":"x","kty":"OKP","x":"` + x + `"}`)},
		"jwk with alg": {"jwk": raw(`{"alg":"EdDSA","crv":"Ed25519","kty":"OKP","x":"` + x + `"}`)}, "jwk of another curve": {"jwk": raw(`{"crv":"X25519","kty":"OKP","x":"` + x + `"}`)},
		"jwk of another type": {"jwk": raw(`{"crv":"Ed25519","kty":"EC","x":"` + x + `"}`)}, "jwk padded": {"jwk": raw(`{"crv":"Ed25519","kty":"OKP","x":"` + x + `="}`)},
		"jwk with y": {"jwk": raw(`{"crv":"Ed25519","kty":"OKP","x":"` + x + `","y":"` + x + `"}`)}, "jwk with d": {"jwk": raw(`{"crv":"Ed25519","d":"` + x + `","kty":"OKP","x":"` + x + `"}`)},
		"jwk of another key": {"jwk": raw(o.p256.key.JWK())}, "jwk with stray bits": {"jwk": raw(`{"crv":"Ed25519","kty":"OKP","x":"` + x[:42] + otherBits(x[42]) + `"}`)},
		"expiresAt empty": {"expiresAt": ""}, "expiresAt a number": {"expiresAt": 1795251600}, "expiresAt in seconds": {"expiresAt": "2026-12-21T09:00:00Z"},
		"expiresAt on 30 February": {"expiresAt": "2027-02-30T09:00:00.000Z"}, "enrolment a number": {"enrolment": 1}, "enrolment empty": {"enrolment": ""}, "enrolment false": {"enrolment": false},
		"endorsement empty": {"endorsement": ""}, "endorsement an object": {"endorsement": map[string]any{}}, "endorsement no JWS": {"endorsement": "x"}, "by a number": {"by": 1},
	} {
		with(name, bad, details)
	}
	missing := func(member string) {
		c := newCompany(o.t)
		all := map[string]any{"agentId": agentID, "thumbprint": o.own.key.Thumbprint, "jwk": raw(o.own.key.JWK()), "expiresAt": nil, "enrolment": nil, "endorsement": nil}
		delete(all, member)
		c.change("agent-key.enrolled", "agent-key:"+o.own.key.Thumbprint, all)
		c.stated(o.own, agentID, "step", `1`, nil)
		code := bad
		if member == "label" {
			code = ""
		}
		o.add("record: without "+member, code, c.agentKeyFile(0, o.own.key.Thumbprint))
	}
	for _, member := range []string{"label", "agentId", "thumbprint", "jwk", "expiresAt", "enrolment", "endorsement"} {
		missing(member)
	}
	two := func(name string, code evidence.Code, write func(c *company) []string) {
		c := newCompany(o.t)
		keys := write(c)
		c.stated(o.own, agentID, "step", `1`, nil)
		o.add("records: "+name, code, c.agentKeyFile(0, keys...))
	}
	own := o.own.key.Thumbprint
	two("enrolled twice", bad, func(c *company) []string {
		c.enrol(agentID, o.own.key, nil)
		return []string{c.enrol(agentID, o.own.key, nil)}
	})
	two("of another key too", bad, func(c *company) []string {
		return []string{c.enrol(agentID, o.own.key, nil), c.enrol(agentID, o.p256.key, nil)}
	})
	two("revoked, not enrolled", bad, func(c *company) []string { c.revoke(agentID, o.own.key); return []string{own} })
	two("another's revocation too", bad, func(c *company) []string {
		c.revoke(agentID, o.p256.key)
		return []string{c.enrol(agentID, o.own.key, nil), o.p256.key.Thumbprint}
	})
	two("revoked of another agent", bad, func(c *company) []string {
		kid := c.enrol(agentID, o.own.key, nil)
		c.revoke("other", o.own.key)
		return []string{kid}
	})
	two("another action", bad, func(c *company) []string {
		kid := c.enrol(agentID, o.own.key, nil)
		c.change("agent-key.renamed", "agent-key:"+kid, map[string]any{"agentId": agentID, "thumbprint": kid})
		return []string{kid}
	})
	two("none", bad, func(*company) []string { return nil })
}

// curves are keys that are none, and are refused whatever is signed.
func (o *odd) curves() {
	low := []string{
		"0100000000000000000000000000000000000000000000000000000000000000", "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
		"0000000000000000000000000000000000000000000000000000000000000000", "0000000000000000000000000000000000000000000000000000000000000080",
		"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a", "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
		"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05", "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
		"0100000000000000000000000000000000000000000000000000000000000080", "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
		"eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f", "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
		"edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f", "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
		// of a point, in another encoding
		"f0ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
		"0200000000000000000000000000000000000000000000000000000000000000", // of no point
	}
	encode := base64.RawURLEncoding.EncodeToString
	key := func(name, alg, jwk, signature string) {
		c := newCompany(o.t)
		kid := thumbprint(jwk)
		c.change("agent-key.enrolled", "agent-key:"+kid, map[string]any{"agentId": agentID, "thumbprint": kid, "jwk": json.RawMessage(jwk),
			"label": nil, "expiresAt": nil, "enrolment": nil, "endorsement": nil})
		input := encode([]byte(`{"alg":"`+alg+`","typ":"agent-statement+jwt","kid":"`+kid+`"}`)) + "." + encode([]byte(o.claims(nil)))
		c.addStated(agentID, "step", `1`, input+"."+signature, "")
		o.add("key: "+name, evidence.BadStatement, c.agentKeyFile(0, kid))
	}
	for _, point := range low {
		x, err := hex.DecodeString(point)
		must.OK(o.t, err)
		// R is the neutral point and S is 0: good for the neutral point, and for some texts with
		// others
		key("Ed25519 "+point, "EdDSA", `{"crv":"Ed25519","kty":"OKP","x":"`+encode(x)+`"}`, "AQ"+strings.Repeat("A", 84))
	}
	curve := o.p256.p256.Curve.Params()
	x, y := o.p256.p256.X, o.p256.p256.Y
	jwk := func(x, y []byte) string {
		return `{"crv":"P-256","kty":"EC","x":"` + encode(x) + `","y":"` + encode(y) + `"}`
	}
	signature := strings.Repeat("A", 86)
	key("P-256, a point that is not on the curve", "ES256", jwk(x.Bytes(), new(big.Int).Xor(y, big.NewInt(1)).FillBytes(make([]byte, 32))), signature)
	key("P-256, the zero point", "ES256", jwk(make([]byte, 32), make([]byte, 32)), signature)
	for small := int64(0); ; small++ { // a point of which x has another encoding in 32 bytes
		square := new(big.Int).Exp(big.NewInt(small), big.NewInt(3), nil)
		square.Sub(square, big.NewInt(3*small)).Add(square, curve.B).Mod(square, curve.P)
		if root := new(big.Int).ModSqrt(square, curve.P); root != nil {
			key("P-256, x plus the prime", "ES256", jwk(new(big.Int).Add(curve.P, big.NewInt(small)).FillBytes(make([]byte, 32)), root.FillBytes(make([]byte, 32))), signature)
			break
		}
	}
	key("P-256, a coordinate of 31 bytes", "ES256", jwk(x.FillBytes(make([]byte, 32))[:31], y.FillBytes(make([]byte, 32))), signature)
	key("P-256 without y", "ES256", `{"crv":"P-256","kty":"EC","x":"`+encode(x.FillBytes(make([]byte, 32)))+`"}`, signature)
	key("P-384", "ES256", `{"crv":"P-384","kty":"EC","x":"`+encode(make([]byte, 48))+`","y":"`+encode(make([]byte, 48))+`"}`, signature)
}

// times are at the borders of what counts. The record is made on the first second after from.
func (o *odd) times() {
	const form = "2006-01-02T15:04:05.000Z"
	at := func(name string, code evidence.Code, write func(c *company, kid string) (record time.Time), details map[string]any) {
		c := newCompany(o.t)
		kid := c.enrol(agentID, o.own.key, details)
		record := write(c, kid)
		c.now = record.Add(-time.Second)
		c.stated(o.own, agentID, "step", `1`, nil)
		c.now = record.Add(time.Hour)
		o.add("time: "+name, code, c.agentKeyFile(0, kid))
	}
	const bad = evidence.BadStatement
	enrolled := began.Add(time.Second)
	plain := func(d time.Duration) func(*company, string) time.Time {
		return func(*company, string) time.Time { return enrolled.Add(d) }
	}
	at("enrolled at the time of the record", "", plain(0), nil)
	at("enrolled 1 ms after the record", bad, plain(-time.Millisecond), nil)
	expires := map[string]any{"expiresAt": enrolled.Format(form)}
	at("less than 5 minutes after it expired", "", plain(5*time.Minute-time.Millisecond), expires)
	at("5 minutes after it expired", bad, plain(5*time.Minute), expires)
	revoked := func(d time.Duration) func(*company, string) time.Time {
		return func(c *company, kid string) time.Time { c.revoke(agentID, o.own.key); return c.now.Add(d) }
	}
	at("5 s after it was revoked", "", revoked(5*time.Second), nil)
	at("5.001 s after it was revoked", bad, revoked(5001*time.Millisecond), nil)
	at("before it was revoked", "", revoked(-500*time.Millisecond), nil)
	ahead := func(name string, code evidence.Code, d time.Duration) {
		c := newCompany(o.t)
		kid := c.enrol(agentID, o.own.key, nil)
		c.now = c.now.Add(999 * time.Millisecond)
		c.stated(o.own, agentID, "step", `1`, func(claims *statement.Claims) { claims.IssuedAt = c.now.Add(time.Second + d).Unix() })
		o.add("time: "+name, code, c.agentKeyFile(0, kid))
	}
	ahead("signed 60 s after the record, but for a part of a second", "", time.Minute)
	ahead("signed more than 60 s after the record by a part of a second", bad, time.Minute+time.Second)
}

// endorsements are odd ones of the key that signed.
func (o *odd) endorsements() {
	const bad = evidence.BadStatement
	next := o.own.key.Thumbprint
	kid := o.p256.key.Thumbprint
	with := func(name string, code evidence.Code, header, claims string) {
		c := newCompany(o.t)
		keys := []string{c.enrol(agentID, o.p256.key, nil)}
		keys = append(keys, c.enrol(agentID, o.own.key, map[string]any{"endorsement": forge(o.t, o.p256, header, claims)}))
		c.stated(o.own, agentID, "step", `1`, nil)
		o.add("endorsement: "+name, code, c.agentKeyFile(0, keys...))
	}
	header := `{"alg":"ES256","typ":"agent-key+jwt","kid":"` + kid + `"}`
	claims := `{"iss":"` + spiffeCompany + `/agent/` + agentID + `","aud":"` + spiffeCompany + `","iat":1795251600,"jkt":"` + next + `"}`
	with("sound", "", header, claims)
	with("of 1970", bad, header, strings.Replace(claims, "1795251600", "0", 1))
	with("typ of a statement", bad, strings.Replace(header, "agent-key+jwt", "agent-statement+jwt", 1), claims)
	with("a header member more", bad, strings.Replace(header, "{", `{"cty":"x",`, 1), claims)
	with("alg of the other key", bad, strings.Replace(header, "ES256", "EdDSA", 1), claims)
	with("a claim more", bad, header, strings.Replace(claims, "{", `{"exp":1,`, 1))
	with("iat with a fraction", bad, header, strings.Replace(claims, "1795251600", "1795251600.0", 1))
	with("no iat", bad, header, strings.Replace(claims, `"iat":1795251600,`, "", 1))
	with("another jkt", bad, header, strings.Replace(claims, next, strings.Repeat("A", 43), 1))
	with("its own jkt", bad, header, strings.Replace(claims, next, kid, 1))
	with("jkt in another spelling", bad, header, strings.Replace(claims, next, next[:42]+otherBits(next[42]), 1))
	with("another company", bad, header, strings.ReplaceAll(claims, "/company/acme", "/company/globex"))
	with("another trust domain", bad, header, strings.ReplaceAll(claims, "attestd.local", "other.local"))
	with("aud a list", bad, header, strings.Replace(claims, `"aud":"`+spiffeCompany+`"`, `"aud":["`+spiffeCompany+`"]`, 1))
	c := newCompany(o.t)
	c.enrol(agentID, o.p256.key, nil)
	c.enrol(agentID, o.own.key, map[string]any{"endorsement": forge(o.t, o.p256, header, claims)})
	c.revoke(agentID, o.p256.key)
	c.stated(o.own, agentID, "step", `1`, nil)
	o.add("endorsement: by a key that was revoked later", "", c.agentKeyFile(0, kid, next))
	o.add("endorsement: by a key that is not in the file", bad, c.agentKeyFile(0, next))
	o.add("endorsement: of the key alone, by a key that is there", bad, c.agentKeyFile(0, kid))
}

// members are odd places of a statement.
func (o *odd) members() {
	c := newCompany(o.t)
	kid := c.enrol(agentID, o.own.key, nil)
	compact := c.state(o.own, agentID, "step", `1`, nil).Compact
	for _, value := range []string{`1`, `null`, `["` + compact + `"]`, `{}`, `false`} {
		c.add(0, agentID, "step", `1,"statement":`+value, "")
	}
	for i := range c.logs[0].records {
		o.add(fmt.Sprint("member: statement of another type, ", i), evidence.BadRecord, c.agentKeyFile(int64(i), kid))
	}
	c = newCompany(o.t)
	kid = c.enrol(agentID, o.own.key, nil)
	c.add(0, agentID, "step", `{"statement":"`+compact+`"}`, "")
	o.add("member: a statement in the payload, with agentKey", evidence.Malformed, c.agentKeyFile(0, kid))
	o.add("member: a statement in the payload", "", c.file(0, 0, c.checkpoint(0)))
	c.add(0, agentID, "step", `1,"statement":"`+compact+`","log":"actions"`, "")
	o.add("member: a member more beside a statement", evidence.BadRecord, c.agentKeyFile(1, kid))
	c.stated(o.own, agentID, "step", `1`, nil)
	o.add("member: no agentKey", evidence.BadStatement, c.file(0, 2, c.checkpoint(0)))
	c.add(1, "service", "agent.registered", `{"subject":"agent:x","by":null},"statement":"`+compact+`"`, "")
	f := c.file(1, 1, c.checkpoint(1))
	o.add("member: a statement in a control record", evidence.BadRecord, f)
	f.AgentKey = &evidence.AgentKey{Entries: c.keyEntries(c.checkpoint(1), kid)}
	o.add("member: a statement in a control record, with agentKey", evidence.BadRecord, f)
	escaped := newCompany(o.t)
	kid = escaped.enrol(agentID, o.own.key, nil)
	escaped.add(0, agentID, "step", `1,"s\u0074atement":"\u0065`+compact[1:]+`"`, "")
	o.add("member: a statement in another spelling", "", escaped.agentKeyFile(0, kid))
}

// Files that the company's key has signed, with odd statements, keys, times and control records:
// each comes to its code. Other checkers read the list too.
func TestOddStatements(t *testing.T) {
	t.Parallel()
	o := &odd{t: t, own: agentKey(t, jose.EdDSA, 1), p256: agentKey(t, jose.ES256, 3)}
	for _, write := range []func(){o.forms, o.secondForms, o.p256Signatures, o.records, o.curves, o.times, o.endorsements, o.members} {
		write()
	}
	slices.SortFunc(o.list, func(a, b oddFile) int { return strings.Compare(a.Name, b.Name) })
	names := make(map[string]bool)
	for _, f := range o.list {
		v := evidence.Check([]byte(f.File), evidence.Trust{Fingerprint: fingerprint(0)})
		if v.Code != f.Code || (v.Outcome == evidence.Holds) != (f.Code == "") || names[f.Name] {
			t.Errorf("%s: %+v, want %q", f.Name, v, f.Code)
		}
		names[f.Name] = true
	}
	var text bytes.Buffer
	for _, f := range o.list {
		line, err := json.Marshal(f)
		must.OK(t, err)
		text.Write(append(line, '\n'))
	}
	zipped(t, "odd_statements.jsonl.gz", text.Bytes())
	if len(o.list) < 150 {
		t.Errorf("only %d files", len(o.list))
	}
}

// zipped reads a file that must unzip to text.
func zipped(t *testing.T, name string, text []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if os.Getenv("WRITE_TESTDATA") != "" {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, err := w.Write(text)
		must.OK(t, err)
		must.OK(t, w.Close())
		must.OK(t, os.WriteFile(file, b.Bytes(), 0o644))
	}
	f, err := os.Open(file)
	must.OK(t, err)
	defer f.Close()
	r, err := gzip.NewReader(f)
	must.OK(t, err)
	stored, err := io.ReadAll(r)
	must.OK(t, err)
	if !bytes.Equal(stored, text) {
		t.Errorf("%s is not what it is made of: WRITE_TESTDATA=1 go test ./chain/evidence writes it", file)
	}
}
