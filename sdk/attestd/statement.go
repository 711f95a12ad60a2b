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

	"attestd/crypto/cred"
	"attestd/crypto/jose"
	"attestd/crypto/statement"
)

// Place is the place of a statement in a session of its agent. The zero value is outside of any. A
// place that has left the process is used for good: a signer MUST NOT sign two statements for one.
type Place struct {
	Session  string // 1 to 128 of A-Z, a-z, 0-9, '.', '_', '~' and '-'; "" for none
	Seq      int64  // 0, 1, 2 …
	Previous string // StatementHash of the one at Seq-1, also if it was refused; "" at 0
	End      bool   // nothing follows

	// Refused are earlier places whose statement the service has refused and that no statement has
	// named yet, ascending, at most MaxRefused of them.
	Refused []RefusedPlace
	// Continues is the last statement of the session that this one goes on from, at Seq 0; or nil.
	Continues *Continuation
}

// RefusedPlace is a place whose statement the service has refused, with the code of the refusal.
type RefusedPlace = statement.Refused

// Continuation names the last statement of a session, from which another session goes on.
type Continuation = statement.Continues

// MaxRefused is how many refused places a statement may name.
const MaxRefused = statement.MaxRefused

// StatementHash is Place.Previous of the statement that follows.
func StatementHash(compact string) string { return statement.Hash(compact) }

// maxDelegation is the largest delegation token, in bytes, that is looked into.
const maxDelegation = 1 << 20

// Sign returns the prepared attestation with the agent's statement of it. Whatever carries it to
// the service, and however often, it makes one record. Its IdempotencyKey becomes the statement's
// jti, which no other statement of the key may have; where it is "", a new one is made up.
//
// While the identity does not know its log, the statement is of version 1: it names neither the log
// nor Place.Refused and Place.Continues, and of the delegation only the ID of the token. It is an
// *OtherLogError where the service has another log.
func (i *Identity) Sign(ctx context.Context, a Attestation, p Place) (Attestation, error) {
	if a.Statement != "" {
		return a, errors.New("the attestation is signed already")
	}
	if err := i.wrongLog(); err != nil {
		return a, err
	}
	id := StatementID(a.IdempotencyKey)
	if a.AgentID == "" { // the key says whose action it is
		a.AgentID = i.agentID
	}
	a, err := a.Prepare()
	if err != nil {
		return a, err
	}
	if a.AgentID != i.agentID {
		return a, fmt.Errorf("the agent %s signs what it does itself, and nothing of the agent %q", i.agentID, a.AgentID)
	}
	c := statement.Claims{
		Issuer: i.config.SPIFFEID, Audience: i.parent, Log: i.Log(), IssuedAt: time.Now().Unix(), ID: id,
		Session: p.Session, Seq: p.Seq, Previous: p.Previous, End: p.End,
	}
	if c.Version() > 1 {
		c.Continues = p.Continues
		if len(p.Refused) > 0 {
			c.Refused = p.Refused
		}
	}
	if c.ActionHash, err = i.ActionHash(a); err != nil {
		return a, err
	}
	switch {
	case a.Delegation == "":
	case c.Version() > 1:
		d, err := cred.ReadDelegation(a.Delegation)
		if err != nil {
			return a, fmt.Errorf("the delegation token: %w", err)
		}
		c.Delegation = d.Hash()
	default:
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

// StatementIDAfter is the jti of an attestation that is signed again, after so many of its
// statements were refused: no two statements of a key have one jti.
func StatementIDAfter(key string, refusals int) string {
	if refusals == 0 {
		return StatementID(key)
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%d", key, refusals))
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
