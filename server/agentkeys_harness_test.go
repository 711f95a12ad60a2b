package server_test

import (
	"crypto/elliptic"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
	"sync"
	"testing"
	"time"

	"attestd/crypto/assertion"
	"attestd/crypto/dpop"
	"attestd/crypto/jose"
	"attestd/crypto/statement"
	"attestd/internal/must"
)

// signer is an agent with a key of its own, on the machine where it runs.
type signer struct {
	caller
	agentID string
	key     *jose.PrivateKey
}

// signer registers an agent and enrols a key of it with the company's credential.
func (c caller) signer(t testing.TB, agentID, algorithm string) signer {
	t.Helper()
	c.agent(t, agentID)
	a := signer{c, agentID, newKey(t, algorithm)}
	a.enrol(t, a.key).status(201)
	return a
}

func newKey(t testing.TB, algorithm string) *jose.PrivateKey {
	t.Helper()
	key, err := jose.GenerateKey(algorithm)
	must.OK(t, err)
	return key
}

func (a signer) thumbprint() string { return a.key.Key().Thumbprint }

// enrol asks for a key of the agent, with a proof of possession, and again with the nonce that the
// service demands. members are added next to the jwk.
func (a signer) enrol(t testing.TB, key *jose.PrivateKey, members ...string) *reply {
	t.Helper()
	answer := a.do(t, "POST "+a.keys(), enrolBody(key, members...), a.proof(t, key, "POST", a.keys(), ""))
	if nonce := answer.header.Get("DPoP-Nonce"); answer.code == 400 && nonce != "" {
		proof := drafts(key, "POST", a.url+a.keys(), "")(func(d *proofDraft) { d.claims["nonce"] = nonce }).sign(t)
		answer = a.do(t, "POST "+a.keys(), enrolBody(key, members...), "DPoP: "+proof)
	}
	return answer
}

func (a signer) keys() string { return "/v1/agents/" + a.agentID + "/keys" }

func enrolBody(key *jose.PrivateKey, members ...string) string {
	return "{" + strings.Join(append([]string{`"jwk":` + key.Key().JWK()}, members...), ",") + "}"
}

// proof is a header DPoP for a request.
func (a signer) proof(t testing.TB, key *jose.PrivateKey, method, path, token string) string {
	t.Helper()
	proof, err := dpop.Make(t.Context(), key, dpop.Request{Method: method, URL: a.url + path, AccessToken: token}, time.Now())
	must.OK(t, err)
	return "DPoP: " + proof
}

func (a signer) spiffe() string        { return a.companySPIFFE() + "/agent/" + a.agentID }
func (c caller) companySPIFFE() string { return "spiffe://attestd.local/company/" + c.id }

// claims are those of a statement of an action.
func (a signer) claims(t testing.TB, actionType, payload string) statement.Claims {
	t.Helper()
	hash, err := statement.HashAction(actionType, a.agentID, a.id, []byte(payload))
	must.OK(t, err)
	return statement.Claims{Issuer: a.spiffe(), Audience: a.companySPIFFE(), Log: a.origin(t), IssuedAt: time.Now().Unix(), ActionHash: hash}
}

// origin is that of the company's log of actions, which statements name.
func (a signer) origin(t testing.TB) string {
	t.Helper()
	name := logName{a.service, a.id}
	known, is := origins.Load(name)
	if !is {
		known = a.do(t, "GET "+a.keys(), "").status(200).str("log")
		origins.Store(name, known)
	}
	return known.(string)
}

// origins are those that were asked for already, by logName.
var origins sync.Map

type logName struct {
	server  *service
	company string
}

// states signs claims.
func (a signer) states(t testing.TB, c statement.Claims) *statement.Statement {
	t.Helper()
	s, err := statement.Make(t.Context(), a.key, c)
	must.OK(t, err)
	return s
}

// attests appends an action with a statement; the action is note.
func (a signer) attests(t testing.TB, payload, compact string) *reply {
	t.Helper()
	return a.do(t, "POST /v1/attest", attestBody(a.agentID, payload, compact))
}

func attestBody(agentID, payload, compact string) string {
	body := fmt.Sprintf(`{"agentId":%q,"actionType":"note","payload":%s`, agentID, payload)
	if compact != "" {
		body += fmt.Sprintf(`,"statement":%q`, compact)
	}
	return body + "}"
}

// assertion is what the agent signs in with.
func (a signer) assertion(t testing.TB) string {
	t.Helper()
	text, err := assertion.Make(t.Context(), a.key, a.spiffe(), a.url+"/v1/oauth/token", time.Now())
	must.OK(t, err)
	return text
}

// signInBody is the body of a request for a token.
func signInBody(assertionText string) string {
	body, _ := json.Marshal(map[string]string{"grant_type": "client_credentials", "client_assertion_type": assertion.Type, "client_assertion": assertionText})
	return string(body)
}

const tokenCall = "POST /v1/oauth/token"

// signsIn returns the same agent with an access token of its own.
func (a signer) signsIn(t testing.TB, headers ...string) signer {
	t.Helper()
	answer := a.with("").do(t, tokenCall, signInBody(a.assertion(t)), append(headers, "Content-Type: application/json")...).status(200)
	a.caller = a.with(answer.str("access_token"))
	return a
}

// endorses signs for the next key.
func (a signer) endorses(t testing.TB, next *jose.PrivateKey) string {
	t.Helper()
	e, err := statement.MakeEndorsement(t.Context(), a.key, statement.EndorsementClaims{
		Issuer: a.spiffe(), Audience: a.companySPIFFE(), IssuedAt: time.Now().Unix(), Next: next.Key().Thumbprint,
	})
	must.OK(t, err)
	return e.Compact
}

// twin is another valid ES256 signature of the same text: N - S replaces S.
func twin(t testing.TB, compact string) string {
	t.Helper()
	head, sig := compact[:len(compact)-86], compact[len(compact)-86:]
	raw, err := base64.RawURLEncoding.DecodeString(sig)
	must.OK(t, err)
	s := new(big.Int).SetBytes(raw[32:])
	s.Sub(elliptic.P256().Params().N, s)
	s.FillBytes(raw[32:])
	return head + base64.RawURLEncoding.EncodeToString(raw)
}
