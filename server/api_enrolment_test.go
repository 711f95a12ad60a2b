package server_test

import (
	"strings"
	"testing"

	"attestd/crypto/jose"
)

// enrolling is the caller with a new enrolment token of an agent.
func (c caller) enrolling(t testing.TB, agentID string) caller {
	t.Helper()
	return c.with(c.do(t, "POST /v1/agents/"+agentID+"/enrolments", `{}`).status(201).str("token"))
}

// A token shows its holder whose key it can enrol, until it is spent.
func TestEnrolmentTokenNamesItsAgent(t *testing.T) {
	t.Parallel()
	acme := start(t).company(t, "acme")
	a := signer{acme, "bot", newKey(t, "EdDSA")}
	acme.agent(t, "bot")
	holder := acme.enrolling(t, "bot")
	for range 2 {
		holder.do(t, "GET /v1/enrolment", "").status(200).has(`{"agentId":"bot","companyId":"acme","spiffeId":"spiffe://attestd.local/company/acme/agent/bot"}`)
	}
	holder.do(t, "GET /v1/enrolment?agent=bot", "").gets(400, `{"error":"…"}`)
	acme.do(t, "GET /v1/enrolment", "").gets(403, `{"error":"Forbidden: …","code":"FORBIDDEN_ROLE"}`)
	signer{holder, "bot", a.key}.enrol(t, a.key).status(201)
	holder.do(t, "GET /v1/enrolment", "").gets(401, `{"error":"Unauthorized"}`)
}

// An enrolment token enrols a key of its agent, and does nothing else: no OAuth endpoint accepts
// it, and no stream. That of a disabled agent does nothing at all.
func TestEnrolmentTokenDoesNothingElse(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	bot, colleague := acme.signer(t, "bot", jose.EdDSA), acme.agent(t, "colleague")
	client := acme.oauthClient(t, "admin").token(t)
	own := bot.signsIn(t)
	disabled := acme.enrolling(t, "bot")
	acme.do(t, "POST /v1/agents/bot/disable", "").status(200)
	const forbidden = `{"error":"Forbidden: …","code":"FORBIDDEN_ROLE"}`
	for name, holder := range map[string]caller{"live": acme.enrolling(t, "colleague"), "of a disabled agent": disabled} {
		t.Run(name, func(t *testing.T) {
			for _, token := range []string{client, own.credential, holder.credential} {
				holder.about(t, "acme", "introspect", token).gets(403, forbidden)
				holder.about(t, "acme", "revoke", token).gets(403, forbidden)
			}
			for _, path := range []string{"/o/acme/token", "/v1/oauth/token"} {
				for _, subject := range []string{colleague, own.credential} {
					body := oauthForm("grant_type", grant, "subject_token", subject, "subject_token_type", typeOf(subject))
					holder.do(t, "POST "+path, body, formType).gets(400, `{"error":"unauthorized_client","error_description":"…"}`)
				}
			}
			holder.do(t, "GET /v1/ws", "", handshake...).gets(403, forbidden)
			holder.with("").do(t, "GET /v1/ws", "", append(handshake, "Sec-WebSocket-Protocol: attestd.bearer, "+holder.credential)...).gets(403, forbidden)
			holder.do(t, "GET /v1/agents/colleague/keys", "").gets(403, forbidden)
		})
	}
	disabled.do(t, "GET /v1/enrolment", "").gets(403, `{"error":"Agent is disabled: bot","code":"AGENT_DISABLED"}`)
	next := newKey(t, jose.ES256)
	signer{disabled, "bot", next}.enrol(t, next).gets(403, `{"error":"Agent is disabled: bot","code":"AGENT_DISABLED"}`)
	acme.do(t, "POST /v1/agents/bot/enable", "").status(200)
	acme.with(client).do(t, "GET /v1/company", "").status(200)
	own.do(t, "GET "+bot.keys(), "").status(200)
	signer{disabled, "bot", next}.enrol(t, next).status(201)
}

// The proof of possession counts once, at one company: a third party who sees it cannot enrol the
// key anywhere else.
func TestEnrolmentProofCountsOnce(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme, zoo := s.company(t, "acme"), s.company(t, "zoo")
	for _, c := range []caller{acme, zoo} {
		c.agent(t, "bot")
	}
	const used = `{"error":"…: DPoP proof was used before: …","code":"INVALID_DPOP_PROOF"}`
	key := newKey(t, jose.ES256)
	own := signer{acme.enrolling(t, "bot"), "bot", key}
	proof := own.proof(t, key, "POST", own.keys(), "")
	// a refused attempt spends the proof, and not the token
	own.do(t, "POST "+own.keys(), enrolBody(key, `"endorsement":"x.y.z"`), proof).gets(400, `{"error":"…","code":"ENDORSEMENT_INVALID"}`)
	for _, who := range []caller{zoo, zoo.enrolling(t, "bot"), acme, own.caller} {
		who.do(t, "POST "+own.keys(), enrolBody(key), proof).gets(400, used)
		who.do(t, "POST "+own.keys(), enrolBody(key, `"proof":"`+strings.TrimPrefix(proof, "DPoP: ")+`"`)).gets(400, used)
	}
	own.enrol(t, key).status(201)
	// an enrolled key stays the company's alone with the proof that enrolled it
	next := newKey(t, jose.EdDSA)
	proof = own.proof(t, next, "POST", own.keys(), "")
	acme.do(t, "POST "+own.keys(), enrolBody(next), proof).status(201)
	zoo.do(t, "POST "+own.keys(), enrolBody(next), proof).gets(400, used)
}

// With --dpop-nonce the proof repeats the nonce of the service; without it the refusal names one,
// and spends nothing.
func TestEnrolmentProofNeedsNonce(t *testing.T) {
	t.Parallel()
	s := start(t, demandsNonces)
	acme := s.company(t, "acme")
	acme.agent(t, "bot")
	key := newKey(t, jose.ES256)
	a := signer{acme.enrolling(t, "bot"), "bot", key}
	refused := a.do(t, "POST "+a.keys(), enrolBody(key), a.proof(t, key, "POST", a.keys(), "")).gets(400, `{"error":"…","code":"USE_DPOP_NONCE"}`)
	nonce := refused.header.Get("DPoP-Nonce")
	if nonce == "" {
		t.Fatalf("headers %v", refused.header)
	}
	draft := drafts(key, "POST", s.url+a.keys(), "")
	stale := draft(func(d *proofDraft) { d.claims["nonce"] = "AAAAAA" + nonce[6:] }).sign(t)
	// in the member, where the header has none that tells the service to name one
	s.handsOut(t, a.do(t, "POST "+a.keys(), enrolBody(key, `"proof":"`+stale+`"`)).gets(400, `{"error":"…","code":"USE_DPOP_NONCE"}`), nonce)
	fresh := draft(func(d *proofDraft) { d.claims["nonce"] = nonce }).sign(t)
	a.do(t, "POST "+a.keys(), enrolBody(key), "DPoP: "+fresh).status(201)
}
