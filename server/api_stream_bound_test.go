package server_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/gorilla/websocket"

	"attestd/crypto/jose"
	"attestd/internal/testenv"
	"attestd/server"
)

// offers are the subprotocols with which a browser presents a bound token.
func offers(token, proof string) string {
	return "Sec-WebSocket-Protocol: attestd.bearer, " + token + ", attestd.dpop, " + proof
}

// An access token that is bound to a key opens the stream with a proof of that key alone: in the
// headers, or in a second subprotocol, because a browser sets no header. A client that has only the
// token receives nothing.
func TestBoundTokenAtTheStream(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	for name, change := range map[string]func(*server.Config){"plain": func(*server.Config) {}, "with nonces": demandsNonces} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, change)
			acme, zoo := s.company(t, "acme"), s.company(t, "zoo")
			client, key, other := acme.oauthClient(t, "reader"), newKey(t, jose.ES256), newKey(t, jose.ES256)
			nonce := ""
			if name != "plain" {
				nonce = s.nonce(t)
			}
			withNonce := func(d *proofDraft) {
				if nonce != "" {
					d.claims["nonce"] = nonce
				}
			}
			tokenProof := drafts(key, "POST", s.url+"/v1/oauth/token", "")(withNonce).sign(t)
			token := client.asks(t, nil, "DPoP: "+tokenProof).status(200).str("access_token")
			draft := drafts(key, "GET", s.url+"/v1/ws", token)
			changed := func(change func(*proofDraft)) string {
				return draft(func(d *proofDraft) { withNonce(d); change(d) }).sign(t)
			}
			proof := func() string { return draft(withNonce).sign(t) }
			claim := func(name string, value any) string {
				return changed(func(d *proofDraft) { d.claims[name] = value })
			}
			open := func(headers ...string) *reply {
				return s.anyone().do(t, "GET /v1/ws", "", append(headers, handshake...)...)
			}
			const bearer = "Sec-WebSocket-Protocol: attestd.bearer, "
			for does, headers := range map[string][]string{
				"as a subprotocol alone":             {bearer + token},
				"by the scheme Bearer":               {"Authorization: Bearer " + token},
				"by the scheme Bearer, with a proof": {"Authorization: Bearer " + token, "DPoP: " + proof()},
				"by the scheme DPoP, without one":    {"Authorization: DPoP " + token},
				"as a subprotocol, with a header":    {bearer + token, "DPoP: " + proof()},
				"with an empty proof":                {bearer + token + ", attestd.dpop"},
				"with anything":                      {offers(token, "x")},
				"with a proof of another key": {offers(token, changed(func(d *proofDraft) {
					d.key, d.header["jwk"] = other, json.RawMessage(other.Key().JWK())
				}))},
				"with a proof for another method":     {offers(token, claim("htm", "POST"))},
				"with a proof for another path":       {offers(token, claim("htu", s.url+"/v1/chain"))},
				"with a proof for the scheme ws":      {offers(token, claim("htu", strings.Replace(s.url, "http", "ws", 1)+"/v1/ws"))},
				"with a proof for another token":      {offers(token, claim("ath", "fUHyO2r2Z3DZ53EsNrWBb0xWXoaNy59IiKCAqksmQEo"))},
				"with two proofs":                     {offers(token, proof()) + ", attestd.dpop, " + proof()},
				"that is twice there":                 {offers(token, proof()) + ", attestd.bearer, " + token},
				"and a bearer token with a proof":     {offers(client.token(t), proof())},
				"and an API key with a proof":         {offers(acme.credential, proof())},
				"and an enrolment token with a proof": {offers("enr_x", proof())},
			} {
				if answer := open(headers...); answer.code != 401 {
					t.Errorf("%s: %d %s", does, answer.code, answer.raw)
				}
			}
			if nonce != "" {
				refused := open(offers(token, draft(nil).sign(t))).gets(401, `{"error":"Unauthorized: …","code":"USE_DPOP_NONCE"}`)
				s.handsOut(t, refused, nonce)
			}
			once := proof()
			browser := s.anyone().listen(t, offers(token, once))
			if got := browser.res.Header.Get("Sec-WebSocket-Protocol"); got != "attestd.bearer" {
				t.Errorf("the subprotocol is %q", got)
			}
			open(offers(token, once)).gets(401, `{"error":"Unauthorized: DPoP proof was used before…","code":"INVALID_DPOP_PROOF"}`)
			program := s.anyone().listen(t, "Authorization: DPoP "+token, "DPoP: "+proof())
			zoo.attestMany(t, 1)
			acme.attestMany(t, 1)
			for _, l := range []*listener{browser, program} {
				l.valid("acme", 0)
			}
			// it ends with the token, as every stream
			acme.about(t, "acme", "revoke", token).gets(200, `{}`)
			for _, l := range []*listener{browser, program} {
				if _, _, err := l.conn.ReadMessage(); !websocket.IsCloseError(err, websocket.ClosePolicyViolation) {
					t.Errorf("the stream ends with %v", err)
				}
			}
			open(offers(token, proof())).gets(401, `{"error":"Unauthorized: …"}`)
		})
	}
}

// An agent may not follow the stream, however it signs in: with a proof it is known, and refused.
func TestAgentsDoNotFollowTheStream(t *testing.T) {
	t.Parallel()
	acme := start(t).company(t, "acme")
	bot := acme.signer(t, "bot", jose.EdDSA)
	bound := bot.signsIn(t, bot.proof(t, bot.key, "POST", "/v1/oauth/token", ""))
	proof := strings.TrimPrefix(bot.proof(t, bot.key, "GET", "/v1/ws", bound.credential), "DPoP: ")
	bot.anyone().do(t, "GET /v1/ws", "", append(handshake, offers(bound.credential, proof))...).gets(403, `{"error":"Forbidden: …","code":"FORBIDDEN_ROLE"}`)
	bot.signsIn(t).do(t, "GET /v1/ws", "", handshake...).gets(403, `{"error":"Forbidden: …","code":"FORBIDDEN_ROLE"}`)
}
