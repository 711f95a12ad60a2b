package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"attestd/crypto/keys"
)

// Federated is a workload of another issuer that has shown that it is an agent.
type Federated struct {
	Federation Federation
	Rule       int // which has matched, from 0
	Subject    string
	AgentID    string
	JKT        string      // thumbprint of the key to which the token is bound; "" for none
	Proofs     []UsedProof // see TokenGrant
	Ends       time.Time   // of the token
}

// IssueFederated issues an access token (prefix oauth_) to a workload. It ends with the federation,
// or when the agent is disabled. The first of a day, a rule and a subject has a control record.
// ErrUsed for a proof or a token that was used; ErrNotFound and ErrDisabled of the agent.
func (s Federations) IssueFederated(ctx context.Context, by Caller, f Federated) (token string, err error) {
	use := f.use(by)
	known, err := s.isUsed(ctx, use)
	if err == nil {
		err = s.db.Tables.Changeable(by)
	}
	if err == nil {
		err = s.db.Agents.Check(ctx, by, f.AgentID)
	}
	if err == nil {
		token = keys.NewSecret("oauth")
		if issue := s.issuing(by, f, token); known {
			err = s.db.write(ctx, issue)
		} else {
			err = s.issueRecorded(ctx, by, f, use, issue)
		}
	}
	if err != nil {
		return "", fmt.Errorf("issue access token: %w", err)
	}
	return token, nil
}

// issueRecorded issues a token with the day's control record, unless another server has made that
// meanwhile.
func (s Federations) issueRecorded(ctx context.Context, by Caller, f Federated, use UsedProof, issue func(*conn) error) error {
	return s.db.controlled(ctx, by, func(w *conn) ([]controlEvent, error) {
		if err := issue(w); err != nil {
			return nil, err
		}
		err := useProofs(w, by.At, []UsedProof{use})
		if errors.Is(err, ErrUsed) {
			return nil, nil
		}
		return []controlEvent{{FederationUsed, subjectFederationUse(f.Federation.Name), map[string]any{
			"federation": f.Federation.Name, "issuer": f.Federation.Issuer, "tokenSubject": f.Subject, "rule": f.Rule, "agentId": f.AgentID,
		}}}, err
	})
}

// issuing writes a token, unless its federation is gone since it was looked up.
func (s Federations) issuing(by Caller, f Federated, token string) func(*conn) error {
	row := federatedRow(keys.HashSecret(token), by.Company.Chain, f.Federation, f.AgentID, f.JKT, f.Ends.UnixMilli())
	return func(w *conn) error {
		if err := s.db.Credentials.purge(w, by.At); err != nil {
			return err
		}
		if err := useProofs(w, by.At, f.Proofs); err != nil {
			return err
		}
		key, err := s.db.Credentials.needTokenKey(w)
		if err != nil {
			return err
		}
		n, err := w.exec(`INSERT INTO federated_token (hash, company, federation, agent_id, jkt, expires_at, mac)
			SELECT ?, company, id, ?, nullif(?, ''), ?, ? FROM federation WHERE company = ? AND name = ? AND created_at = ?`,
			s.db.secrets.Index(row.hash), f.AgentID, f.JKT, row.expires, row.mac(key), row.company, f.Federation.Name, f.Federation.CreatedAt)
		if err == nil && n == 0 {
			err = ErrNoFederation
		}
		return err
	}
}

// federatedRow is the authenticated content of a token's row.
func federatedRow(hash [sha256.Size]byte, company int64, of Federation, agentID, jkt string, expires int64) tokenRow {
	return tokenRow{hash: hash, company: company, holder: "federation:" + of.Name + ":" + of.CreatedAt + ":" + agentID + ":" + jkt, expires: expires}
}

// use names that a subject uses a rule on a day, until some time after the day.
func (f Federated) use(by Caller) UsedProof {
	day := by.At.UTC().Truncate(24 * time.Hour)
	return UsedProof{
		Name: sha256.Sum256(fmt.Appendf(nil, "federation-use\n%d\n%q\n%s\n%d\n%s\n%s", by.Company.Chain, f.Federation.Name, f.Federation.CreatedAt, f.Rule, day, f.Subject)),
		Ends: day.Add(25 * time.Hour),
	}
}

func (s Federations) isUsed(ctx context.Context, p UsedProof) (used bool, err error) {
	err = s.db.read(ctx, func(r *conn) error {
		var one int
		err := r.one([]any{&one}, `SELECT 1 FROM used_proof WHERE name = ?`, p.Name[:])
		if used = err == nil; errors.Is(err, ErrNotFound) {
			err = nil
		}
		return err
	})
	return used, err
}

// UsedAssertion names a token of another issuer, by its jti, for as long as it counts.
func UsedAssertion(by Caller, issuer, id string, ends time.Time) UsedProof {
	return UsedProof{Name: sha256.Sum256(fmt.Appendf(nil, "assertion\n%d\n%q\n%s", by.Company.Chain, issuer, id)), Ends: ends}
}

// anyCompany is no company's number.
const anyCompany = 0

// findFederated reads the token of a workload of a company, or of any, from the database, and
// compares its federation with the newest control record about that; ErrNotFound.
func (s Credentials) findFederated(ctx context.Context, hash [32]byte, of int64) (found credential, err error) {
	var number, expires int64
	var mac []byte
	var jkt sql.NullString
	var latest sql.NullInt64
	var f Federation
	err = s.db.read(ctx, func(r *conn) error {
		f, err = row(r, func(rows *sql.Rows) (Federation, error) {
			return scanFederationAnd(rows, &number, &found.agent, &jkt, &expires, &mac, &latest)
		}, "SELECT "+federationColumns+", "+`t.company, t.agent_id, t.jkt, t.expires_at, t.mac, `+latestOf("f.company", "'federation:' || f.name")+`
			FROM federated_token t JOIN federation f ON f.id = t.federation AND f.company = t.company WHERE t.hash = ?1 AND (t.company = ?2 OR ?2 = 0)`, s.db.secrets.Index(hash), of)
		if err != nil {
			return err
		}
		return s.checkToken(r, federatedRow(hash, number, f, found.agent, jkt.String, expires), mac)
	})
	if err != nil {
		return credential{}, err
	}
	found.grant = Grant{Role: ActsAsAgent, Expires: time.UnixMilli(expires)}
	found.fingerprint, found.federation, found.jkt = "federation:"+f.Name, f.Name, jkt.String
	if found.company, err = s.db.Companies.now(ctx, number); err != nil {
		return credential{}, err
	}
	return found, s.db.read(ctx, func(r *conn) error { return s.db.Federations.check(r, found.company, f, latest) })
}
