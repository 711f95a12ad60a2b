package store

import (
	"context"
	"fmt"
	"time"

	"attestd/chain"
	"attestd/crypto/cred/details"
	"attestd/crypto/keys"
	"attestd/store/db"
)

// TokenGrant is what an access token is issued for.
type TokenGrant struct {
	Scope Scope  // what it allows; "" for all that its holder may do
	JKT   string // thumbprint of the key without whose proofs it counts for nothing, or ""
	// authorization details, which limit what it gives; none limit nothing
	Details details.Details
	// names of what was presented, none of which counts again before it has ended
	Proofs []UsedProof
	// makes the text of a token that says something itself, for its end in whole seconds; nil for a
	// random text
	Text func(ends time.Time) (string, error)
}

// UsedProof is something that counts once: a DPoP proof or a client assertion.
type UsedProof struct {
	Name chain.Hash // of its kind, its key and its jti
	Ends time.Time  // when it would be refused for its age
}

// UsedError is ErrUsed, and says which one was.
type UsedError struct{ Proof UsedProof }

func (e *UsedError) Error() string { return ErrUsed.Error() }

// Is reports that it is ErrUsed.
func (e *UsedError) Is(target error) bool { return target == ErrUsed }

// IssueToken issues an access token (prefix oauth_, or the text of the grant), of which only the
// hash is stored, to a client or to an agent that has shown that it holds its key. The token has
// the role of its holder, or less by its scope, and ends after lifetime or with its holder. ErrUsed
// means a proof that was used, ErrBadClient a client that is gone, ErrNotFound an agent that is, or
// whose key is.
func (s Credentials) IssueToken(ctx context.Context, by Caller, g TokenGrant, lifetime time.Duration) (token string, ends time.Time, err error) {
	if token, ends, err = s.issueToken(ctx, by, g, lifetime); err != nil {
		return "", time.Time{}, fmt.Errorf("issue access token: %w", err)
	}
	return token, ends, nil
}

func (s Credentials) issueToken(ctx context.Context, by Caller, g TokenGrant, lifetime time.Duration) (token string, ends time.Time, err error) {
	expires := by.Expires
	if by.Agent != "" {
		key, err := s.agentKeys.Live(ctx, by, by.Agent, by.Key)
		if err != nil {
			return "", ends, err
		}
		expires = key.ExpiresAt
	}
	if err := s.companies.changeable(ctx, by); err != nil {
		return "", ends, err
	}
	if ends = by.At.Add(lifetime); !expires.IsZero() && expires.Before(ends) {
		ends = expires
	}
	token = keys.NewToken(by.At)
	if g.Text != nil {
		ends = ends.Truncate(time.Second)
		if token, err = g.Text(ends); err != nil {
			return "", ends, err
		}
	}
	row := tokenRow{
		hash: keys.HashSecret(token), company: by.Company.Chain, holder: by.Client, expires: ends.UnixMilli(),
		scope: g.Scope, jkt: g.JKT, details: g.Details.String(),
	}
	if by.Agent != "" { // its tokens are bound to its own key alone
		row.holder, row.jkt = heldBy(by.Key, g.JKT != ""), ""
	}
	s.keys.knowTokenKey(ctx)
	err = s.db.Write(ctx, func(w *db.Conn) error {
		if err := useProofs(w, by.At, g.Proofs); err != nil {
			return err
		}
		key, err := s.keys.needTokenKey(w)
		if err != nil {
			return err
		}
		return s.insertToken(w, by, row, row.mac(key), g.JKT != "")
	})
	return token, ends, err
}

// insertToken writes the row of a token, unless its holder is gone since it was looked up.
func (s Credentials) insertToken(w *db.Conn, by Caller, row tokenRow, mac []byte, bound bool) error {
	gone := ErrBadClient
	query := `INSERT INTO oauth_token (hash, company, expires_at, mac, scope, details, bound, jkt, client)
		SELECT ?, company, ?, ?, ?, nullif(?, ''), 0, nullif(?, ''), id FROM oauth_client WHERE company = ? AND client_id = ?`
	args := []any{s.db.Secrets().TokenIndex(row.hash), row.expires, mac, row.scope, row.details, row.jkt, row.company, by.Client}
	if by.Agent != "" {
		gone = db.ErrNotFound
		query = `INSERT INTO oauth_token (hash, company, expires_at, mac, scope, details, bound, agent_key)
			SELECT ?, company, ?, ?, ?, nullif(?, ''), ?, id FROM agent_key WHERE company = ? AND thumbprint = ? AND agent_id = ? AND revoked_at IS NULL`
		flag := 0
		if bound {
			flag = 1
		}
		args = []any{s.db.Secrets().TokenIndex(row.hash), row.expires, mac, row.scope, row.details, flag, row.company, by.Key, by.Agent}
	}
	n, err := w.Exec(query, args...)
	if err == nil && n == 0 {
		err = gone
	}
	return err
}

// RevokeToken ends an access token of the caller's company. No server of the database accepts it
// when RevokeToken returns.
func (s Credentials) RevokeToken(ctx context.Context, by Caller, hash [32]byte) error {
	// whatever the outcome: the next use of the token reads the database
	defer s.found.Forget(hash)
	defer s.introspected.Forget(tenantHash{by.Company.Chain, hash})
	err := s.db.Write(ctx, func(w *db.Conn) error {
		index, former := s.db.Secrets().TokenIndex(hash), s.db.Secrets().Index(hash)
		_, err := w.Exec(`DELETE FROM oauth_token WHERE hash IN (?, ?) AND company = ?`, index, former, by.Company.Chain)
		if err == nil {
			_, err = w.Exec(`DELETE FROM federated_token WHERE hash IN (?, ?) AND company = ?`, index, former, by.Company.Chain)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("revoke access token: %w", err)
	}
	s.found.Forget(hash)
	s.introspected.Forget(tenantHash{by.Company.Chain, hash})
	s.db.WaitPropagation(ctx)
	return nil
}

// Use records that a proof was used; ErrUsed where it was used before, on any server of the
// database.
func (s Credentials) Use(ctx context.Context, proof UsedProof, now time.Time) error {
	return s.db.Write(ctx, func(w *db.Conn) error {
		return useProofs(w, now, []UsedProof{proof})
	})
}

func useProofs(w *db.Conn, now time.Time, proofs []UsedProof) error {
	for _, p := range proofs {
		if !now.Before(p.Ends) {
			return &UsedError{p} // a row of it may have been deleted
		}
		n, err := w.Exec(`INSERT INTO used_proof (name, expires_at) VALUES (?, ?) ON CONFLICT (name) DO NOTHING`, p.Name[:], p.Ends.UnixMilli())
		if err == nil && n == 0 {
			err = &UsedError{p}
		}
		if err != nil {
			return err
		}
	}
	return nil
}
