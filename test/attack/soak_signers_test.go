package attack

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"attestd/crypto/cred"
	"attestd/crypto/dpop"
	"attestd/crypto/jose"
	"attestd/crypto/statement"
	"attestd/internal/harness"
)

// One attester in signEvery signs, in sessions of sessionOf records.
const (
	signEvery = 4
	sessionOf = 1000
)

const (
	soakAction  = "tool.call"
	soakPayload = `{"tool":"search","query":"weather in the city of a client","ok":true}`
)

// signer is an attester with a key of its own.
type signer struct {
	tenant *customer
	agent  string
	key    *jose.PrivateKey
	claims statement.Claims // of the next statement
	sealed []string         // sessions that have ended
}

// newSigner registers an agent and enrols a key of it.
func newSigner(c *harness.Client, t *customer, who int) (*signer, error) {
	s := &signer{tenant: t, agent: fmt.Sprintf("bot-%d", who)}
	if err := c.Call(201, harness.Request{Method: "POST", Path: "/v1/agents/register", Key: t.key, Body: fmt.Sprintf(`{"agentId":%q}`, s.agent)}, nil); err != nil {
		return nil, err
	}
	var err error
	if s.key, err = jose.GenerateKey([]string{jose.EdDSA, jose.ES256}[who/(signEvery*tenants)%2]); err != nil {
		return nil, err
	}
	path := "/v1/agents/" + s.agent + "/keys"
	proof, err := dpop.Make(context.Background(), s.key, dpop.Request{Method: http.MethodPost, URL: harness.Base + path}, time.Now())
	if err != nil {
		return nil, err
	}
	var enrolled struct{ Log string }
	if err := c.Call(201, harness.Request{Method: "POST", Path: path, Key: t.key, Header: []string{"DPoP: " + proof}, Body: `{"jwk":` + s.key.Key().JWK() + `}`}, &enrolled); err != nil {
		return nil, err
	}
	hash, err := statement.HashAction(soakAction, s.agent, t.id, []byte(soakPayload))
	domain := cred.Domain{TrustDomain: "attestd.local"} // serve's default
	s.claims = statement.Claims{Issuer: domain.AgentID(t.id, s.agent), Audience: domain.CompanyID(t.id), Log: enrolled.Log, ActionHash: hash}
	return s, err
}

// request returns the next record of the session. last ends it; the next one begins another.
func (s *signer) request(last bool) (harness.Request, error) {
	if s.claims.Session == "" {
		s.claims.Session = fmt.Sprintf("run-%d", len(s.sealed))
	}
	s.claims.IssuedAt, s.claims.End = time.Now().Unix(), last || s.claims.Seq == sessionOf-1
	made, err := statement.Make(context.Background(), s.key, s.claims)
	if err != nil {
		return harness.Request{}, err
	}
	if s.claims.End {
		s.sealed = append(s.sealed, s.claims.Session)
		s.claims.Session, s.claims.Seq, s.claims.Previous = "", 0, ""
	} else {
		sum := sha256.Sum256([]byte(made.Compact))
		s.claims.Seq++
		s.claims.Previous = hex.EncodeToString(sum[:])
	}
	return harness.Request{Method: "POST", Path: "/v1/attest", Key: s.tenant.key,
		Body: fmt.Sprintf(`{"agentId":%q,"actionType":%q,"payload":%s,"statement":%q}`, s.agent, soakAction, soakPayload, made.Compact)}, nil
}

// sessions checks that every session of the signers is sealed, and that its file has all of it.
func (k *load) sessions(c *harness.Client) error {
	n := 0
	for _, s := range k.signers {
		states := map[string]string{}
		for cursor := ""; ; {
			var page struct {
				Sessions []struct{ SID, State string }
				Next     string
			}
			if err := c.Call(200, harness.Request{Method: "GET", Path: "/v1/sessions?agentId=" + s.agent + cursor, Key: s.tenant.key}, &page); err != nil {
				return err
			}
			for _, session := range page.Sessions {
				states[session.SID] = session.State
			}
			if page.Next == "" {
				break
			}
			cursor = "&cursor=" + page.Next
		}
		if len(states) != len(s.sealed) {
			k.Errorf("%s has %d sessions, and has ended %d", s.agent, len(states), len(s.sealed))
		}
		for _, sid := range s.sealed {
			if states[sid] != "sealed" {
				k.Errorf("session %s of %s is %q", sid, s.agent, states[sid])
			}
			n++
		}
		if err := k.sessionFile(c, s); err != nil {
			return err
		}
	}
	k.Count(n, "sessions sealed")
	return nil
}

// sessionFile reads the file of the last session of a signer.
func (k *load) sessionFile(c *harness.Client, s *signer) error {
	if len(s.sealed) == 0 {
		return nil
	}
	a, err := c.Do(harness.Request{Method: "GET", Path: "/v1/sessions/" + s.agent + "/" + s.sealed[len(s.sealed)-1], Key: s.tenant.key})
	if err != nil {
		return err
	}
	head, rest, _ := bytes.Cut(a.Body, []byte("\n"))
	var file struct{ Records int }
	if err := json.Unmarshal(head, &file); err != nil || a.Status != 200 || file.Records == 0 || bytes.Count(rest, []byte("\n")) != file.Records {
		k.Errorf("the file of a session of %s: %d, %v, %.200s", s.agent, a.Status, err, a.Body)
	}
	return nil
}
