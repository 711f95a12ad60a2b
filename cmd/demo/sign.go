package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"github.com/google/uuid"

	"attestd/crypto/jose"
	"attestd/sdk/attestd"
)

const assertionLives = 5 * time.Minute

// agent is an agent with a key of its own, and the place that comes next in each of its sessions.
type agent struct {
	identity *attestd.Identity
	next     map[string]attestd.Place
}

// enrol makes a key here and enrols it for an agent.
func (p *player) enrol(ctx context.Context, agentID string) error {
	key, err := attestd.NewAgentKey(attestd.EdDSA)
	if err != nil {
		return err
	}
	client, err := p.client()
	if err != nil {
		return err
	}
	defer client.Close()
	made, err := client.EnrolKey(ctx, agentID, key, attestd.NewEnrolledKey{Label: "demo"})
	if err != nil {
		return err
	}
	identity, err := attestd.NewIdentity(attestd.IdentityConfig{Key: key, SPIFFEID: p.values["spiffeId"] + "/agent/" + agentID, Log: made.Log})
	if err != nil {
		return err
	}
	p.agents[agentID] = &agent{identity, map[string]attestd.Place{}}
	return nil
}

// item is an item of a batch in the script. session and end are the script's own: the agent signs
// the record in that session, and with end nothing follows there.
type item struct {
	AgentID    string          `json:"agentId"`
	ActionType string          `json:"actionType"`
	Payload    json.RawMessage `json:"payload"`
	Delegation string          `json:"delegation,omitempty"`
	Session    string          `json:"session,omitempty"`
	End        bool            `json:"end,omitempty"`
	Statement  string          `json:"statement,omitempty"`
}

// sign replaces the sessions in a batch by what the agents sign. Any other body stays as it is.
func (p *player) sign(ctx context.Context, body []byte) ([]byte, error) {
	var batch struct {
		Records []item `json:"records"`
	}
	if err := json.Unmarshal(body, &batch); err != nil || batch.Records == nil {
		return body, err
	}
	for i := range batch.Records {
		if err := p.signItem(ctx, &batch.Records[i]); err != nil {
			return nil, fmt.Errorf("record %d: %w", i, err)
		}
	}
	return json.Marshal(batch)
}

func (p *player) signItem(ctx context.Context, r *item) error {
	session := r.Session
	if session == "" {
		return nil
	}
	a := p.agents[r.AgentID]
	if a == nil {
		return fmt.Errorf("%s has no key of its own", r.AgentID)
	}
	place := a.next[session]
	place.Session, place.End = session, r.End
	made, err := a.identity.Sign(ctx, attestd.Attestation{
		AgentID: r.AgentID, ActionType: r.ActionType, Payload: r.Payload, Delegation: r.Delegation,
		IdempotencyKey: attestd.NewIdempotencyKey(),
	}, place)
	if err != nil {
		return err
	}
	a.next[session] = attestd.Place{Seq: place.Seq + 1, Previous: attestd.StatementHash(made.Statement)}
	r.Statement, r.Session, r.End = made.Statement, "", false
	return nil
}

// assertion is a JWT that a key of the demo signs: {assertion} is what came of it.
type assertion struct {
	Key    string         `json:"key"`
	Type   string         `json:"type"`
	Claims map[string]any `json:"claims"` // strings alone; iat, exp and jti come from the player
}

// makeKey makes a key pair of which {name} is the public part and {nameId} the thumbprint.
func (p *player) makeKey(name string) error {
	key, err := jose.GenerateKey(jose.EdDSA)
	if err != nil {
		return err
	}
	var public struct{ X string }
	if err := json.Unmarshal([]byte(key.Key().JWK()), &public); err != nil {
		return err
	}
	p.keys[name], p.values[name], p.values[name+"Id"] = key, public.X, key.Key().Thumbprint
	return nil
}

func (p *player) assert(ctx context.Context, a assertion) error {
	claims := map[string]any{"iat": p.now.Unix(), "exp": p.now.Add(assertionLives).Unix(), "jti": uuid.NewString()}
	maps.Copy(claims, a.Claims)
	payload, err := json.Marshal(claims)
	if err != nil {
		return err
	}
	p.values["assertion"], err = jose.Sign(ctx, p.keys[a.Key], a.Type, []byte(p.filled(string(payload), inJSON)))
	return err
}
