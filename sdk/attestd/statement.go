package attestd

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"attestd/crypto/jose"
	"attestd/crypto/statement"
)

// Place is where a statement stands in a session of its agent. The zero value is outside of any.
type Place struct {
	Session  string // 1 to 128 of A-Z, a-z, 0-9, '.', '_', '~' and '-'; "" for none
	Seq      int64  // 0, 1, 2 …
	Previous string // StatementHash of the statement at Seq-1; "" at 0
	End      bool   // nothing follows
}

// StatementHash is Place.Previous of the statement that follows.
func StatementHash(compact string) string { return statement.Hash(compact) }

// maxDelegation is the largest delegation token, in bytes, that is looked into.
const maxDelegation = 1 << 20

// Sign returns the prepared attestation with the agent's statement of it. Whatever carries it to
// the service, and however often, it makes one record. Its IdempotencyKey becomes the statement's
// jti, which no other statement of the key may have; where it is "", a new one is made up.
func (i *Identity) Sign(ctx context.Context, a Attestation, p Place) (Attestation, error) {
	if a.Statement != "" {
		return a, errors.New("the attestation is signed already")
	}
	id := StatementID(a.IdempotencyKey)
	a, err := a.Prepare()
	if err != nil {
		return a, err
	}
	if a.AgentID != i.agentID {
		return a, fmt.Errorf("the agent %s signs what it does itself, and nothing of the agent %q", i.agentID, a.AgentID)
	}
	c := statement.Claims{
		Issuer: i.config.SPIFFEID, Audience: i.parent, IssuedAt: time.Now().Unix(), ID: id,
		Session: p.Session, Seq: p.Seq, Previous: p.Previous, End: p.End,
	}
	if c.ActionHash, err = i.ActionHash(a); err != nil {
		return a, err
	}
	if a.Delegation != "" {
		if c.Delegation, err = tokenID(a.Delegation); err != nil {
			return a, err
		}
	}
	made, err := statement.Make(ctx, i.config.Key.signer, c)
	if err != nil {
		return a, err
	}
	a.Statement, a.IdempotencyKey = made.Compact, ""
	return a, nil
}

// ActionHash is the action_hash of an attestation's statement.
func (i *Identity) ActionHash(a Attestation) (string, error) {
	a, err := a.Prepare()
	if err != nil {
		return "", err
	}
	return statement.HashAction(a.ActionType, a.AgentID, i.company, a.Payload.(json.RawMessage))
}

// StatementID is the jti that [Identity.Sign] makes of an idempotency key: the key itself where it
// can be one, or else its digest.
func StatementID(key string) string {
	if len(key) <= 128 && !strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// tokenID reads the jti of a token that is not checked here: the service checks it.
func tokenID(token string) (string, error) {
	t, err := jose.Parse(token, maxDelegation)
	if err != nil {
		return "", fmt.Errorf("the delegation token %w", err)
	}
	var claims struct{ JTI string }
	if json.Unmarshal(t.Payload, &claims) != nil || claims.JTI == "" {
		return "", errors.New("the delegation token has no jti")
	}
	return claims.JTI, nil
}
