package evidence_test

import (
	"encoding/json"
	"strings"
	"testing"

	"attestd/chain/evidence"
	"attestd/crypto/jose"
	"attestd/crypto/statement"
	"attestd/internal/must"
)

// forgery is a file that a holder of the company's signing key makes without the agent's key. Other
// checkers read the list too.
type forgery struct {
	Name string `json:"name"`
	File string `json:"file"`
	Pin  string `json:"pin"` // the key that the person knows

	// What a checker says without a pin: a code, or the key, when it was enrolled and by what.
	Code evidence.Code `json:"code,omitempty"`
	Says string        `json:"says,omitempty"`
}

const theirs = `{"amount":1000000}`

// forgeries are all the ways to make a record of what the agent never signed. The company's key is
// at hand in each: control records and history are signed as they must be.
func forgeries(t *testing.T) (list []forgery) {
	own, impostor, late := agentKey(t, jose.EdDSA, 1), agentKey(t, jose.EdDSA, 7), agentKey(t, jose.ES256, 8)
	pin := own.key.Thumbprint
	add := func(name string, make func(c *company) *evidence.File) {
		c := newCompany(t)
		f := forgery{Name: name, Pin: pin, File: string(make(c).JSON())}
		v := evidence.Check([]byte(f.File), evidence.Trust{Fingerprint: fingerprint(0)})
		if f.Code = v.Code; v.Statement != nil {
			f.Says = v.Statement.KeyID + ", enrolled at " + v.Statement.EnrolledAt + " by " + v.Statement.EnrolledBy.String()
		}
		list = append(list, f)
	}
	add("a record without a statement", func(c *company) *evidence.File {
		c.add(0, agentID, "pay", theirs, "")
		return c.file(0, 0, c.checkpoint(0))
	})
	add("a statement that nobody signed", func(c *company) *evidence.File {
		kid := c.enrol(agentID, own.key, nil)
		s := c.state(own, agentID, "pay", `{"amount":1}`, nil)
		c.addStated(agentID, "pay", theirs, s.Compact[:strings.LastIndex(s.Compact, ".")]+"."+strings.Repeat("A", 86), "")
		return c.agentKeyFile(0, kid)
	})
	add("a new statement by the impostor under the name of the agent's key", func(c *company) *evidence.File {
		kid := c.enrol(agentID, own.key, nil)
		renamed := *impostor
		named := *own.key
		renamed.key = &named
		hash, err := statement.HashAction("pay", agentID, c.id, []byte(theirs))
		must.OK(t, err)
		c.addStated(agentID, "pay", theirs, forge(t, &renamed, `{"alg":"EdDSA","typ":"agent-statement+jwt","kid":"`+kid+`"}`,
			`{"iss":"`+spiffeCompany+`/agent/`+agentID+`","aud":"`+spiffeCompany+`","iat":1795251600,"jti":"1","action_hash":"`+hash+`"}`), "")
		return c.agentKeyFile(0, kid)
	})
	moved := func(name, agent, action, payload, delegation string, change func(*statement.Claims)) {
		add(name, func(c *company) *evidence.File {
			kid := c.enrol(agent, own.key, nil)
			c.addStated(agent, action, payload, c.state(own, agentID, "pay", `{"amount":1}`, change).Compact, delegation)
			return c.agentKeyFile(0, kid)
		})
	}
	moved("an old statement moved to another payload", agentID, "pay", theirs, "", nil)
	moved("an old statement moved to another action type", agentID, "refund", `{"amount":1}`, "", nil)
	moved("an old statement moved to another agent", "other", "pay", `{"amount":1}`, "", nil)
	moved("an old statement moved to a delegation", agentID, "pay", `{"amount":1}`, delegated, nil)
	moved("an old statement moved out of its delegation", agentID, "pay", `{"amount":1}`, "", func(c *statement.Claims) { c.Delegation = "d-1" })
	moved("an old statement replayed after more than 30 days", agentID, "pay", `{"amount":1}`, "", func(c *statement.Claims) { c.IssuedAt -= 31 * 86400 })
	moved("a statement of another trust domain's company", agentID, "pay", `{"amount":1}`, "", func(c *statement.Claims) {
		c.Audience = "spiffe://a/b/company/acme"
		c.Issuer = c.Audience + "/agent/" + agentID
	})
	add("an old statement moved to another company", func(c *company) *evidence.File {
		c.id = "globex"
		kid := c.enrol(agentID, own.key, nil)
		elsewhere := newCompany(t)
		c.addStated(agentID, "pay", `{"amount":1}`, elsewhere.state(own, agentID, "pay", `{"amount":1}`, nil).Compact, "")
		return c.agentKeyFile(0, kid)
	})
	add("the key of another agent", func(c *company) *evidence.File {
		kid := c.enrol("other", impostor.key, nil)
		c.stated(impostor, agentID, "pay", theirs, nil)
		return c.agentKeyFile(0, kid)
	})
	add("an impostor's key, enrolled by an admin", func(c *company) *evidence.File {
		c.enrol(agentID, own.key, nil)
		kid := c.enrol(agentID, impostor.key, nil)
		c.stated(impostor, agentID, "pay", theirs, nil)
		return c.agentKeyFile(0, kid)
	})
	add("an impostor's key, enrolled with a token", func(c *company) *evidence.File {
		kid := c.enrol(agentID, late.key, map[string]any{"by": enrolmentToken, "enrolment": enrolmentToken})
		c.stated(late, agentID, "pay", theirs, nil)
		return c.agentKeyFile(0, kid)
	})
	add("an impostor's key beside the agent's", func(c *company) *evidence.File {
		kids := []string{c.enrol(agentID, own.key, nil), c.enrol(agentID, impostor.key, nil)}
		c.stated(impostor, agentID, "pay", theirs, nil)
		return c.agentKeyFile(0, kids...)
	})
	add("a key enrolled afterwards", func(c *company) *evidence.File {
		c.stated(impostor, agentID, "pay", theirs, nil)
		kid := c.enrol(agentID, impostor.key, nil)
		return c.agentKeyFile(0, kid)
	})
	add("a key enrolled afterwards and dated back", func(c *company) *evidence.File {
		now := c.now.Add(9e9)
		c.now = now
		c.stated(impostor, agentID, "pay", theirs, nil)
		c.now = began
		kid := c.enrol(agentID, impostor.key, nil)
		c.now = now.Add(9e9)
		return c.agentKeyFile(0, kid)
	})
	add("an expired key of the agent in another's hands", func(c *company) *evidence.File {
		kid := c.enrol(agentID, impostor.key, map[string]any{"expiresAt": "2026-11-21T08:00:00.000Z"})
		c.stated(impostor, agentID, "pay", theirs, nil)
		return c.agentKeyFile(0, kid)
	})
	add("a revoked key in another's hands", func(c *company) *evidence.File {
		kid := c.enrol(agentID, impostor.key, nil)
		c.revoke(agentID, impostor.key)
		c.now = c.now.Add(5e9)
		c.stated(impostor, agentID, "pay", theirs, nil)
		return c.agentKeyFile(0, kid)
	})
	chained := func(name string, endorsement func(c *company) string, first *agentSigner) {
		add(name, func(c *company) *evidence.File {
			kids := []string{c.enrol(agentID, first.key, nil)}
			kids = append(kids, c.enrol(agentID, impostor.key, map[string]any{"endorsement": endorsement(c)}))
			c.stated(impostor, agentID, "pay", theirs, nil)
			return c.agentKeyFile(0, kids...)
		})
	}
	chained("a chain of keys that does not begin with the agent's", func(c *company) string { return c.endorse(agentID, late, impostor.key) }, late)
	chained("an endorsement that nobody signed", func(c *company) string {
		s := c.endorse(agentID, own, impostor.key)
		return s[:strings.LastIndex(s, ".")] + "." + strings.Repeat("A", 86)
	}, own)
	chained("an endorsement of another key", func(c *company) string { return c.endorse(agentID, own, late.key) }, own)
	chained("an endorsement of another agent's key", func(c *company) string { return c.endorse("other", own, impostor.key) }, own)
	chained("a statement in place of an endorsement", func(c *company) string { return c.state(own, agentID, "pay", theirs, nil).Compact }, own)
	chained("an endorsement by a key under the name of the agent's", func(c *company) string {
		renamed := *impostor
		renamed.key = own.key
		return forge(t, &renamed, `{"alg":"EdDSA","typ":"agent-key+jwt","kid":"`+pin+`"}`,
			`{"iss":"`+spiffeCompany+`/agent/`+agentID+`","aud":"`+spiffeCompany+`","iat":1795251600,"jkt":"`+impostor.key.Thumbprint+`"}`)
	}, own)
	add("a chain in which the endorsing key comes last", func(c *company) *evidence.File {
		kids := []string{c.enrol(agentID, impostor.key, map[string]any{"endorsement": c.endorse(agentID, late, impostor.key)}), c.enrol(agentID, late.key, nil)}
		c.stated(impostor, agentID, "pay", theirs, nil)
		return c.agentKeyFile(0, kids...)
	})
	add("a key endorsed by one that was revoked", func(c *company) *evidence.File {
		kids := []string{c.enrol(agentID, late.key, nil)}
		c.revoke(agentID, late.key)
		kids = append(kids, c.enrol(agentID, impostor.key, map[string]any{"endorsement": c.endorse(agentID, late, impostor.key)}))
		c.stated(impostor, agentID, "pay", theirs, nil)
		return c.agentKeyFile(0, kids...)
	})
	forgedRecord := func(name string, details map[string]any) {
		add(name, func(c *company) *evidence.File {
			kid := c.enrol(agentID, own.key, details)
			c.stated(impostor, agentID, "pay", theirs, nil)
			return c.agentKeyFile(0, kid)
		})
	}
	forgedRecord("a control record with the impostor's key under the agent's thumbprint", map[string]any{"jwk": json.RawMessage(impostor.key.JWK())})
	forgedRecord("a control record with the impostor's key under the agent's name", map[string]any{
		"jwk": json.RawMessage(impostor.key.JWK()), "thumbprint": impostor.key.Thumbprint})
	// the neutral point: R is the key, S is 0, and the signature is good for every text
	add("a key for which everybody can sign", func(c *company) *evidence.File {
		jwk := `{"crv":"Ed25519","kty":"OKP","x":"AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}`
		kid := thumbprint(jwk)
		c.change("agent-key.enrolled", "agent-key:"+kid, map[string]any{"agentId": agentID, "thumbprint": kid, "jwk": json.RawMessage(jwk),
			"label": nil, "expiresAt": nil, "enrolment": nil, "endorsement": nil})
		hash, err := statement.HashAction("pay", agentID, c.id, []byte(theirs))
		must.OK(t, err)
		s := forge(t, impostor, `{"alg":"EdDSA","typ":"agent-statement+jwt","kid":"`+kid+`"}`,
			`{"iss":"`+spiffeCompany+`/agent/`+agentID+`","aud":"`+spiffeCompany+`","iat":1795251600,"jti":"1","action_hash":"`+hash+`"}`)
		c.addStated(agentID, "pay", theirs, s[:strings.LastIndex(s, ".")]+".AQ"+strings.Repeat("A", 84), "")
		return c.agentKeyFile(0, kid)
	})
	return list
}

// The company's signing key alone makes no record that passes where the agent's key is pinned.
// Without a pin, the file fails too, or the verdict names the impostor's key, when it was enrolled
// and by what.
func TestAgentSignatureCannotBeForged(t *testing.T) {
	t.Parallel()
	list := forgeries(t)
	text, err := json.MarshalIndent(list, "", " ")
	must.OK(t, err)
	testdata(t, "forged.json", append(text, '\n'))
	named := make(map[string]string)
	for _, f := range list {
		for name, trust := range trusts(t) {
			trust.AgentKey = f.Pin
			if v := evidence.Check([]byte(f.File), trust); v.Outcome != evidence.Fails || v.Code != evidence.BadStatement || v.Statement != nil {
				t.Errorf("%s, trusting %s: %+v", f.Name, name, v)
			}
		}
		if f.Code != "" && f.Code != evidence.BadStatement {
			t.Errorf("%s: %s", f.Name, f.Code)
		}
		named[f.Name] = f.Says
	}
	for name, by := range map[string]string{
		"an impostor's key, enrolled by an admin":              "AT 09:00:02 by an admin's credential, api-key:9f86d081884c7d65",
		"an impostor's key, enrolled with a token":             "AT 09:00:01 by the enrolment token " + enrolmentToken,
		"a key enrolled afterwards and dated back":             "AT 09:00:01 by an admin's credential, api-key:9f86d081884c7d65",
		"a chain of keys that does not begin with the agent's": "AT 09:00:02 by the key before it, " + agentKey(t, jose.ES256, 8).key.Thumbprint,
	} {
		at, who, _ := strings.Cut(strings.TrimPrefix(by, "AT "), " ")
		if !strings.HasSuffix(named[name], ", enrolled at 2026-11-21T"+at+".000Z "+who) {
			t.Errorf("%s: %q, want %s", name, named[name], by)
		}
		delete(named, name)
	}
	for name, message := range named {
		if message != "" {
			t.Errorf("%s passes without a pin: %s", name, message)
		}
	}
}
