package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"attestd/chain"
	"attestd/crypto/jose"
	"attestd/store/db"
	"attestd/store/projection"
)

// AgentKeys are the public keys of agents, and the tokens with which they enrol them.
type AgentKeys struct {
	db        *base
	companies companyCache

	found *db.Cache[owned, db.Dated[AgentKey]]
}

// AgentKey is a public key of an agent.
type AgentKey struct {
	Thumbprint string // RFC 7638
	AgentID    string
	JWK        json.RawMessage // the members that RFC 7638 hashes, in its form
	Public     *jose.Key       // of Live alone, as Since
	// of the control record of its enrolment; no record that it signs is older
	Since     time.Time
	Label     *string
	CreatedAt string
	ExpiresAt time.Time // zero for never
	RevokedAt string    // "" while it is not
	// the oldest version of statements that it may make; see package statement
	StatementVersion int

	id, company int64
}

// live reports whether the key counts at a time.
func (k AgentKey) live(at time.Time) bool {
	return k.RevokedAt == "" && (k.ExpiresAt.IsZero() || at.Before(k.ExpiresAt))
}

// MaxAgentKeys is how many live keys an agent has at most.
const MaxAgentKeys = 16

// statementVersion is that of keys that are enrolled now.
const statementVersion = 2

var agentKeys = right[AgentKey, projection.AgentKey]{
	table: projection.TableAgentKey, subject: "agent-key:", title: "thumbprint", order: "id",
	columns: func(k *AgentKey) []column {
		return []column{
			rowID(&k.id), plain("company", &k.company),
			plain("thumbprint", &k.Thumbprint).as("thumbprint"),
			plain("agent_id", &k.AgentID).as("agentId"),
			raw("jwk", &k.JWK).as("jwk"),
			nullable("label", &k.Label).as("label"),
			plain("created_at", &k.CreatedAt),
			end("expires_at", &k.ExpiresAt).as("expiresAt"),
			optional("revoked_at", &k.RevokedAt),
			plain("statement_version", &k.StatementVersion).as("statementVersion"),
		}
	},
	row: func(k *AgentKey) projection.AgentKey {
		p := projection.AgentKey{AgentID: k.AgentID, JWK: string(k.JWK), ExpiresAt: formatEnd(k.ExpiresAt), RevokedAt: k.RevokedAt}
		if k.StatementVersion != 1 {
			p.StatementVersion = k.StatementVersion
		}
		return p
	},
}

// Endorsement is what the key before it has signed of a key.
type Endorsement struct {
	Compact string
	Until   time.Time // no control record that has it may be later
}

// ErrEndorsementOld reports an endorsement that came too late into the control log: every checker
// would refuse it.
var ErrEndorsementOld = errors.New("the endorsement is too old")

// Enrol adds a key of an agent. endorsement is what the key before it has signed of it, nil for
// nothing: ErrEndorsementOld. With an enrolment, given by the hash of its token, it spends that in
// the same transaction: of many at once, one wins. ErrExists where the company has ever had a key
// of this thumbprint, ErrNotFound and ErrDisabled of the agent, ErrTooMany where it has
// MaxAgentKeys that are live, ErrBadEnrolment.
func (s AgentKeys) Enrol(ctx context.Context, by Caller, k AgentKey, enrolment *chain.Hash, endorsement *Endorsement) (AgentKey, error) {
	k.company, k.CreatedAt, k.StatementVersion = by.Company.Chain, chain.FormatTime(by.At), statementVersion
	err := s.db.controlled(ctx, by, func(w *db.Conn) ([]controlEvent, error) {
		details := map[string]any{"enrolment": nil, "endorsement": nil}
		if endorsement != nil {
			details["endorsement"] = endorsement.Compact
			if time.Now().After(endorsement.Until) { // the change may have waited
				return nil, ErrEndorsementOld
			}
		}
		if enrolment != nil {
			fingerprint, err := s.spend(w, by, k, *enrolment)
			if err != nil {
				return nil, err
			}
			details["enrolment"] = fingerprint
		}
		if err := s.mayEnrol(w, by, k); err != nil {
			return nil, err
		}
		_, err := agentKeys.insert(w, &k, "")
		return []controlEvent{agentKeys.created(AgentKeyEnrolled, &k, details)}, err
	})
	if err != nil {
		return AgentKey{}, fmt.Errorf("enrol a key of agent %q: %w", k.AgentID, err)
	}
	return k, nil
}

func (s AgentKeys) mayEnrol(w *db.Conn, by Caller, k AgentKey) error {
	if err := checkEnabled(w, by.Company.Chain, k.AgentID); err != nil {
		return err
	}
	var known int64
	switch err := w.One([]any{&known}, `SELECT id FROM agent_key WHERE company = ? AND thumbprint = ?`, by.Company.Chain, k.Thumbprint); {
	case err == nil:
		return ErrExists
	case !errors.Is(err, db.ErrNotFound):
		return err
	}
	return checkCount(w, MaxAgentKeys, `SELECT count(*) FROM agent_key WHERE company = ? AND agent_id = ? AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ?)`,
		by.Company.Chain, k.AgentID, by.At.UnixMilli())
}

// List yields the keys of an agent in the order of their enrolment, revoked ones too.
func (s AgentKeys) List(ctx context.Context, by Caller, agentID string) iter.Seq2[AgentKey, error] {
	return db.List(ctx, s.db.DB, "keys of an agent", agentKeys.scan, "SELECT "+agentKeys.list("agent_key")+` FROM agent_key WHERE company = ? AND agent_id = ? AND id > ? ORDER BY id`,
		func(last AgentKey) []any { return []any{by.Company.Chain, agentID, last.id} })
}

// Revocation says more about the revocation of a key.
type Revocation struct {
	Reason *string
	// from then on the key was in other hands; zero where that is not recorded
	Since time.Time
}

// Errors of AgentKeys.Revoke.
var (
	ErrSinceBefore = errors.New("the key is younger than since")
	ErrSinceLater  = errors.New("since is later than the revocation says already")
)

// Revoke revokes a key of an agent, for good; a revoked key keeps its time of revocation. The time
// since when it was in other hands may be set later, and moved to an earlier time. So the last
// control record of a revocation has the earliest time. ErrNotFound, ErrSinceBefore, ErrSinceLater.
func (s AgentKeys) Revoke(ctx context.Context, by Caller, agentID, thumbprint string, r Revocation) (k AgentKey, err error) {
	defer s.found.Forget(owned{by.Company.Chain, thumbprint}) // whatever the outcome
	err = s.db.controlled(ctx, by, func(w *db.Conn) ([]controlEvent, error) {
		n, err := w.Exec(`UPDATE agent_key SET revoked_at = ? WHERE company = ? AND thumbprint = ? AND agent_id = ? AND revoked_at IS NULL`,
			chain.FormatTime(by.At), by.Company.Chain, thumbprint, agentID)
		if err == nil {
			k, err = db.Row(w, agentKeys.scan, "SELECT "+agentKeys.list("agent_key")+" FROM agent_key WHERE company = ? AND thumbprint = ? AND agent_id = ?", by.Company.Chain, thumbprint, agentID)
		}
		if err != nil {
			return nil, err
		}
		if !r.Since.IsZero() && chain.FormatTime(r.Since) < k.CreatedAt {
			return nil, ErrSinceBefore
		}
		if n == 0 {
			isNew, err := s.isEarlier(w, by.Company, thumbprint, r.Since)
			if err != nil || !isNew {
				return nil, err
			}
		}
		details := map[string]any{
			"agentId": agentID, "thumbprint": thumbprint, "revokedAt": k.RevokedAt, "reason": r.Reason, "since": timeOrNil(r.Since),
		}
		return []controlEvent{{AgentKeyRevoked, agentKeys.about(thumbprint), details}}, nil
	})
	if err != nil {
		return AgentKey{}, fmt.Errorf("revoke a key of agent %q: %w", agentID, err)
	}
	return k, nil
}

// isEarlier reports whether a time is earlier than the one that the revocation of a key has, or its
// first. ErrSinceLater.
func (s AgentKeys) isEarlier(w *db.Conn, company *Company, thumbprint string, since time.Time) (bool, error) {
	if since.IsZero() {
		return false, nil
	}
	var last sql.NullInt64
	err := w.One([]any{&last}, "SELECT "+aboutSubject("agent_key.company", agentKeys.subjectSQL("agent_key"),
		" AND json_extract(payload, '$.actionType') = 'agent-key.revoked'", "DESC")+
		" FROM agent_key WHERE company = ? AND thumbprint = ?", company.Chain, thumbprint)
	if err != nil {
		return false, err
	}
	l, err := controlRecord(w, company, last)
	if err != nil || l == nil || l.Payload.Since == nil {
		return true, err
	}
	said := *l.Payload.Since
	if at := chain.FormatTime(since); at > said {
		return false, ErrSinceLater
	} else {
		return at < said, nil
	}
}

// Live returns a key of an agent that counts at the caller's time; ErrNotFound. Answers are cached;
// a revocation takes effect before Revoke returns.
func (s AgentKeys) Live(ctx context.Context, by Caller, agentID, thumbprint string) (AgentKey, error) {
	k, err := db.Lookup(s.found, owned{by.Company.Chain, thumbprint}, by.At, func() (k AgentKey, err error) {
		err = s.db.Read(ctx, func(r *db.Conn) error {
			k, err = s.load(r, by.Company, thumbprint)
			return err
		})
		return k, err
	})
	if err == nil && (k.AgentID != agentID || !k.live(by.At)) {
		err = db.ErrNotFound
	}
	if err != nil {
		return AgentKey{}, fmt.Errorf("key of agent %q: %w", agentID, err)
	}
	return k, nil
}

// load reads a key and compares it with the newest control record about it.
func (s AgentKeys) load(r *db.Conn, company *Company, thumbprint string) (k AgentKey, err error) {
	found, err := agentKeys.knownOne(r, "company = ? AND thumbprint = ?", company.Chain, thumbprint)
	if err != nil {
		return AgentKey{}, err
	}
	k = found.row
	l, err := controlRecord(r, company, found.latest)
	if err != nil {
		return AgentKey{}, s.db.noted(company, err)
	}
	if err := s.db.checked(company, l.AgentKey(thumbprint, agentKeys.row(&k))); err != nil {
		return AgentKey{}, err
	}
	if l != nil && l.ActionType == string(AgentKeyEnrolled) {
		k.Since, _ = time.Parse(time.RFC3339, l.Timestamp) // zero for what no log has written
	}
	if k.Public, err = jose.ParseKey(k.JWK); err == nil && k.Public.Thumbprint != thumbprint {
		err = errors.New("its thumbprint is another key's")
	}
	if err != nil {
		return AgentKey{}, fmt.Errorf("%w: key %s: %w", db.ErrCorrupt, thumbprint, err)
	}
	return k, nil
}
