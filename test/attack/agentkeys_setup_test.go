package attack

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"attestd/crypto/dpop"
	"attestd/crypto/jose"
	"attestd/internal/harness"
)

// proofOf returns the header line that proves possession of a key. The harness sends this Host.
func proofOf(key *jose.PrivateKey, method, path, token string) (string, error) {
	proof, err := dpop.Make(context.Background(), key, dpop.Request{Method: method, URL: harness.Base + path, AccessToken: token}, time.Now())
	return "DPoP: " + proof, err
}

func keysOf(agent string) string { return "/v1/agents/" + agent + "/keys" }

// enrolKey makes a key of an agent, with an admin's credential or an enrolment token.
func enrolKey(c *harness.Client, credential, agent, algorithm string) (*jose.PrivateKey, error) {
	key, err := jose.GenerateKey(algorithm)
	if err != nil {
		return nil, err
	}
	proof, err := proofOf(key, http.MethodPost, keysOf(agent), "")
	if err != nil {
		return nil, err
	}
	return key, c.Call(201, harness.Request{Method: "POST", Path: keysOf(agent), Key: credential, Header: []string{proof},
		Body: `{"jwk":` + key.Key().JWK() + `}`}, nil)
}

// actionsOf returns the origin of a company's log of actions.
func actionsOf(c *harness.Client, key string) (origin string, err error) {
	var list struct {
		Logs []struct{ Log, Origin string }
	}
	if err := c.Call(200, harness.Request{Method: "GET", Path: "/v1/logs", Key: key}, &list); err != nil {
		return "", err
	}
	for _, l := range list.Logs {
		if l.Log == "actions" {
			return l.Origin, nil
		}
	}
	return "", errors.New("no log of actions")
}

// enrolment creates an enrolment token of an agent.
func enrolment(c *harness.Client, key, agent string) (token string, err error) {
	var made struct{ Token string }
	err = c.Call(201, harness.Request{Method: "POST", Path: fmt.Sprintf("/v1/agents/%s/enrolments", agent), Key: key, Body: `{"expiresIn":86400}`}, &made)
	return made.Token, err
}

// fillKeys creates an agent with keys, one of them revoked, with enrolment tokens, one of them
// spent, and with a policy.
func (h *history) fillKeys(c *harness.Client) error {
	admin := h.keys["acme"]
	if err := c.Call(201, harness.Request{Method: "POST", Path: "/v1/agents/register", Key: admin, Body: `{"agentId":"signs"}`}, nil); err != nil {
		return err
	}
	revoked, err := enrolKey(c, admin, "signs", jose.ES256)
	if err != nil {
		return err
	}
	if err := c.Call(200, harness.Request{Method: "DELETE", Path: keysOf("signs") + "/" + revoked.Key().Thumbprint, Key: admin}, nil); err != nil {
		return err
	}
	spent, err := enrolment(c, admin, "signs")
	if err == nil {
		_, err = enrolKey(c, spent, "signs", jose.EdDSA)
	}
	if err == nil {
		_, err = enrolment(c, admin, "signs")
	}
	if err != nil {
		return err
	}
	return c.Call(200, harness.Request{Method: "PUT", Path: "/v1/agents/signs/policy", Key: admin, Body: `{"attest":"key"}`}, nil)
}
