package server_test

import (
	"fmt"
	"testing"
	"time"

	"attestd/crypto/dpop"
	"attestd/crypto/jose"
	"attestd/internal/must"
)

// A passport that is bound to a key is worth nothing without a new proof of that key for the call
// with which it comes.
func TestBoundPassportNeedsProof(t *testing.T) {
	t.Parallel()
	acme := start(t).company(t, "acme")
	a, other := acme.signer(t, "bot", jose.ES256), acme.signer(t, "other", jose.EdDSA)
	issue := func(jkt string) *reply {
		return acme.do(t, "POST /v1/agents/bot/passport", `{"jkt":"`+jkt+`"}`)
	}
	issue(other.thumbprint()).gets(400, `{"error":"Invalid field: jkt must be the thumbprint of a live key of the agent"}`)
	issue("x").gets(400, `{"error":"Invalid field: jkt must be a thumbprint of RFC 7638, SHA-256"}`)
	acme.do(t, "POST /v1/agents/bot/passport", `{"jtk":"`+a.thumbprint()+`"}`).status(400)
	passport := issue(a.thumbprint()).status(201).str("passport")
	const tool = "https://tools.example/deploy"
	proof := func(key *jose.PrivateKey, method, url, token string) string {
		made, err := dpop.Make(t.Context(), key, dpop.Request{Method: method, URL: url, AccessToken: token}, time.Now())
		must.OK(t, err)
		return made
	}
	verify := func(passport, proof, method, url string) *reply {
		return acme.do(t, "POST /v1/passport/verify", fmt.Sprintf(`{"passport":%q,"proof":%q,"htm":%q,"htu":%q}`, passport, proof, method, url))
	}
	good := proof(a.key, "POST", tool, passport)
	verify(passport, good, "POST", tool).has(`{"valid":true,"claims":{"cnf":{"jkt":"` + a.thumbprint() + `"}}}`)
	const notProven = `{"valid":false,"error":"Passport is not proven: …","code":"NOT_PROVEN"}`
	acme.do(t, "POST /v1/passport/verify", `{"passport":"`+passport+`"}`).gets(400, notProven)
	verify(passport, good, "POST", tool).gets(400, notProven) // once
	verify(passport, proof(a.key, "POST", tool, passport), "GET", tool).gets(400, notProven)
	verify(passport, proof(a.key, "POST", tool, passport), "POST", "https://elsewhere.example/").gets(400, notProven)
	verify(passport, proof(a.key, "POST", tool, ""), "POST", tool).gets(400, notProven)
	verify(passport, proof(other.key, "POST", tool, passport), "POST", tool).gets(400, notProven)
	acme.do(t, "POST /v1/passport/verify", `{"passport":"`+passport+`","proof":7}`).status(400)

	unbound := acme.passport(t, "bot", "")
	verify(unbound, proof(a.key, "POST", tool, unbound), "POST", tool).gets(400, notProven)

	rotated := acme.do(t, "POST /v1/agents/bot/passport/rotate", "", "Service-Passport: "+passport).status(200).str("passport")
	acme.do(t, "POST /v1/passport/verify", `{"passport":"`+rotated+`"}`).gets(400, notProven)
	verify(rotated, proof(a.key, "POST", tool, rotated), "POST", tool).status(200)
	acme.do(t, "DELETE "+a.keys()+"/"+a.thumbprint(), "").status(200)
	verify(rotated, proof(a.key, "POST", tool, rotated), "POST", tool).gets(400, notProven)
	acme.do(t, "GET /v1/verify?log=control", "").has(`{"valid":true}`)
}
