package server_test

import (
	"strings"
	"testing"
	"time"

	"attestd/internal/testenv"
)

// fault is one way in which a passport can be invalid.
type fault struct {
	code   string
	header object
	claims object
	own    object // changes in the namespaced claim
	key    bool   // signed with a key that is not the company's
	mangle func(string) string
}

// faults has one fault for each code, in the order of the checks.
func faults(now int64) []fault {
	return []fault{
		{code: "MALFORMED_TOKEN", mangle: func(s string) string { return s + "." }},
		{code: "ALGORITHM_MISMATCH", header: object{"alg": "HS256"}},
		{code: "WRONG_TOKEN_TYPE", header: object{"typ": "JWT"}},
		{code: "SIGNATURE_INVALID", key: true},
		{code: "TOKEN_EXPIRED", claims: object{"exp": now}},
		{code: "TOKEN_NOT_YET_VALID", claims: object{"nbf": now + 100}},
		{code: "AUDIENCE_MISMATCH", claims: object{"aud": []string{"service"}}},
		{code: "INVALID_ISSUER", claims: object{"iss": "spiffe://elsewhere/ca"}},
		{code: "INVALID_SUBJECT", claims: object{"sub": "spiffe://attestd.local/company/globex/agent/bot"}},
		{code: "MALFORMED_CLAIMS", own: object{"agentId": 5}},
		{code: "UNSUPPORTED_VERSION", own: object{"v": 2}},
		{code: "CHAIN_INCOHERENT", own: object{"delegationChain": []string{botID, orgID}}},
		{code: "SCOPE_DENIED", own: object{"scopes": []string{"tool:other", "data:*"}}},
		{code: "PASSPORT_REVOKED"}, // all are made from a revoked passport
	}
}

// A passport is refused with the code of the first check that it fails, whatever other faults it
// has.
func TestPassportCodesInOrder(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	acme.agent(t, "bot")
	key, kid := acme.privateKey(t), acme.kid(t)
	header := object{"alg": "EdDSA", "kid": kid, "typ": "CAP+JWT"}
	base := func() object {
		_, claims := open(t, acme.passport(t, "bot", ""), acme.publicKey(t))
		return claims
	}
	sign := func(claims object, faults ...fault) string {
		h, c, own, k := header, claims, claims["service"].(object), key
		mangle := func(s string) string { return s }
		for _, f := range faults {
			h, c, own = but(h, f.header), but(c, f.claims), but(own, f.own)
			if f.key {
				k = otherKey(t)
			}
			if f.mangle != nil {
				mangle = f.mangle
			}
		}
		return mangle(mint(t, k, h, but(c, object{"service": own})))
	}
	verify := func(t *testing.T, token, code string) {
		t.Helper()
		acme.do(t, "POST /v1/passport/verify", `{"passport":"`+token+`","tool":"search"}`).gets(400, `{"valid":false,"error":"…","code":"`+code+`"}`)
	}
	good := base()
	acme.do(t, "POST /v1/passport/verify", `{"passport":"`+sign(good)+`","tool":"search"}`).status(200)
	revoked := base()
	acme.do(t, "POST /v1/passports/"+revoked["jti"].(string)+"/revoke", "").status(200)

	all := faults(time.Now().Unix())
	for i, f := range all {
		t.Run(f.code, func(t *testing.T) {
			verify(t, sign(revoked, all[i:]...), f.code) // with all later faults too
			if f.code != "PASSPORT_REVOKED" {
				verify(t, sign(good, f), f.code) // and alone
			}
		})
	}
	// the signature is valid, but it was never issued
	t.Run("VERIFICATION_ERROR", func(t *testing.T) {
		verify(t, sign(but(good, object{"jti": "00000000-0000-4000-8000-000000000000"})), "VERIFICATION_ERROR")
	})
}

// These are more ways to the same codes.
func TestPassportRefused(t *testing.T) {
	testenv.Needs(t, testenv.Plain, testenv.NotRaced)
	t.Parallel()
	s := start(t)
	acme, globex := s.company(t, "acme"), s.company(t, "globex")
	svid := acme.agent(t, "bot")
	globex.agent(t, "bot")
	passport := acme.passport(t, "bot", "")
	key, header := acme.privateKey(t), object{"alg": "EdDSA", "kid": acme.kid(t), "typ": "CAP+JWT"}
	_, claims := open(t, passport, acme.publicKey(t))
	own := claims["service"].(object)
	with := func(changes object) string { return mint(t, key, header, but(claims, changes)) }
	withOwn := func(changes object) string { return with(object{"service": but(own, changes)}) }
	withHeader := func(changes object) string { return mint(t, key, but(header, changes), claims) }
	part := strings.Split(passport, ".")
	h, c := string(toJSON(t, header)), string(toJSON(t, claims))

	refused := func(does, token, code string) row {
		return row{does: does, as: acme, call: "POST /v1/passport/verify", body: string(toJSON(t, object{"passport": token})), status: 400, gets: `{"valid":false,"error":"…","code":"` + code + `"}`}
	}
	body := func(does, body, code string) row {
		return row{does: does, as: acme, call: "POST /v1/passport/verify", body: body, status: 400, gets: `{"valid":false,"error":"…","code":"` + code + `"}`}
	}
	table(t, []row{
		body("no body", ``, "MALFORMED_TOKEN"),
		body("no passport", `{}`, "MALFORMED_TOKEN"),
		body("no passport but a tool", `{"tool":"x"}`, "MALFORMED_TOKEN"),
		body("null", `{"passport":null}`, "MALFORMED_TOKEN"),
		body("a number", `{"passport":1}`, "MALFORMED_TOKEN"),
		refused("an empty one", "", "MALFORMED_TOKEN"),
		refused("two parts", part[0]+"."+part[1], "MALFORMED_TOKEN"),
		refused("padding", passport+"=", "MALFORMED_TOKEN"),
		refused("a line break in the signature", passport[:len(passport)-5]+"\n"+passport[len(passport)-5:], "MALFORMED_TOKEN"),
		refused("blanks around it", " "+passport, "MALFORMED_TOKEN"),
		refused("the alphabet of plain base64", part[0]+"."+part[1]+".+/"+part[2][2:], "MALFORMED_TOKEN"),
		refused("over 16 KiB", part[0]+"."+strings.Repeat("A", 16<<10)+"."+part[2], "MALFORMED_TOKEN"),
		refused("claims that are not JSON", signRaw(key, h, "x"), "MALFORMED_TOKEN"),
		refused("claims that are no object", signRaw(key, h, "[]"), "MALFORMED_TOKEN"),
		refused("a header that is not JSON", signRaw(key, "x", c), "MALFORMED_TOKEN"),
		refused("a claim twice", signRaw(key, h, `{"exp":9999999999,`+c[1:]), "MALFORMED_TOKEN"),
		refused("alg twice", signRaw(key, `{"alg":"none",`+h[1:], c), "MALFORMED_TOKEN"),
		refused("crit", withHeader(object{"crit": []string{}}), "MALFORMED_TOKEN"),
		refused("a key of its own", withHeader(object{"jwk": object{"kty": "OKP"}}), "MALFORMED_TOKEN"),
		refused("no alg", withHeader(object{"alg": nil}), "ALGORITHM_MISMATCH"),
		refused("alg none", withHeader(object{"alg": "none"}), "ALGORITHM_MISMATCH"),
		refused("alg in another case", withHeader(object{"alg": "eddsa"}), "ALGORITHM_MISMATCH"),
		refused("alg with a fitting curve's name", withHeader(object{"alg": "Ed25519"}), "ALGORITHM_MISMATCH"),
		refused("no typ", withHeader(object{"typ": nil}), "WRONG_TOKEN_TYPE"),
		refused("an SVID", svid, "WRONG_TOKEN_TYPE"),
		refused("another company's passport", globex.passport(t, "bot", ""), "SIGNATURE_INVALID"),
		refused("another signature", part[0]+"."+part[1]+"."+strings.Split(svid, ".")[2], "SIGNATURE_INVALID"),
		refused("no signature", part[0]+"."+part[1]+".", "SIGNATURE_INVALID"),
		refused("another kid", withHeader(object{"kid": globex.kid(t)}), "SIGNATURE_INVALID"),
		refused("an audience more", with(object{"aud": []string{"service:passport:v1", "x"}}), "AUDIENCE_MISMATCH"),
		refused("no audience", with(object{"aud": nil}), "AUDIENCE_MISMATCH"),
		refused("the company's SVID as a subject", with(object{"sub": orgID}), "INVALID_SUBJECT"),
		refused("no subject", with(object{"sub": nil}), "INVALID_SUBJECT"),
		refused("no expiry", with(object{"exp": nil}), "MALFORMED_CLAIMS"),
		refused("an expiry as text", with(object{"exp": "9999999999"}), "MALFORMED_CLAIMS"),
		refused("no ID", with(object{"jti": nil}), "MALFORMED_CLAIMS"),
		refused("no claims of its own", with(object{"service": nil}), "MALFORMED_CLAIMS"),
		refused("claims under another name", with(object{"service": nil, "other": own}), "MALFORMED_CLAIMS"),
		refused("no version", withOwn(object{"v": nil}), "MALFORMED_CLAIMS"),
		refused("scopes as text", withOwn(object{"scopes": "*"}), "MALFORMED_CLAIMS"),
		refused("no scopes", withOwn(object{"scopes": []string{}}), "MALFORMED_CLAIMS"),
		refused("another agent", withOwn(object{"agentId": "admin"}), "MALFORMED_CLAIMS"),
		refused("another company", withOwn(object{"org": "globex"}), "MALFORMED_CLAIMS"),
		refused("an empty chain", withOwn(object{"delegationChain": []string{}}), "CHAIN_INCOHERENT"),
		body("a tool that is not granted", string(toJSON(t, object{"passport": acme.passport(t, "bot", `{"scopes":["tool:a","data:*"]}`), "tool": "b"})), "SCOPE_DENIED"),
		body("a tool in another case", string(toJSON(t, object{"passport": acme.passport(t, "bot", `{"scopes":["tool:a"]}`), "tool": "A"})), "SCOPE_DENIED"),
		{does: "an empty tool", as: acme, call: "POST /v1/passport/verify", body: `{"passport":"` + passport + `","tool":""}`, status: 400, gets: `{"valid":false,"error":"…tool…","code":"…"}`},
		{does: "a tool that is a number", as: acme, call: "POST /v1/passport/verify", body: `{"passport":"` + passport + `","tool":1}`, status: 400, gets: `{"valid":false,"error":"…tool…","code":"…"}`},
		{does: "a null tool is none", as: acme, call: "POST /v1/passport/verify", body: `{"passport":"` + passport + `","tool":null}`, status: 200, gets: `{"valid":true,"claims":"<anything>","scopeGranted":"tool:*","receipt":"<anything>"}`},
		{does: "a stranger", as: s.anyone(), call: "POST /v1/passport/verify", body: `{"passport":"` + passport + `"}`, status: 401, gets: `{"error":"Unauthorized"}`, sets: []string{"WWW-Authenticate: Bearer …"}},
		{does: "another company", as: globex, call: "POST /v1/passport/verify", body: `{"passport":"` + passport + `"}`, status: 400, gets: `{"valid":false,"error":"…","code":"SIGNATURE_INVALID"}`},
		{does: "the body is not JSON", as: acme, call: "POST /v1/passport/verify", body: passport, status: 400, gets: `"<anything>"`},
	})
}
