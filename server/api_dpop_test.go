package server_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"attestd/crypto/jose"
	"attestd/crypto/jose/josetest"
	"attestd/server"
)

// demandsNonces makes the service one that was started with --dpop-nonce.
func demandsNonces(c *server.Config) { c.DPoPNonce = true }

// proofDraft is a DPoP proof that is not written yet.
type proofDraft struct {
	key            *jose.PrivateKey
	header, claims map[string]any
}

// drafts returns a maker of proofs that are valid except for one change.
func drafts(key *jose.PrivateKey, method, url, token string) func(change func(*proofDraft)) proofDraft {
	n := 0
	return func(change func(*proofDraft)) proofDraft {
		n++
		d := proofDraft{key, map[string]any{"typ": "dpop+jwt", "alg": key.Key().Algorithm, "jwk": json.RawMessage(key.Key().JWK())}, map[string]any{
			"jti": time.Now().Format(time.RFC3339Nano) + string(rune('a'+n%26)), "htm": method, "htu": url, "iat": time.Now().Unix(),
		}}
		if token != "" {
			sum := sha256.Sum256([]byte(token))
			d.claims["ath"] = base64.RawURLEncoding.EncodeToString(sum[:])
		}
		if change != nil {
			change(&d)
		}
		return d
	}
}

func (d proofDraft) sign(t testing.TB) string {
	return josetest.Forge(t, d.key, josetest.Marshal(t, d.header), josetest.Marshal(t, d.claims))
}

// Each proof passes the checks of RFC 9449 §4.3, at the token endpoint and with each kind of token.
func TestProofsAreChecked(t *testing.T) {
	t.Parallel()
	s := start(t, demandsNonces)
	acme := s.company(t, "acme")
	c, bot := acme.oauthClient(t, "admin"), acme.signer(t, "bot", jose.ES256)
	other := newKey(t, jose.ES256)
	nonce := s.nonce(t)
	withNonce := func(d *proofDraft) { d.claims["nonce"] = nonce }
	keys := "/v1/agents/bot/keys"
	tokenURL, keysURL := s.url+"/v1/oauth/token", s.url+keys

	clientKey := newKey(t, jose.EdDSA)
	header := func(d proofDraft) string { return "DPoP: " + d.sign(t) }
	ofClient := c.asks(t, nil, header(drafts(clientKey, "POST", tokenURL, "")(withNonce))).status(200).str("access_token")
	ofAgent := bot.anyone().do(t, tokenCall, signInBody(bot.assertion(t)), jsonType, header(drafts(bot.key, "POST", tokenURL, "")(withNonce))).status(200).str("access_token")

	places := []struct {
		name  string
		draft func(change func(*proofDraft)) proofDraft
		send  func(headers ...string) *reply
		token bool
	}{
		{"for a client's token", drafts(clientKey, "POST", tokenURL, ""), func(headers ...string) *reply { return c.asks(t, nil, headers...) }, false},
		{"for an agent's token", drafts(bot.key, "POST", tokenURL, ""), func(headers ...string) *reply {
			return bot.anyone().do(t, tokenCall, signInBody(bot.assertion(t)), append(headers, jsonType)...)
		}, false},
		{"beside a client's token", drafts(clientKey, "GET", keysURL, ofClient), func(headers ...string) *reply {
			return s.anyone().do(t, "GET "+keys, "", append(headers, "Authorization: DPoP "+ofClient)...)
		}, true},
		{"beside an agent's token", drafts(bot.key, "GET", keysURL, ofAgent), func(headers ...string) *reply {
			return s.anyone().do(t, "GET "+keys, "", append(headers, "Authorization: DPoP "+ofAgent)...)
		}, true},
	}
	claim := func(name string, value any) func(*proofDraft) {
		return func(d *proofDraft) {
			if d.claims[name] = value; value == nil {
				delete(d.claims, name)
			}
		}
	}
	head := func(name string, value any) func(*proofDraft) {
		return func(d *proofDraft) { d.header[name] = value }
	}
	rsa := json.RawMessage(`{"kty":"RSA","n":"AQAB","e":"AQAB"}`)
	rows := []struct {
		step   string // of RFC 9449 §4.3
		does   string
		change func(*proofDraft)
		write  func(proof string) []string // headers; nil sends one
		only   func(token bool) bool       // nil for everywhere
		passes bool
	}{
		{step: "0", does: "a sound one", passes: true},
		{step: "1", does: "two of them", write: func(p string) []string { return []string{"DPoP: " + p, "DPoP: " + p} }},
		{step: "2", does: "no JWT", write: func(string) []string { return []string{"DPoP: x"} }},
		{step: "2", does: "two in one header", write: func(p string) []string { return []string{"DPoP: " + p + ", " + p} }},
		{step: "2", does: "a JWE's five parts", write: func(p string) []string { return []string{"DPoP: " + p + "..x"} }},
		{step: "3", does: "no jti", change: claim("jti", nil)},
		{step: "3", does: "no htm", change: claim("htm", nil)},
		{step: "3", does: "no htu", change: claim("htu", nil)},
		{step: "3", does: "no iat", change: claim("iat", nil)},
		{step: "3", does: "an iat that is text", change: claim("iat", "now")},
		{step: "4", does: "typ JWT", change: head("typ", "JWT")},
		{step: "5", does: "alg none", change: head("alg", "none")},
		{step: "5", does: "alg HS256", change: head("alg", "HS256")},
		{step: "5", does: "an algorithm that is not taken", change: func(d *proofDraft) { d.header["alg"], d.header["jwk"] = "RS256", rsa }},
		{step: "6", does: "another key signed", change: func(d *proofDraft) { d.key = other }},
		{step: "6", does: "changed", write: func(p string) []string { return []string{"DPoP: " + tampered(p)} }},
		{step: "7", does: "a private key in jwk", change: func(d *proofDraft) {
			d.header["jwk"] = json.RawMessage(strings.TrimSuffix(d.key.Key().JWK(), "}") + `,"d":"AAAA"}`)
		}},
		{step: "8", does: "another method", change: claim("htm", "PUT")},
		{step: "8", does: "the method in lower case", change: func(d *proofDraft) { d.claims["htm"] = strings.ToLower(d.claims["htm"].(string)) }},
		{step: "9", does: "another path", change: claim("htu", s.url+"/v1/agents")},
		{step: "9", does: "another host", change: claim("htu", "http://attestd.example/v1/oauth/token")},
		{step: "9", does: "a query and a fragment do not count", change: func(d *proofDraft) { d.claims["htu"] = d.claims["htu"].(string) + "?q=1#f" }, passes: true},
		{step: "10", does: "no nonce", change: claim("nonce", nil)},
		{step: "10", does: "another nonce", change: claim("nonce", "eyJ7S_zG.eyJH0-Z.HX4w-7v")},
		{step: "10", does: "a nonce of tomorrow", change: claim("nonce", "AAAAAA"+nonce[6:])},
		{step: "10", does: "a nonce that is no text", change: claim("nonce", 7)},
		{step: "11", does: "six minutes old", change: claim("iat", time.Now().Unix()-360)},
		{step: "11", does: "of in six minutes", change: claim("iat", time.Now().Unix()+360)},
		{step: "11", does: "expired", change: claim("exp", time.Now().Unix()-1)},
		{step: "12", does: "no ath", change: claim("ath", nil), only: func(token bool) bool { return token }},
		{step: "12", does: "ath of another token", change: claim("ath", "fUHyO2r2Z3DZ53EsNrWBb0xWXoaNy59IiKCAqksmQEo"), only: func(token bool) bool { return token }},
		{step: "12", does: "another key", change: func(d *proofDraft) {
			d.key, d.header["jwk"], d.header["alg"] = other, json.RawMessage(other.Key().JWK()), "ES256"
		}, only: func(token bool) bool { return token }},
	}
	for _, p := range places {
		for _, r := range rows {
			if r.only != nil && !r.only(p.token) {
				continue
			}
			t.Run(p.name+"/"+r.step+" "+r.does, func(t *testing.T) {
				draft := p.draft(withNonce)
				if r.change != nil {
					r.change(&draft)
				}
				proof := draft.sign(t)
				headers := []string{"DPoP: " + proof}
				if r.write != nil {
					headers = r.write(proof)
				}
				answer := p.send(headers...)
				switch {
				case r.passes:
					answer.status(200)
					// §11.1: a jti counts once
					p.send(headers...).isRefusedProof(p.token, p.name == "for an agent's token")
				case r.step == "1":
					answer.status(400)
				default:
					answer.isRefusedProof(p.token, false)
				}
			})
		}
	}
}

// isRefusedProof requires the refusal of a proof, with an access token or at the token endpoint.
// There a repeated proof gets the same answer as a repeated assertion.
func (r *reply) isRefusedProof(withToken, ofAgent bool) {
	r.t.Helper()
	members, _ := r.json.(map[string]any)
	codes := map[any]int{"INVALID_DPOP_PROOF": 401, "USE_DPOP_NONCE": 401}
	got := members["code"]
	if !withToken {
		codes, got = map[any]int{"invalid_dpop_proof": 400, "use_dpop_nonce": 400}, members["error"]
		if ofAgent {
			codes["invalid_client"] = 401
		}
	}
	if r.code != codes[got] {
		r.t.Errorf("%d %s", r.code, r.raw)
	}
}

// nonce asks for the nonce of the service with a proof that has none.
func (s *service) nonce(t testing.TB) string {
	t.Helper()
	acme := s.company(t, fmt.Sprint("nonces-", nonceAsked.Add(1)))
	c, key := acme.oauthClient(t, "reader"), newKey(t, jose.EdDSA)
	answer := c.asks(t, nil, signer{caller: acme}.proof(t, key, "POST", "/v1/oauth/token", ""))
	return answer.gets(400, `{"error":"use_dpop_nonce","error_description":"…"}`).header.Get("DPoP-Nonce")
}

// nonceAsked counts the calls of nonce.
var nonceAsked atomic.Int64

// handsOut requires that an answer hands out this nonce, or the one of now if the time of this has
// passed.
func (s *service) handsOut(t testing.TB, answer *reply, nonce string) {
	t.Helper()
	if got := answer.header.Get("DPoP-Nonce"); got == "" || got != nonce && got != s.nonce(t) {
		t.Errorf("handed out %q, and then %q", nonce, got)
	}
}

// A refusal hands out the nonce that the next proof has to repeat, and so does each answer to a
// proof; two servers of one database accept each other's. It is refused when two windows have
// passed.
func TestNonceIsHandedOut(t *testing.T) {
	t.Parallel()
	s := start(t, demandsNonces)
	acme := s.company(t, "acme")
	c, key := acme.oauthClient(t, "admin"), newKey(t, jose.ES256)
	by := signer{caller: acme}
	refused := c.asks(t, nil, by.proof(t, key, "POST", "/v1/oauth/token", "")).gets(400, `{"error":"use_dpop_nonce","error_description":"…"}`)
	nonce := refused.header.Get("DPoP-Nonce")
	withNonce := func(d *proofDraft) { d.claims["nonce"] = nonce }
	issued := c.asks(t, nil, "DPoP: "+drafts(key, "POST", s.url+"/v1/oauth/token", "")(withNonce).sign(t)).status(200)
	s.handsOut(t, issued, nonce)
	token := issued.str("access_token")
	call := func(proof string) *reply {
		return s.anyone().do(t, "GET /v1/agents", "", "Authorization: DPoP "+token, "DPoP: "+proof)
	}
	draft := drafts(key, "GET", s.url+"/v1/agents", token)
	none := call(draft(nil).sign(t)).gets(401, `{"error":"Unauthorized: …","code":"USE_DPOP_NONCE"}`)
	none.sets(`WWW-Authenticate: DPoP error="use_dpop_nonce", algs="EdDSA Ed25519 ES256", scope="reader", resource_metadata="…"`)
	s.handsOut(t, none, nonce)
	call(draft(withNonce).sign(t)).status(200)

	// a request without a proof gets no error about proofs
	if got := acme.do(t, "GET /v1/agents", "").header; got.Get("DPoP-Nonce") != "" {
		t.Errorf("headers %v", got)
	}
	plain := maps.Clone(start(t).company(t, "acme").do(t, "GET /v1/agents", "", "DPoP: x").header)
	if plain.Get("DPoP-Nonce") != "" {
		t.Errorf("headers %v", plain)
	}
}
