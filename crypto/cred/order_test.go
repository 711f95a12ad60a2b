package cred_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"attestd/crypto/cred"
	"attestd/internal/testenv"
)

// fault spoils a sound token in one way. spoil may be used with other faults on the same token.
type fault struct {
	name, code string
	only       string // the check that it is for; "" for both
	spoil      func(draft)
}

func header(name string, value any) func(draft) { return func(d draft) { d.header[name] = value } }
func claim(name string, value any) func(draft)  { return func(d draft) { d.claims[name] = value } }
func without(name string) func(draft)           { return func(d draft) { delete(d.claims, name) } }

// member and withoutMember spoil the namespaced claims of a passport.
func member(name string, value any) func(draft) {
	return func(d draft) { d.namespaced()[name] = value }
}
func withoutMember(name string) func(draft) {
	return func(d draft) { delete(d.namespaced(), name) }
}

const passport, svid = "CheckPassport", "CheckDelegation"

// faults, in the order of the codes.
var faults = []fault{
	{"crit", cred.CodeMalformedToken, "", header("crit", []string{"spoilt"})},
	{"b64", cred.CodeMalformedToken, "", header("b64", true)},
	{"a key in the header", cred.CodeMalformedToken, "", header("jwk", object{"kty": "OKP"})},
	{"a key's address in the header", cred.CodeMalformedToken, "", header("jku", "https://spoilt.example/")},
	{"a certificate's address in the header", cred.CodeMalformedToken, "", header("x5u", "https://spoilt.example/")},
	{"a certificate in the header", cred.CodeMalformedToken, "", header("x5c", []string{"spoilt"})},

	{"alg none", cred.CodeAlgorithmMismatch, "", header("alg", "none")},
	{"alg HS256", cred.CodeAlgorithmMismatch, "", header("alg", "HS256")},
	{"alg in another case", cred.CodeAlgorithmMismatch, "", header("alg", "EDDSA")},
	{"alg by its newer name", cred.CodeAlgorithmMismatch, "", header("alg", "Ed25519")},
	{"alg a list", cred.CodeAlgorithmMismatch, "", header("alg", []string{"EdDSA"})},
	{"no alg", cred.CodeAlgorithmMismatch, "", func(d draft) { delete(d.header, "alg") }},

	{"a passport's typ in lower case", cred.CodeWrongTokenType, passport, header("typ", "cap+jwt")},
	{"a passport with the typ of an SVID", cred.CodeWrongTokenType, passport, header("typ", "JWT")},
	{"an SVID with the typ of a passport", cred.CodeWrongTokenType, svid, header("typ", "CAP+JWT")},
	{"an SVID's typ in lower case", cred.CodeWrongTokenType, svid, header("typ", "jwt")},
	{"no typ", cred.CodeWrongTokenType, "", func(d draft) { delete(d.header, "typ") }},

	{"another kid", cred.CodeSignatureInvalid, "", header("kid", "spoilt")},
	{"no kid", cred.CodeSignatureInvalid, "", func(d draft) { delete(d.header, "kid") }},
	{"another key", cred.CodeSignatureInvalid, "", func(d draft) { copy(d.key, keyOf("globex")) }},

	{"expired now", cred.CodeTokenExpired, "", claim("exp", now.Unix())},
	{"expired before it began", cred.CodeTokenExpired, "", claim("exp", 0)},

	{"valid from the next second", cred.CodeTokenNotYetValid, "", claim("nbf", now.Unix()+1)},

	{"aud a string", cred.CodeAudienceMismatch, "", claim("aud", "service")},
	{"aud of the other kind", cred.CodeAudienceMismatch, passport, claim("aud", []string{"service"})},
	{"aud of the other kind", cred.CodeAudienceMismatch, svid, claim("aud", []string{"service:passport:v1"})},
	{"one aud more", cred.CodeAudienceMismatch, passport, claim("aud", []string{"service:passport:v1", "spoilt"})},
	{"one aud more", cred.CodeAudienceMismatch, svid, claim("aud", []string{"service", "spoilt"})},
	{"no aud", cred.CodeAudienceMismatch, "", without("aud")},
	{"an empty aud", cred.CodeAudienceMismatch, "", claim("aud", []string{})},

	{"another issuer", cred.CodeInvalidIssuer, "", claim("iss", "spiffe://spoilt/ca")},
	{"no issuer", cred.CodeInvalidIssuer, "", without("iss")},
	{"an issuer that is no string", cred.CodeInvalidIssuer, "", claim("iss", 1)},

	{"another trust domain", cred.CodeInvalidSubject, "", claim("sub", "spiffe://spoilt/company/acme/agent/build-bot")},
	{"another scheme", cred.CodeInvalidSubject, "", claim("sub", "https://attestd.local/company/acme/agent/build-bot")},
	{"a path that goes on", cred.CodeInvalidSubject, "", claim("sub", agent+"/spoilt")},
	{"a path that ends early", cred.CodeInvalidSubject, "", claim("sub", "spiffe://attestd.local/company/acme/agent/")},
	{"dots in the path", cred.CodeInvalidSubject, "", claim("sub", "spiffe://attestd.local/company/../agent/build-bot")},
	{"no sub", cred.CodeInvalidSubject, "", without("sub")},
	{"a company as subject", cred.CodeInvalidSubject, passport, claim("sub", "spiffe://attestd.local/company/acme")},
	{"an agent of another company", cred.CodeInvalidSubject, passport, claim("sub", domain.AgentID("globex", "build-bot"))},

	{"no exp", cred.CodeMalformedClaims, "", without("exp")},
	{"exp a string", cred.CodeMalformedClaims, "", claim("exp", strconv.FormatInt(now.Unix()+60, 10))},
	{"exp with a fraction", cred.CodeMalformedClaims, "", claim("exp", float64(now.Unix())+60.5)},
	{"exp after the year 9999", cred.CodeMalformedClaims, "", claim("exp", 253402300800)},
	{"no nbf", cred.CodeMalformedClaims, "", without("nbf")},
	{"nbf before 1970", cred.CodeMalformedClaims, "", claim("nbf", -1)},
	{"no iat", cred.CodeMalformedClaims, "", without("iat")},
	{"issued after it expires", cred.CodeMalformedClaims, "", claim("iat", now.Unix()+7200)},
	{"valid before it is issued", cred.CodeMalformedClaims, "", func(d draft) {
		d.claims["iat"], d.claims["exp"] = now.Unix()+1000, now.Unix()+2000
	}},
	{"a second longer than a passport lasts", cred.CodeMalformedClaims, passport, claim("exp", now.Unix()-10+86401)},
	{"a second longer than an SVID lasts", cred.CodeMalformedClaims, svid, claim("exp", now.Unix()-10+3601)},
	{"thirty days", cred.CodeMalformedClaims, "", claim("exp", now.Unix()+30*86400)},
	{"no jti", cred.CodeMalformedClaims, "", without("jti")},
	{"jti no UUID", cred.CodeMalformedClaims, "", claim("jti", "spoilt")},
	{"jti in braces", cred.CodeMalformedClaims, "", claim("jti", "{0a6b0c0e-3c3f-4d8e-9d57-0d6b0f6d7f11}")},

	{"scope no string", cred.CodeMalformedClaims, svid, claim("scope", []string{"spoilt"})},
	{"act null", cred.CodeMalformedClaims, svid, claim("act", nil)},
	{"act a string", cred.CodeMalformedClaims, svid, claim("act", agent)},
	{"act without sub", cred.CodeMalformedClaims, svid, claim("act", object{})},
	{"act.sub no string", cred.CodeMalformedClaims, svid, claim("act", object{"sub": 1})},
	{"act with another member", cred.CodeMalformedClaims, svid, claim("act", object{"sub": agent, "spoilt": 1})},
	{"act.sub of another trust domain", cred.CodeMalformedClaims, svid, claim("act", object{"sub": "spiffe://spoilt/company/a"})},
	{"act.act without sub", cred.CodeMalformedClaims, svid, claim("act", object{"sub": agent, "act": object{"act": object{"sub": agent}}})},
	{"act.act null", cred.CodeMalformedClaims, svid, claim("act", object{"sub": agent, "act": nil})},
	{"eleven actors", cred.CodeMalformedClaims, svid, claim("act", nestedAct(11))},

	{"no namespaced claims", cred.CodeMalformedClaims, passport, claim("service", "spoilt")},
	{"no agentId", cred.CodeMalformedClaims, passport, withoutMember("agentId")},
	{"another agentId", cred.CodeMalformedClaims, passport, member("agentId", "spoilt")},
	{"another org", cred.CodeMalformedClaims, passport, member("org", "spoilt")},
	{"another orgSpiffeId", cred.CodeMalformedClaims, passport, member("orgSpiffeId", "spiffe://attestd.local/company/spoilt")},
	{"no scopes", cred.CodeMalformedClaims, passport, withoutMember("scopes")},
	{"empty scopes", cred.CodeMalformedClaims, passport, member("scopes", []string{})},
	{"scopes a string", cred.CodeMalformedClaims, passport, member("scopes", "*")},
	{"a scope that is no string", cred.CodeMalformedClaims, passport, member("scopes", []any{"*", 1})},
	{"a scope that is none", cred.CodeMalformedClaims, passport, member("scopes", []string{"spoilt"})},
	{"no delegationChain", cred.CodeMalformedClaims, passport, withoutMember("delegationChain")},
	{"no v", cred.CodeMalformedClaims, passport, withoutMember("v")},
	{"v a string", cred.CodeMalformedClaims, passport, member("v", "1")},

	{"v 2", cred.CodeUnsupportedVersion, passport, member("v", 2)},
	{"v 0", cred.CodeUnsupportedVersion, passport, member("v", 0)},

	{"the chain ends elsewhere", cred.CodeChainIncoherent, passport, member("delegationChain", []string{agent, "spiffe://attestd.local/company/acme"})},
	{"an empty chain", cred.CodeChainIncoherent, passport, member("delegationChain", []string{})},
}

func nestedAct(actors int) object {
	act := object{"sub": agent}
	for range actors - 1 {
		act = object{"sub": agent, "act": act}
	}
	return act
}

func TestErrorCodes(t *testing.T) {
	t.Parallel()
	for name, check := range checks {
		if code := codeOf(t, check(sound(name).sign(), now)); code != "accepted" {
			t.Fatalf("%s refuses a sound token: %s", name, code)
		}
		for _, f := range faults {
			if f.only != "" && f.only != name {
				continue
			}
			t.Run(name+"/"+f.name, func(t *testing.T) {
				t.Parallel()
				d := sound(name)
				f.spoil(d)
				if code := codeOf(t, check(d.sign(), now)); code != f.code {
					t.Errorf("got %s, want %s", code, f.code)
				}
			})
		}
	}
}

// Of two faults in one token the earlier code of the published order is the answer.
func TestEarlierCodeWins(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	order := cred.Codes()
	if !slices.IsSortedFunc(faults, func(a, b fault) int { return slices.Index(order, a.code) - slices.Index(order, b.code) }) {
		t.Fatal("faults do not stand in the order of the codes")
	}
	for name, check := range checks {
		for n, first := range faults {
			for _, second := range faults[n+1:] {
				if first.code == second.code || strings.Contains(first.only+second.only, otherThan(name)) {
					continue
				}
				d := sound(name)
				second.spoil(d)
				first.spoil(d)
				if code := codeOf(t, check(d.sign(), now)); code != first.code {
					t.Errorf("%s: %q and %q give %s, want %s", name, first.name, second.name, code, first.code)
				}
			}
		}
	}
}

func otherThan(check string) string {
	if check == passport {
		return svid
	}
	return passport
}

// No leeway: a token counts from the first moment of nbf up to, and without, the moment exp.
func TestClock(t *testing.T) {
	t.Parallel()
	for name, check := range checks {
		token := sound(name).sign()
		from, until := now.Add(-10*time.Second), now.Add(3590*time.Second)
		for _, test := range []struct {
			at   time.Time
			want string
		}{
			{from.Add(-1), cred.CodeTokenNotYetValid},
			{from, "accepted"},
			{until.Add(-1), "accepted"},
			{until, cred.CodeTokenExpired},
		} {
			if code := codeOf(t, check(token, test.at)); code != test.want {
				t.Errorf("%s at %v: %s, want %s", name, test.at, code, test.want)
			}
		}
	}
}
