package attack

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"attestd/crypto/jose"
	"attestd/crypto/statement"
	"attestd/internal/harness"
)

// signingInput has the first two parts of a JWS with any header and claims.
func signingInput(header, claims any) string {
	h, _ := json.Marshal(header) // both are maps of JSON values
	c, _ := json.Marshal(claims)
	return base64.RawURLEncoding.EncodeToString(h) + "." + base64.RawURLEncoding.EncodeToString(c)
}

func withSignature(input string, signature []byte) string {
	return input + "." + base64.RawURLEncoding.EncodeToString(signature)
}

// forgedJWS signs any header and claims with a key.
func forgedJWS(key *jose.PrivateKey, header, claims any) string {
	input := signingInput(header, claims)
	signature, err := key.Sign(context.Background(), input)
	if err != nil {
		return "" // which is refused as a sound token never is
	}
	return withSignature(input, signature)
}

// withAll returns a copy of an object with other members.
func withAll(o object, members object) object {
	o = maps.Clone(o)
	maps.Copy(o, members)
	return o
}

// signedByNoKey are tokens with an agent's sound claims that its key has not signed: no algorithm,
// an HMAC with the public key, another key, and a key that the header brings.
func signedByNoKey(a *insider, other *jose.PrivateKey, header, claims object) map[string]string {
	var jwk struct{ X, Y string }
	_ = json.Unmarshal([]byte(a.key.Key().JWK()), &jwk) // it is JSON
	x, _ := base64.RawURLEncoding.DecodeString(jwk.X)
	mac := func(secret []byte) string {
		input := signingInput(withAll(header, object{"alg": "HS256"}), claims)
		h := hmac.New(sha256.New, secret)
		h.Write([]byte(input))
		return withSignature(input, h.Sum(nil))
	}
	sound := forgedJWS(a.key, header, claims)
	input, signature := sound[:strings.LastIndexByte(sound, '.')], sound[strings.LastIndexByte(sound, '.')+1:]
	raw, _ := base64.RawURLEncoding.DecodeString(signature)
	raw[20] ^= 1
	theirs := object{"jwk": json.RawMessage(other.Key().JWK())}
	return map[string]string{
		"alg none":                               signingInput(withAll(header, object{"alg": "none"}), claims) + ".",
		"alg none, with a signature":             signingInput(withAll(header, object{"alg": "none"}), claims) + "." + signature,
		"alg NONE":                               signingInput(withAll(header, object{"alg": "NONE"}), claims) + ".",
		"no alg":                                 forgedJWS(a.key, object{"typ": header["typ"], "kid": header["kid"]}, claims),
		"HS256 with the JWK of the public key":   mac([]byte(a.key.Key().JWK())),
		"HS256 with the public key":              mac(x),
		"HS256 with the thumbprint":              mac([]byte(a.kid())),
		"HS256 with nothing":                     mac(nil),
		"no signature":                           input + ".",
		"a signature of zeros":                   withSignature(input, make([]byte, 64)),
		"a changed signature":                    withSignature(input, raw),
		"a longer signature":                     withSignature(input, append(raw, 0)),
		"another key under the kid":              forgedJWS(other, withAll(header, object{"alg": other.Key().Algorithm}), claims),
		"another key under the kid and alg":      forgedJWS(other, header, claims),
		"another key in jwk":                     forgedJWS(other, withAll(withAll(header, theirs), object{"alg": other.Key().Algorithm}), claims),
		"another key in jwk, without kid":        forgedJWS(other, withAll(object{"typ": header["typ"], "alg": other.Key().Algorithm}, theirs), claims),
		"a jku":                                  forgedJWS(other, withAll(header, object{"alg": other.Key().Algorithm, "jku": "http://127.0.0.1:9/jwks"}), claims),
		"an x5c":                                 forgedJWS(other, withAll(header, object{"alg": other.Key().Algorithm, "x5c": []string{"AA=="}}), claims),
		"claims that are not encoded, by b64":    forgedJWS(a.key, withAll(header, object{"b64": false, "crit": []string{"b64"}}), claims),
		"the algorithm of the other kind of key": forgedJWS(a.key, withAll(header, object{"alg": map[string]string{jose.ES256: jose.EdDSA, jose.EdDSA: jose.ES256}[a.key.Key().Algorithm]}), claims),
	}
}

// forgedStatements sends statements of the victim that its key has not signed.
func (p *plot) forgedStatements() error {
	v, e := p.victim, p.evil
	fresh, err := jose.GenerateKey(jose.ES256)
	if err != nil {
		return err
	}
	for _, other := range []*jose.PrivateKey{fresh, e.key, p.foreign.key} {
		for what, compact := range signedByNoKey(v, other, statementHeader(v), v.claims()) {
			p.attempts++
			a, err := p.Do(v.attest(p.admin, compact))
			if err != nil {
				return err
			}
			if a.Status != 400 || !strings.Contains(string(a.Body), `"STATEMENT_MALFORMED"`) && !strings.Contains(string(a.Body), `"STATEMENT_SIGNATURE_INVALID"`) {
				p.Errorf("a statement with %s is answered %d with %.300s", what, a.Status, a.Body)
			}
		}
	}
	unknown := func(key *jose.PrivateKey) harness.Request {
		header := object{"alg": key.Key().Algorithm, "typ": statement.Type, "kid": key.Key().Thumbprint}
		return v.attest(p.admin, forgedJWS(key, header, v.claims()))
	}
	return p.allRefused(403, "STATEMENT_KEY_UNKNOWN", map[string]harness.Request{
		"a statement by a key of nobody":              unknown(fresh),
		"a statement by another agent's key":          unknown(e.key),
		"a statement by a key of its namesake abroad": unknown(p.foreign.key),
	})
}

// movedStatements sends sound statements for what they do not say.
func (p *plot) movedStatements() error {
	v, e, f := p.victim, p.evil, p.foreign
	sound := forgedJWS(v.key, statementHeader(v), v.claims())
	other := func(payload, action string) harness.Request {
		return harness.Request{Method: "POST", Path: "/v1/attest", Key: p.writer,
			Body: fmt.Sprintf(`{"agentId":"bot","actionType":%q,"payload":%s,"statement":%q}`, action, payload, sound)}
	}
	claims := func(members object) harness.Request {
		return v.attest(p.writer, forgedJWS(v.key, statementHeader(v), withAll(v.claims(), members)))
	}
	now := time.Now().Unix()
	var svid struct{ SVID string }
	var delegation struct{ Token string }
	if err := p.Call(200, harness.Request{Method: "GET", Path: "/v1/agents/bot/svid", Key: v.bearer}, &svid); err != nil {
		return err
	}
	if err := p.Call(201, harness.Request{Method: "POST", Path: "/v1/token-exchange", Key: p.admin, Body: `{"agentId":"bot","actingOn":"acme","scope":"pay"}`}, &delegation); err != nil {
		return err
	}
	delegated := v.attest(p.writer, sound)
	delegated.Body = strings.TrimSuffix(delegated.Body, "}") + fmt.Sprintf(`,"delegation":%q}`, delegation.Token)
	elsewhere := v.attest(p.foreignAdmin, sound)
	return errors.Join(
		p.allRefused(400, "STATEMENT_MISMATCH", map[string]harness.Request{
			"a statement of another payload":            other(`{"amount":1000}`, insiderAction),
			"a statement of a payload with more":        other(`{"amount":1,"to":"me"}`, insiderAction),
			"a statement of another action":             other(insiderPayload, "refund"),
			"a statement with a delegation beside it":   delegated,
			"a statement without its delegation":        claims(object{"delegation": strings.Repeat("0", 64)}),
			"a statement with another agent as iss":     claims(object{"iss": e.spiffe()}),
			"a statement for another company":           claims(object{"aud": localDomain.CompanyID("globex")}),
			"a statement for another log":               claims(object{"log": f.log}),
			"a statement with a company as iss":         claims(object{"iss": localDomain.CompanyID("acme")}),
			"a statement of another trust domain":       claims(object{"iss": strings.Replace(v.spiffe(), "attestd.local", "attestd.example", 1)}),
			"a statement with the hash of another item": claims(object{"action_hash": f.claims()["action_hash"]}),
		}),
		p.allRefused(403, "STATEMENT_KEY_UNKNOWN", map[string]harness.Request{
			"a statement moved to another company": elsewhere,
			"a statement moved to another agent":   e.attest(p.writer, sound),
		}),
		p.allRefused(400, "STATEMENT_TIME", map[string]harness.Request{
			"a statement from the future":  claims(object{"iat": now + 90}),
			"a statement of last month":    claims(object{"iat": now - 31*24*3600}),
			"a statement of 1970":          claims(object{"iat": 0}),
			"a statement of the year 9999": claims(object{"iat": 253402300799}),
		}),
		p.allRefused(400, "STATEMENT_MALFORMED", map[string]harness.Request{
			"an assertion as a statement":         v.attest(p.writer, forgedJWS(v.key, object{"alg": jose.ES256, "typ": "JWT", "kid": v.kid()}, v.ownClaims(tokenEndpoint))),
			"a statement with a claim of its own": claims(object{"scope": "all"}),
			"a statement without a jti":           claims(object{"jti": nil}),
			"an SVID as a statement":              v.attest(p.writer, svid.SVID),
			"a statement with half a session":     claims(object{"sid": "run"}),
			"a statement with a seq below 0":      claims(object{"sid": "run", "seq": -1}),
		}))
}

// forgedSignIns signs in as the victim without its key.
func (p *plot) forgedSignIns() error {
	v, e := p.victim, p.evil
	header := object{"alg": jose.ES256, "typ": "JWT", "kid": v.kid()}
	audience := tokenEndpoint
	requests := map[string]harness.Request{}
	for what, text := range signedByNoKey(v, e.key, header, v.ownClaims(audience)) {
		requests["an assertion with "+what] = signIn(text)
	}
	claims := func(what string, members object) {
		requests["an assertion "+what] = signIn(forgedJWS(v.key, header, withAll(v.ownClaims(audience), members)))
	}
	claims("for another server", object{"aud": "https://attestd.example/v1/oauth/token"})
	claims("for the SVID issuer of all services without a name", object{"aud": localDomain.Issuer()})
	claims("for two servers", object{"aud": []string{audience, "https://attestd.example"}})
	claims("that has ended", object{"exp": time.Now().Unix() - 1})
	claims("that ends tomorrow", object{"exp": time.Now().Unix() + 86400})
	claims("without an end", object{"exp": nil})
	claims("without a jti", object{"jti": nil})
	claims("for another agent", object{"iss": e.spiffe(), "sub": e.spiffe()})
	claims("as issuer for another agent", object{"sub": e.spiffe()})
	own := object{"alg": jose.EdDSA, "typ": "JWT", "kid": e.kid()}
	requests["an assertion of its own for the victim"] = signIn(forgedJWS(e.key, own, v.ownClaims(audience)))
	requests["an assertion of a namesake abroad"] = signIn(forgedJWS(p.foreign.key, object{"alg": jose.EdDSA, "kid": p.foreign.kid()}, v.ownClaims(audience)))
	requests["a statement as an assertion"] = signIn(forgedJWS(v.key, statementHeader(v), v.claims()))
	return p.allRefused(401, "invalid_client", requests)
}

// replays sends again what counts once.
func (p *plot) replays() error {
	v, e := p.victim, p.evil
	header := object{"alg": jose.ES256, "typ": "JWT", "kid": v.kid()}
	text := forgedJWS(v.key, header, v.ownClaims(tokenEndpoint))
	proof, err := proofOf(v.key, "GET", keysOf("bot"), v.bound)
	if err != nil {
		return err
	}
	bound := harness.Request{Method: "GET", Path: keysOf("bot"), Header: []string{"Authorization: DPoP " + v.bound, proof}}
	elsewhere := harness.Request{Method: "GET", Path: "/v1/agents/bot/svid", Header: bound.Header}
	stolen := harness.Request{Method: "GET", Path: keysOf("bot"), Header: []string{"Authorization: DPoP " + e.bound, proof}}
	sound := forgedJWS(v.key, statementHeader(v), v.claims())
	claims := v.claims()
	first, second := withAll(claims, object{"sid": "s", "seq": 0}), withAll(v.claims(), object{"sid": "s", "seq": 0, "end": true})
	err = errors.Join(
		p.accepted("an assertion", signIn(text), 200),
		p.refused("an assertion sent again", signIn(text), 401, "invalid_client"),
		p.refused("another agent's proof", stolen, 401, ""),
		p.refused("a proof at another route", elsewhere, 401, "INVALID_DPOP_PROOF"),
		p.accepted("a proof", bound, 200),
		p.refused("a proof sent again", bound, 401, "INVALID_DPOP_PROOF"),
		p.accepted("a statement", v.attest(p.writer, sound), 201),
		p.accepted("the same statement, which is answered with its record", v.attest(p.writer, sound), 201),
		p.refused("another statement with a jti", v.attest(p.writer, forgedJWS(v.key, statementHeader(v), withAll(claims, object{"jti": jtiIn(sound), "iat": time.Now().Unix() - 5}))), 409, "STATEMENT_REUSED"),
		p.accepted("the first of a session", v.attest(p.writer, forgedJWS(v.key, statementHeader(v), first)), 201),
		p.refused("another first of a session", v.attest(p.writer, forgedJWS(v.key, statementHeader(v), second)), 409, "STATEMENT_REUSED"))
	return err
}

// jtiIn returns the jti of a sound statement.
func jtiIn(compact string) string {
	s, err := statement.Parse(compact)
	if err != nil {
		return ""
	}
	return s.ID
}
