package attack

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"attestd/crypto/assertion"
	"attestd/crypto/cred"
	"attestd/crypto/jose"
	"attestd/crypto/statement"
	"attestd/internal/harness"
)

var localDomain = cred.Domain{TrustDomain: "attestd.local"} // serve's default

// insider is an agent of a company with a key of its own, and what an attacker who is that agent
// has.
type insider struct {
	company, agent string
	log            string // origin of the company's log of actions
	key            *jose.PrivateKey
	bearer, bound  string // access tokens
}

func (a *insider) kid() string    { return a.key.Key().Thumbprint }
func (a *insider) spiffe() string { return localDomain.AgentID(a.company, a.agent) }

const (
	insiderAction  = "pay"
	insiderPayload = `{"amount":1}`
)

// claims are those of a sound statement of the agent.
func (a *insider) claims() object {
	// what is JSON has a hash
	hash, _ := statement.HashAction(insiderAction, a.agent, a.company, []byte(insiderPayload))
	return object{
		"iss": a.spiffe(), "aud": localDomain.CompanyID(a.company), "log": a.log, "iat": time.Now().Unix(), "jti": rawID(), "action_hash": hash,
	}
}

// ownClaims are a sound assertion's claims.
func (a *insider) ownClaims(endpoint string) object {
	return object{"iss": a.spiffe(), "sub": a.spiffe(), "aud": endpoint, "jti": rawID(), "exp": time.Now().Unix() + 60}
}

// attest is a request that records the action with a statement, "" for none.
func (a *insider) attest(credential, compact string) harness.Request {
	body := fmt.Sprintf(`{"agentId":%q,"actionType":%q,"payload":%s`, a.agent, insiderAction, insiderPayload)
	if compact != "" {
		body += fmt.Sprintf(`,"statement":%q`, compact)
	}
	return harness.Request{Method: "POST", Path: "/v1/attest", Key: credential, Body: body + "}"}
}

const (
	tokenPath     = "/v1/oauth/token"
	tokenEndpoint = harness.Base + tokenPath
)

// signIn is a request for an access token.
func signIn(text string, header ...string) harness.Request {
	form := url.Values{"grant_type": {"client_credentials"}, "client_assertion_type": {assertion.Type}, "client_assertion": {text}}
	return harness.Request{Method: "POST", Path: tokenPath, Body: form.Encode(), Header: append(header, "Content-Type: application/x-www-form-urlencoded")}
}

// plot is a company with two agents, and another company with one, on one server.
type plot struct {
	*run
	*harness.Client
	admin, writer     string
	victim, evil      *insider // of acme
	foreign           *insider // of globex, with the name and the admin's credential of its own
	foreignAdmin      string
	attempts, records int
}

// agentKeys tries to speak for another agent: with tokens, proofs, assertions and statements that
// are another's, forged or repeated, and by writing the database.
func agentKeys(ctx context.Context, r *run) error {
	s, db, err := r.Lab.ServeNew(ctx, "--rate-limits", "off")
	if err != nil {
		return err
	}
	defer func() { _ = s.Stop() }()
	p := &plot{run: r, Client: &harness.Client{Addr: s.Addr}}
	defer p.Close()
	if err := p.prepare(); err != nil {
		return err
	}
	for _, attack := range []func() error{p.asAnother, p.boundAtTheStream, p.forgedStatements, p.movedStatements, p.forgedSignIns, p.replays, p.enrolments, p.bounds} {
		if err := attack(); err != nil {
			return err
		}
	}
	if err := p.nothingRecorded(); err != nil {
		return err
	}
	r.Count(p.attempts, "attempts")
	if err := s.Stop(); err != nil {
		return err
	}
	if _, err := r.Lab.Verify(ctx, db); err != nil {
		return err
	}
	return p.writers(ctx, db)
}

func (p *plot) prepare() (err error) {
	if p.admin, err = p.Register("acme"); err != nil {
		return err
	}
	if p.foreignAdmin, err = p.Register("globex"); err != nil {
		return err
	}
	var made struct{ Key string }
	if err := p.Call(201, harness.Request{Method: "POST", Path: "/v1/keys", Key: p.admin, Body: `{"role":"writer"}`}, &made); err != nil {
		return err
	}
	p.writer = made.Key
	for _, a := range []struct {
		into                             **insider
		company, admin, agent, algorithm string
	}{{&p.victim, "acme", p.admin, "bot", jose.ES256}, {&p.evil, "acme", p.admin, "evil", jose.EdDSA}, {&p.foreign, "globex", p.foreignAdmin, "bot", jose.EdDSA}} {
		if *a.into, err = p.insider(a.company, a.admin, a.agent, a.algorithm); err != nil {
			return err
		}
	}
	return p.Call(200, harness.Request{Method: "PUT", Path: "/v1/agents/bot/policy", Key: p.admin, Body: `{"attest":"key"}`}, nil)
}

// insider registers an agent, enrols a key of it, and signs in twice.
func (p *plot) insider(company, admin, agent, algorithm string) (*insider, error) {
	a := &insider{company: company, agent: agent}
	err := p.Call(201, harness.Request{Method: "POST", Path: "/v1/agents/register", Key: admin, Body: fmt.Sprintf(`{"agentId":%q}`, agent)}, nil)
	if err == nil {
		a.log, err = actionsOf(p.Client, admin)
	}
	if err == nil {
		a.key, err = enrolKey(p.Client, admin, agent, algorithm)
	}
	if err == nil {
		a.bearer, err = a.signIn(p.Client, false)
	}
	if err == nil {
		a.bound, err = a.signIn(p.Client, true)
	}
	return a, err
}

// signIn returns an access token, which may be bound to the key.
func (a *insider) signIn(c *harness.Client, bound bool) (string, error) {
	var header []string
	if bound {
		proof, err := proofOf(a.key, "POST", tokenPath, "")
		if err != nil {
			return "", err
		}
		header = []string{proof}
	}
	var issued struct {
		AccessToken string `json:"access_token"`
	}
	forged := forgedJWS(a.key, object{"alg": a.key.Key().Algorithm, "kid": a.kid()}, a.ownClaims(tokenEndpoint))
	err := c.Call(200, signIn(forged, header...), &issued)
	return issued.AccessToken, err
}

// refused sends a request, which must be answered with a status and a code, if it is not "".
func (p *plot) refused(what string, request harness.Request, status int, code string) error {
	p.attempts++
	a, err := p.Do(request)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", what, err)
	case a.Status != status || !strings.Contains(string(a.Body), code):
		p.Errorf("%s is answered %d with %.300s, not %d %s", what, a.Status, a.Body, status, code)
	}
	return nil
}

// allRefused sends requests by name, all with one answer.
func (p *plot) allRefused(status int, code string, requests map[string]harness.Request) error {
	var all error
	for what, request := range requests {
		all = errors.Join(all, p.refused(what, request, status, code))
	}
	return all
}

// accepted sends a sound request, so that what is refused is refused for its fault alone.
func (p *plot) accepted(what string, request harness.Request, status int) error {
	a, err := p.Do(request)
	if err == nil && a.Status != status {
		p.Errorf("%s, which is sound, is answered %d: %.300s", what, a.Status, a.Body)
	}
	if request.Path == "/v1/attest" && a.Status == 201 && a.Header.Get("Idempotent-Replayed") == "" {
		p.records++
	}
	return err
}

// asAnother uses an agent's own tokens for another agent, and for what no agent may.
func (p *plot) asAnother() error {
	v, e := p.victim, p.evil
	sound := forgedJWS(v.key, statementHeader(v), v.claims())
	dpopOf := func(key *jose.PrivateKey, token string) harness.Request {
		proof, _ := proofOf(key, "POST", "/v1/attest", token) // the URL is sound
		request := v.attest("", "")
		request.Header = []string{"Authorization: DPoP " + token, proof}
		return request
	}
	bearerOfBound := v.attest(v.bound, "")
	proof, _ := proofOf(v.key, "POST", "/v1/attest", v.bound)
	bearerOfBound.Header = []string{proof}
	unproven := v.attest("", "")
	unproven.Header = []string{"Authorization: DPoP " + v.bound}
	err := errors.Join(
		p.accepted("an agent's own record", e.attest(e.bearer, ""), 201),
		p.allRefused(403, "FORBIDDEN_AGENT", map[string]harness.Request{
			"another agent's name with an own token":        v.attest(e.bearer, ""),
			"another agent's statement with an own token":   v.attest(e.bearer, sound),
			"another agent in a batch":                      {Method: "POST", Path: "/v1/attest/batch", Key: e.bearer, Body: `{"records":[` + e.attest("", "").Body + `,` + v.attest("", "").Body + `]}`},
			"another agent at a hook":                       {Method: "POST", Path: "/v1/hooks/claude-code?agent=bot", Key: e.bearer, Body: events("s", "c", `{}`, "x")[0]},
			"another agent's keys":                          {Method: "GET", Path: keysOf("bot"), Key: e.bearer},
			"another agent's key revoked":                   {Method: "DELETE", Path: keysOf("bot") + "/" + v.kid(), Key: e.bearer},
			"another agent's SVID":                          {Method: "GET", Path: "/v1/agents/bot/svid", Key: e.bearer},
			"another agent's name in other percent escapes": {Method: "GET", Path: "/v1/agents/%62ot/svid", Key: e.bearer},
		}),
		p.allRefused(403, "FORBIDDEN_ROLE", map[string]harness.Request{
			"a key of the company by an agent":      {Method: "POST", Path: "/v1/keys", Key: e.bearer, Body: `{}`},
			"an enrolment token by an agent":        {Method: "POST", Path: "/v1/agents/evil/enrolments", Key: e.bearer, Body: `{}`},
			"a policy by an agent":                  {Method: "PUT", Path: "/v1/agents/bot/policy", Key: e.bearer, Body: `{"attest":"any"}`},
			"a policy by a writer":                  {Method: "PUT", Path: "/v1/agents/bot/policy", Key: p.writer, Body: `{"attest":"any"}`},
			"the company's policy by a writer":      {Method: "PUT", Path: "/v1/company/policy", Key: p.writer, Body: `{"attest":"any"}`},
			"the log by an agent":                   {Method: "GET", Path: "/v1/chain", Key: e.bearer},
			"a key of an agent revoked by a writer": {Method: "DELETE", Path: keysOf("bot") + "/" + v.kid(), Key: p.writer},
			"an enrolment token by a writer":        {Method: "POST", Path: "/v1/agents/bot/enrolments", Key: p.writer, Body: `{}`},
		}),
		p.allRefused(401, "", map[string]harness.Request{
			"a bound token as Bearer, with a proof": bearerOfBound,
			"a bound token as Bearer":               v.attest(v.bound, ""),
			"a bound token without a proof":         unproven,
			"a bound token with another's proof":    dpopOf(e.key, v.bound),
			"a bearer token as DPoP":                dpopOf(e.key, e.bearer),
			"an API key as DPoP":                    dpopOf(e.key, p.admin),
		}),
		p.allRefused(403, "AGENT_KEY_REQUIRED", map[string]harness.Request{
			"a protected agent without a statement, by an admin": v.attest(p.admin, ""),
			"a protected agent without a statement, by a writer": v.attest(p.writer, ""),
			"a protected agent without a statement, by itself":   v.attest(v.bearer, ""),
			"a protected agent in a batch":                       {Method: "POST", Path: "/v1/attest/batch", Key: p.admin, Body: `{"records":[` + v.attest("", "").Body + `]}`},
			"a protected agent at a hook":                        {Method: "POST", Path: "/v1/hooks/claude-code?agent=bot", Key: p.writer, Body: events("s", "c", `{}`, "x")[0]},
		}))
	return errors.Join(err, p.accepted("a statement sent by a writer", v.attest(p.writer, sound), 201))
}

func statementHeader(a *insider) object {
	return object{"alg": a.key.Key().Algorithm, "typ": statement.Type, "kid": a.kid()}
}

// nothingRecorded checks that the log has the sound records and no others.
func (p *plot) nothingRecorded() error {
	var log struct{ Records []struct{ Index int } }
	if err := p.Call(200, harness.Request{Method: "GET", Path: "/v1/chain?limit=1000", Key: p.admin}, &log); err != nil {
		return err
	}
	if len(log.Records) != p.records {
		p.Errorf("the log has %d records, and %d are sound", len(log.Records), p.records)
	}
	return nil
}

// rawID is a jti.
func rawID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never returns an error
	return hex.EncodeToString(b[:])
}
