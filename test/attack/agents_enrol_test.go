package attack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"

	"attestd/crypto/jose"
	"attestd/crypto/statement"
	"attestd/internal/harness"
)

// maxLiveKeys is how many live keys an agent has at most.
const maxLiveKeys = 16

// enrolRequest asks for a key of an agent with a proof of it.
func enrolRequest(credential, agent string, key *jose.PrivateKey, members ...string) harness.Request {
	proof, _ := proofOf(key, "POST", keysOf(agent), "") // the URL is sound
	body := strings.Join(append([]string{`"jwk":` + key.Key().JWK()}, members...), ",")
	return harness.Request{Method: "POST", Path: keysOf(agent), Key: credential, Header: []string{proof}, Body: "{" + body + "}"}
}

// enrolments tries to enrol a key of the attacker's for the victim.
func (p *plot) enrolments() error {
	v, e := p.victim, p.evil
	mine, err := jose.GenerateKey(jose.EdDSA)
	if err != nil {
		return err
	}
	token, err := enrolment(p.Client, p.admin, "evil")
	if err != nil {
		return err
	}
	endorsed := func(by *insider, of string, next *jose.PrivateKey) string {
		made, err := statement.MakeEndorsement(context.Background(), by.key, statement.EndorsementClaims{
			Issuer: of, Audience: localDomain.CompanyID("acme"), IssuedAt: time.Now().Unix(), Next: next.Key().Thumbprint,
		})
		if err != nil {
			return ""
		}
		return fmt.Sprintf(`"endorsement":%q`, made.Compact)
	}
	var svid struct{ SVID string }
	if err := p.Call(200, harness.Request{Method: "GET", Path: "/v1/agents/bot/svid", Key: v.bearer}, &svid); err != nil {
		return err
	}
	unproven := enrolRequest(p.admin, "bot", mine)
	unproven.Header = nil
	victims := enrolRequest(p.admin, "evil", v.key) // the thief of a public key has no proof of it
	proof, err := proofOf(mine, "POST", keysOf("evil"), "")
	if err != nil {
		return err
	}
	victims.Header = []string{proof}
	private := enrolRequest(p.admin, "evil", mine)
	private.Body = `{"jwk":` + string(mine.JWK()) + `}`
	err = errors.Join(
		p.allRefused(403, "FORBIDDEN_AGENT", map[string]harness.Request{
			"an enrolment token of another agent":  enrolRequest(token, "bot", mine),
			"a key for another agent, by an agent": enrolRequest(e.bearer, "bot", mine, endorsed(e, e.spiffe(), mine)),
		}),
		p.allRefused(403, "FORBIDDEN_ROLE", map[string]harness.Request{
			"a record with an enrolment token": e.attest(token, ""),
			"a list of agents with one":        {Method: "GET", Path: "/v1/agents", Key: token},
			"a key of an agent by a writer":    enrolRequest(p.writer, "bot", mine),
		}),
		p.allRefused(401, "", map[string]harness.Request{
			"an enrolment token at another company": {Method: "POST", Path: keysOf("bot"), Key: "enr_" + strings.Repeat("A", 43), Body: `{}`},
		}),
		p.allRefused(400, "INVALID_DPOP_PROOF", map[string]harness.Request{
			"a key without a proof":         unproven,
			"another agent's key as an own": victims,
		}),
		p.allRefused(400, "ENDORSEMENT_", map[string]harness.Request{
			"a next key without an endorsement":             enrolRequest(v.bearer, "bot", mine),
			"a next key that another agent endorses":        enrolRequest(v.bearer, "bot", mine, endorsed(e, v.spiffe(), mine)),
			"a next key that another agent endorses as one": enrolRequest(v.bearer, "bot", mine, endorsed(e, e.spiffe(), mine)),
			"an endorsement of another key":                 enrolRequest(v.bearer, "bot", mine, endorsed(v, v.spiffe(), e.key)),
		}),
		p.allRefused(409, "KEY_EXISTS", map[string]harness.Request{
			"a key that the agent has":      enrolRequest(p.admin, "bot", v.key),
			"a key that another agent has":  enrolRequest(p.admin, "evil", v.key),
			"that, with an enrolment token": enrolRequest(token, "evil", v.key),
		}),
		p.allRefused(403, "FORBIDDEN_ROLE", map[string]harness.Request{
			"every token of the company, looked into with an enrolment token":            aboutToken("introspect", token, p.writer),
			"its agent's token, looked into with an enrolment token":                     aboutToken("introspect", token, e.bearer),
			"its agent's token, revoked with an enrolment token":                         aboutToken("revoke", token, e.bearer),
			"the stream with an enrolment token":                                         handshake("Authorization: Bearer " + token),
			"the stream with an enrolment token as a subprotocol":                        handshake("Sec-WebSocket-Protocol: attestd.bearer, " + token),
			"its agent's keys with an enrolment token":                                   {Method: "GET", Path: keysOf("evil"), Key: token},
			"another key of its agent's, asked for with it, after it is known to refuse": {Method: "POST", Path: "/v1/agents/evil/enrolments", Key: token, Body: `{}`},
		}),
		p.allRefused(400, "unauthorized_client", map[string]harness.Request{
			"a colleague's SVID, exchanged with an enrolment token":         exchange("/o/acme/token", token, svid.SVID),
			"that, at the endpoint of all companies":                        exchange("/v1/oauth/token", token, svid.SVID),
			"the token of its own agent, exchanged with an enrolment token": exchange("/o/acme/token", token, e.bearer),
		}),
		p.refused("a private key", private, 400, ""),
		// an attempt that was refused has not spent the token; one key spends it
		p.accepted("an enrolment token", enrolRequest(token, "evil", mine), 201))
	if err != nil {
		return err
	}
	return errors.Join(
		p.refused("an enrolment token that is spent", enrolRequest(token, "evil", mine), 401, ""),
		p.proofsOfPossession(),
		p.disabledEnrolment())
}

// aboutToken asks about a token of acme, or ends one.
func aboutToken(what, credential, token string) harness.Request {
	return harness.Request{Method: "POST", Path: "/o/acme/" + what, Key: credential, Body: url.Values{"token": {token}}.Encode(), Header: []string{formEncoded}}
}

const formEncoded = "Content-Type: application/x-www-form-urlencoded"

// exchange asks for a token with which the caller acts for the subject of another one.
func exchange(path, credential, subject string) harness.Request {
	kind := "urn:ietf:params:oauth:token-type:access_token"
	if strings.Count(subject, ".") == 2 {
		kind = "urn:ietf:params:oauth:token-type:jwt"
	}
	form := url.Values{"grant_type": {"urn:ietf:params:oauth:grant-type:token-exchange"}, "subject_token": {subject}, "subject_token_type": {kind}}
	return harness.Request{Method: "POST", Path: path, Key: credential, Body: form.Encode(), Header: []string{formEncoded}}
}

// handshake asks for the stream.
func handshake(header ...string) harness.Request {
	return harness.Request{Method: "GET", Path: "/v1/ws", Header: append(header, "Connection: Upgrade", "Upgrade: websocket",
		"Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: AQIDBAUGBwgJCgsMDQ4PEA==")}
}

// proofsOfPossession sends again the proof with which a key was enrolled: at another company, and
// at the same one after an attempt that was refused.
func (p *plot) proofsOfPossession() error {
	key, err := jose.GenerateKey(jose.EdDSA)
	if err != nil {
		return err
	}
	seen, elsewhere := enrolRequest(p.admin, "bot", key), enrolRequest(p.foreignAdmin, "bot", key)
	elsewhere.Header = seen.Header
	next, err := jose.GenerateKey(jose.ES256)
	if err != nil {
		return err
	}
	failed := enrolRequest(p.admin, "bot", next, `"endorsement":"x"`)
	again := enrolRequest(p.foreignAdmin, "bot", next)
	again.Header = failed.Header
	return errors.Join(
		p.accepted("a proof of possession", seen, 201),
		p.refused("a proof of possession, sent again at another company", elsewhere, 400, "INVALID_DPOP_PROOF"),
		p.refused("an endorsement that is none", failed, 400, "ENDORSEMENT_INVALID"),
		p.refused("the proof of an attempt that was refused, sent again at another company", again, 400, "INVALID_DPOP_PROOF"))
}

// disabledEnrolment uses the enrolment token of an agent that was disabled since.
func (p *plot) disabledEnrolment() error {
	if err := p.Call(201, harness.Request{Method: "POST", Path: "/v1/agents/register", Key: p.admin, Body: `{"agentId":"off"}`}, nil); err != nil {
		return err
	}
	token, err := enrolment(p.Client, p.admin, "off")
	if err != nil {
		return err
	}
	key, err := jose.GenerateKey(jose.EdDSA)
	if err != nil {
		return err
	}
	if err := p.Call(200, harness.Request{Method: "POST", Path: "/v1/agents/off/disable", Key: p.admin}, nil); err != nil {
		return err
	}
	return errors.Join(
		p.allRefused(403, "AGENT_DISABLED", map[string]harness.Request{
			"a key of a disabled agent, with its enrolment token": enrolRequest(token, "off", key),
			"a disabled agent's enrolment token":                  {Method: "GET", Path: "/v1/enrolment", Key: token},
		}),
		p.refused("a token, looked into with a disabled agent's enrolment token", aboutToken("introspect", token, p.evil.bearer), 403, "FORBIDDEN_ROLE"))
}

// bounds sends what is too large, and enrols more keys than an agent may have, many at once.
func (p *plot) bounds() error {
	v := p.victim
	long := v.claims()
	long["jti"] = strings.Repeat("j", 5<<10)
	fresh, err := jose.GenerateKey(jose.EdDSA)
	if err != nil {
		return err
	}
	large := enrolRequest(p.admin, "evil", fresh)
	large.Body = `{"jwk":` + strings.TrimSuffix(fresh.Key().JWK(), "}") + `,"x5t":"` + strings.Repeat("A", 1<<20) + `"}}`
	deep := enrolRequest(p.admin, "evil", fresh)
	deep.Body = `{"jwk":` + strings.Repeat(`{"a":`, 1000) + "1" + strings.Repeat("}", 1000) + `}`
	longProof := enrolRequest(p.admin, "evil", fresh)
	longProof.Header = []string{"DPoP: " + strings.Repeat("A", 9<<10)}
	err = errors.Join(
		p.refused("a statement of 5 KB", v.attest(p.writer, forgedJWS(v.key, statementHeader(v), long)), 400, "STATEMENT_MALFORMED"),
		p.refused("a statement of 1 MiB", v.attest(p.writer, strings.Repeat("A", 1<<20)), 400, "STATEMENT_MALFORMED"),
		p.refused("a jwk of 1 MiB", large, 400, ""),
		p.refused("a jwk of 1000 levels", deep, 400, ""),
		p.refused("a proof of 9 KiB", longProof, 400, ""),
		p.refused("an assertion of 5 KB", signIn(strings.Repeat("A", 5<<10)), 401, "invalid_client"),
		p.refused("an assertion of 1 MiB", signIn(strings.Repeat("A", 1<<20)), 413, ""))
	if err != nil {
		return err
	}
	if err := p.Call(201, harness.Request{Method: "POST", Path: "/v1/agents/register", Key: p.admin, Body: `{"agentId":"greedy"}`}, nil); err != nil {
		return err
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	answers := map[int]int{}
	for range 40 {
		all.Go(func() {
			c := &harness.Client{Addr: p.Addr}
			defer c.Close()
			key, err := jose.GenerateKey(jose.EdDSA)
			if err != nil {
				return
			}
			a, err := c.Do(enrolRequest(p.admin, "greedy", key))
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				answers[a.Status]++
			}
		})
	}
	all.Wait()
	p.attempts += 40
	var list struct{ Keys []json.RawMessage }
	if err := p.Call(200, harness.Request{Method: "GET", Path: keysOf("greedy"), Key: p.admin}, &list); err != nil {
		return err
	}
	if len(list.Keys) != maxLiveKeys || answers[201] != maxLiveKeys || answers[409] != 40-maxLiveKeys {
		p.Errorf("40 keys at once are answered %v, and the agent has %d", answers, len(list.Keys))
	}
	return nil
}
