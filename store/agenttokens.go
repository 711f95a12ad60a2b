package store

import (
	"context"
	"fmt"
	"time"

	"attestd/chain"
	"attestd/crypto/keys"
)

// SignIn is how an agent has shown that it holds a key.
type SignIn struct {
	AgentID, Thumbprint string
	// names of what was presented, none of which counts again before it has ended
	Proofs []UsedProof
	Bound  bool // the token counts only with proofs of the key
}

// UsedProof is something that counts once: a DPoP proof or a client assertion.
type UsedProof struct {
	Name chain.Hash // of its kind, its key and its jti
	Ends time.Time  // when it would be refused for its age
}

// IssueAgentToken issues an access token (prefix oauth_) to an agent that has shown that it holds a
// key, which the caller has found live. It ends after lifetime, with the key or with the agent.
// ErrUsed for a proof that was used.
func (s Credentials) IssueAgentToken(ctx context.Context, by Caller, in SignIn, lifetime time.Duration) (token string, ends time.Time, err error) {
	key, err := s.db.AgentKeys.Live(ctx, by, in.AgentID, in.Thumbprint)
	if err == nil {
		err = s.db.Tables.Changeable(by)
	}
	if err != nil {
		return "", time.Time{}, fmt.Errorf("issue access token: %w", err)
	}
	ends = by.At.Add(lifetime)
	if !key.ExpiresAt.IsZero() && key.ExpiresAt.Before(ends) {
		ends = key.ExpiresAt
	}
	bound := 0
	if in.Bound {
		bound = 1
	}
	token = keys.NewSecret("oauth")
	index := s.db.secrets.Index(keys.HashSecret(token))
	err = s.db.write(ctx, func(w *conn) error {
		if err := s.purge(w, by.At); err != nil {
			return err
		}
		if err := useProofs(w, by.At, in.Proofs); err != nil {
			return err
		}
		secret, err := s.needTokenKey(w)
		if err != nil {
			return err
		}
		row := tokenRow{keys.HashSecret(token), by.Company.Chain, heldBy(in.Thumbprint, in.Bound), ends.UnixMilli()}
		// the key may have been revoked since it was looked up
		n, err := w.exec(`INSERT INTO oauth_token (hash, company, expires_at, agent_key, bound, mac)
			SELECT ?, company, ?, id, ?, ? FROM agent_key WHERE company = ? AND thumbprint = ? AND agent_id = ? AND revoked_at IS NULL`,
			index, ends.UnixMilli(), bound, row.mac(secret), by.Company.Chain, in.Thumbprint, in.AgentID)
		if err == nil && n == 0 {
			err = ErrNotFound
		}
		return err
	})
	if err != nil {
		return "", time.Time{}, fmt.Errorf("issue access token: %w", err)
	}
	return token, ends, nil
}

// Use notes that a proof was used; ErrUsed where it was before, on any server of the database.
func (s Credentials) Use(ctx context.Context, proof UsedProof, now time.Time) error {
	return s.db.write(ctx, func(w *conn) error {
		if err := s.purge(w, now); err != nil {
			return err
		}
		return useProofs(w, now, []UsedProof{proof})
	})
}

func useProofs(w *conn, now time.Time, proofs []UsedProof) error {
	for _, p := range proofs {
		if !now.Before(p.Ends) {
			return ErrUsed // a row of it may have been taken out
		}
		n, err := w.exec(`INSERT INTO used_proof (name, expires_at) VALUES (?, ?) ON CONFLICT (name) DO NOTHING`, p.Name[:], p.Ends.UnixMilli())
		if err == nil && n == 0 {
			err = ErrUsed
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// purge takes out what has ended long ago, once a minute.
func (s Credentials) purge(w *conn, now time.Time) error {
	if now.Sub(s.db.purged) < purgeEvery { // the writer runs one change at a time
		return nil
	}
	_, err := w.exec(`DELETE FROM oauth_token WHERE expires_at <= ?`, now.Add(-purgeAfter).UnixMilli())
	if err == nil {
		_, err = w.exec(`DELETE FROM used_proof WHERE expires_at <= ?`, now.Add(-purgeProofsAfter).UnixMilli())
	}
	if err == nil {
		s.db.purged = now
	}
	return err
}
