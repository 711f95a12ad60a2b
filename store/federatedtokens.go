package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"attestd/crypto/cred/details"
	"attestd/crypto/keys"
	"attestd/store/db"
)

// Federated is a workload of another issuer that has shown that it is an agent.
type Federated struct {
	Federation Federation
	Rule       int // which has matched, from 0
	Subject    string
	AgentID    string
	JKT        string // thumbprint of the key to which the token is bound; "" for none
	Details    details.Details
	// of a person's assertion: the OAuth client that has presented it, and the canonical
	// DelegationInfo; "" for a workload
	Client, Delegation string
	Proofs             []UsedProof // see TokenGrant
	Ends               time.Time   // of the token
}

// IssueFederated issues an access token (prefix oauth_) to a workload. It ends with the federation,
// or when the agent is disabled. The first of a day, a rule and a subject has a control record: for
// most subjects of a rule, so that an issuer's users fill no control log. ErrTooMany for another,
// which would have none; ErrUsed for a proof or a token that was used; ErrNotFound and
// ErrDisabled of the agent.
func (s Federations) IssueFederated(ctx context.Context, by Caller, f Federated, most int) (token string, err error) {
	use := f.use(by)
	known, err := s.isUsed(ctx, use)
	if err == nil {
		err = s.companies.changeable(ctx, by)
	}
	if err == nil {
		err = s.agents.Check(ctx, by, f.AgentID)
	}
	if err == nil {
		token = keys.NewToken(by.At)
		s.keys.knowTokenKey(ctx)
		if issue := s.issuing(by, f, token); known {
			err = s.db.Write(ctx, issue)
		} else {
			err = s.issueRecorded(ctx, by, f, use, most, issue)
		}
	}
	if err != nil {
		return "", fmt.Errorf("issue access token: %w", err)
	}
	return token, nil
}

// issueRecorded issues a token with the day's control record, unless another server has made that
// meanwhile.
func (s Federations) issueRecorded(ctx context.Context, by Caller, f Federated, use UsedProof, most int, issue func(*db.Conn) error) error {
	return s.db.controlled(ctx, by, func(w *db.Conn) ([]controlEvent, error) {
		if err := issue(w); err != nil {
			return nil, err
		}
		err := useProofs(w, by.At, []UsedProof{use})
		if errors.Is(err, ErrUsed) {
			return nil, nil
		}
		if err == nil {
			err = f.countSubject(w, by, most)
		}
		details := map[string]any{
			"federation": f.Federation.Name, "issuer": f.Federation.Issuer, "tokenSubject": f.Subject, "rule": f.Rule, "agentId": f.AgentID,
		}
		if f.Client != "" {
			details["clientId"] = f.Client
		}
		return []controlEvent{{FederationUsed, subjectFederationUse(f.Federation.Name), details}}, err
	})
}

// countSubject counts one more subject of the rule on the day; ErrTooMany where it has most. A
// server whose clock is a little behind counts for the newer day.
func (f Federated) countSubject(w *db.Conn, by Caller, most int) error {
	n, err := w.Exec(`INSERT INTO federation_use (federation, rule, day, subjects)
		SELECT id, ?1, ?2, 1 FROM federation WHERE company = ?3 AND name = ?4 AND created_at = ?5
		ON CONFLICT (federation, rule) DO UPDATE SET
			day = CASE WHEN federation_use.day < excluded.day THEN excluded.day ELSE federation_use.day END,
			subjects = CASE WHEN federation_use.day < excluded.day THEN 1 ELSE federation_use.subjects + 1 END
		WHERE federation_use.day < excluded.day OR federation_use.subjects < ?6`,
		f.Rule, by.At.UTC().Unix()/secondsOfDay, by.Company.Chain, f.Federation.Name, f.Federation.CreatedAt, most)
	if err == nil && n == 0 {
		err = ErrTooMany
	}
	return err
}

const secondsOfDay = 24 * 60 * 60

// issuing writes a token, unless its federation is gone since it was looked up.
func (s Federations) issuing(by Caller, f Federated, token string) func(*db.Conn) error {
	row := federatedRow(keys.HashSecret(token), by.Company.Chain, f)
	return func(w *db.Conn) error {
		if err := useProofs(w, by.At, f.Proofs); err != nil {
			return err
		}
		key, err := s.keys.needTokenKey(w)
		if err != nil {
			return err
		}
		n, err := w.Exec(`INSERT INTO federated_token (hash, company, federation, agent_id, jkt, expires_at, mac, delegation, client, details)
			SELECT ?1, f.company, f.id, ?2, nullif(?3, ''), ?4, ?5, nullif(?6, ''), c.id, nullif(?11, '') FROM federation f LEFT JOIN oauth_client c ON c.company = f.company AND c.client_id = ?7
			WHERE f.company = ?8 AND f.name = ?9 AND f.created_at = ?10 AND (?7 = '' OR c.id IS NOT NULL)`,
			s.db.Secrets().TokenIndex(row.hash), f.AgentID, f.JKT, row.expires, row.mac(key), f.Delegation, f.Client, row.company, f.Federation.Name, f.Federation.CreatedAt, row.details)
		if err == nil && n == 0 {
			err = ErrNoFederation
		}
		return err
	}
}

// federatedRow is the authenticated content of a token's row.
func federatedRow(hash [sha256.Size]byte, company int64, f Federated) tokenRow {
	holder := "federation:" + f.Federation.Name + ":" + f.Federation.CreatedAt + ":" + f.AgentID + ":" + f.JKT
	if f.Delegation != "" { // JSON, which no thumbprint is
		holder += ":" + f.Client + ":" + f.Delegation
	}
	return tokenRow{hash: hash, company: company, holder: holder, expires: f.Ends.UnixMilli(), details: f.Details.String()}
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
	err = s.db.Read(ctx, func(r *db.Conn) error {
		var one int
		err := r.One([]any{&one}, `SELECT 1 FROM used_proof WHERE name = ?`, p.Name[:])
		if used = err == nil; errors.Is(err, db.ErrNotFound) {
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
func (s Credentials) findFederated(ctx context.Context, hash [32]byte, of int64, now time.Time) (found credential, err error) {
	var number, expires int64
	var mac []byte
	var jkt, delegation, client, limits sql.NullString
	var latest sql.NullInt64
	var f Federation
	err = s.db.Read(ctx, func(r *db.Conn) error {
		f, err = db.Row(r, func(rows *sql.Rows) (Federation, error) {
			return federations.scanAnd(rows, &number, &found.agent, &jkt, &expires, &mac, &delegation, &client, &limits, &latest)
		}, "SELECT "+federations.list("f")+", "+`t.company, t.agent_id, t.jkt, t.expires_at, t.mac, t.delegation, c.client_id, t.details, `+federations.latest("f")+`
			FROM federated_token t JOIN federation f ON f.id = t.federation AND f.company = t.company LEFT JOIN oauth_client c ON c.id = t.client AND c.company = t.company
			WHERE t.hash IN (?1, ?2) AND (t.company = ?3 OR ?3 = 0)`, s.db.Secrets().Index(hash), s.db.Secrets().TokenIndex(hash), of)
		if err == nil {
			found.details, err = storedDetails(limits.String)
		}
		if err != nil {
			return err
		}
		return s.checkToken(r, federatedRow(hash, number, Federated{
			Federation: f, AgentID: found.agent, JKT: jkt.String, Details: found.details, Client: client.String, Delegation: delegation.String, Ends: time.UnixMilli(expires),
		}), mac)
	})
	if err == nil && client.Valid { // and its row is what the control log says
		if err = s.CheckClient(ctx, client.String, now); errors.Is(err, ErrBadClient) {
			err = fmt.Errorf("client: %w", db.ErrNotFound)
		}
	}
	if err != nil {
		return credential{}, err
	}
	found.client, found.delegation = client.String, delegation.String
	found.grant = Grant{Role: ActsAsAgent, Expires: time.UnixMilli(expires)}
	found.holderExpires = found.grant.Expires // its workload needs another assertion
	found.fingerprint, found.jkt = "federation:"+f.Name, jkt.String
	found.federation, found.federatedSince = f.Name, f.CreatedAt
	if found.company, err = s.companies.now(ctx, number); err != nil {
		return credential{}, err
	}
	return found, s.db.Read(ctx, func(r *db.Conn) error { return s.federations.check(r, found.company, known[Federation]{f, latest}) })
}
