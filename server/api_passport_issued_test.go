package server_test

import (
	"strings"
	"testing"
)

// With the signing key an attacker can sign anything under the ID of an issued passport. Only the
// issued passport verifies or can be rotated, and attempts with a forged one do its holder no harm.
func TestPassportIsTheOneIssued(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	acme.agent(t, "bot")
	acme.agent(t, "other")
	key, header := acme.privateKey(t), object{"alg": "EdDSA", "kid": acme.kid(t), "typ": "CAP+JWT"}
	passport := acme.passport(t, "bot", `{"scopes":["tool:read","tool:list"],"ttl":600}`)
	_, claims := open(t, passport, acme.publicKey(t))
	own := claims["service"].(object)
	number := func(name string) int64 { return int64(claims[name].(float64)) }
	with := func(changes, ownChanges object) string {
		return mint(t, key, header, but(but(claims, changes), object{"service": but(own, ownChanges)}))
	}
	org := own["orgSpiffeId"].(string)
	other := strings.TrimSuffix(claims["sub"].(string), "bot") + "other"

	const altered = `{"valid":false,"error":"Passport is not the one that was issued under its ID","code":"VERIFICATION_ERROR"}`
	const alteredRotation = `{"error":"Passport is not the one that was issued under its ID","code":"VERIFICATION_ERROR"}`
	verify := func(token string) *reply {
		return acme.do(t, "POST /v1/passport/verify", `{"passport":"`+token+`"}`)
	}
	for _, test := range []struct{ name, agent, token string }{
		{"every scope", "bot", with(nil, object{"scopes": []string{"*"}})},
		{"one scope less", "bot", with(nil, object{"scopes": []string{"tool:read"}})},
		{"scopes in another order", "bot", with(nil, object{"scopes": []string{"tool:list", "tool:read"}})},
		{"a longer life", "bot", with(object{"exp": number("exp") + 60}, nil)},
		{"a shorter life", "bot", with(object{"exp": number("exp") - 60}, nil)},
		{"an earlier beginning", "bot", with(object{"iat": number("iat") - 60, "nbf": number("nbf") - 60}, nil)},
		{"another agent", "other", with(object{"sub": other}, object{"agentId": "other", "delegationChain": []string{org, other}})},
		{"a chain through somebody else", "bot", with(nil, object{"delegationChain": []string{org, other, claims["sub"].(string)}})},
	} {
		t.Run(test.name, func(t *testing.T) {
			verify(test.token).gets(400, altered)
			acme.do(t, "POST /v1/agents/"+test.agent+"/passport/rotate", "", passportName+test.token).gets(401, alteredRotation)
		})
	}
	early := with(object{"nbf": number("nbf") - 60}, nil) // no issued passport has this
	verify(early).gets(400, `{"valid":false,"error":"nbf must not be before iat","code":"MALFORMED_CLAIMS"}`)
	acme.do(t, rotate, "", passportName+early).gets(401, `{"error":"nbf must not be before iat","code":"MALFORMED_CLAIMS"}`)
	verify(passport).status(200)
	// These are the same claims in another spelling.
	acme.do(t, rotate, "", passportName+with(nil, nil)).status(200)
	verify(passport).gets(400, `{"valid":false,"error":"…","code":"PASSPORT_REVOKED"}`)
	verify(with(nil, object{"scopes": []string{"*"}})).gets(400, altered)
	var page struct{ Passports []object }
	acme.do(t, "GET /v1/passports", "").status(200).into(&page)
	if len(page.Passports) != 2 {
		t.Errorf("%d passports were issued, want the first and the one that it was rotated into", len(page.Passports))
	}
}
