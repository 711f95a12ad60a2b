package store

import (
	"context"
	"database/sql"
	"fmt"
	"iter"

	"attestd/chain"
)

// Session is a run of an agent in which it has made statements. The table names sessions alone: how
// far each has come stands in idempotency_key, which has a name for each place of it.
type Session struct {
	AgentID, Key, ID string // Key is the thumbprint: kid
	Number           int64  // of the row, for the next page
}

// sessionID names a session in a cache.
type sessionID struct {
	company          int64
	agentID, key, id string
}

// Note makes sure that a session is listed.
func (s Sessions) Note(ctx context.Context, by Caller, session Session) error {
	id := sessionID{by.Company.Chain, session.AgentID, session.Key, session.ID}
	if _, noted := s.db.sessions.get(id); noted {
		return nil
	}
	generation := s.db.sessions.now()
	var there bool
	err := s.db.read(ctx, func(r *conn) error {
		return r.one([]any{&there}, `SELECT EXISTS (SELECT 1 FROM agent_session WHERE company = ? AND agent_id = ? AND sid = ? AND kid = ?)`,
			by.Company.Chain, session.AgentID, session.ID, session.Key)
	})
	if err == nil && !there {
		err = s.db.write(ctx, func(w *conn) error {
			_, err := w.exec(`INSERT INTO agent_session (company, agent_id, kid, sid) VALUES (?, ?, ?, ?) ON CONFLICT (company, agent_id, sid, kid) DO NOTHING`,
				by.Company.Chain, session.AgentID, session.Key, session.ID)
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("note a session of agent %q: %w", session.AgentID, err)
	}
	s.db.sessions.put(generation, id, struct{}{})
	return nil
}

const sessionColumns = "id, agent_id, kid, sid"

func scanSession(rows *sql.Rows) (s Session, err error) {
	err = rows.Scan(&s.Number, &s.AgentID, &s.Key, &s.ID)
	return s, err
}

// List yields the sessions of the company before a number, the newest first; those of one agent, or
// with "" of all.
func (s Sessions) List(ctx context.Context, by Caller, agentID string, before int64) iter.Seq2[Session, error] {
	return list(ctx, s.db, "sessions", scanSession, "SELECT "+sessionColumns+` FROM agent_session
		WHERE company = ?1 AND (?2 = '' OR agent_id = ?2) AND id < ?3 ORDER BY id DESC`,
		func(last Session) []any {
			if last.Number == 0 {
				last.Number = before
			}
			return []any{by.Company.Chain, agentID, last.Number}
		})
}

// Named returns the sessions of an agent of one name: one for each of its keys that has used it.
func (s Sessions) Named(ctx context.Context, by Caller, agentID, id string) (found []Session, err error) {
	err = s.db.read(ctx, func(r *conn) error {
		return r.each(func(rows *sql.Rows) error {
			one, err := scanSession(rows)
			found = append(found, one)
			return err
		}, "SELECT "+sessionColumns+` FROM agent_session WHERE company = ? AND agent_id = ? AND sid = ? ORDER BY id`, by.Company.Chain, agentID, id)
	})
	return found, err
}

// placesBatch is how many names of idempotency keys are read at once.
const placesBatch = 1024

// Place is the name of an idempotency key, and the index of the record that has it.
type Place struct {
	Name  chain.Hash
	Index int64
}

// Places calls yield for the names of idempotency keys of the actions from one to another, both
// included, in their order, until it returns false.
func (v *View) Places(ctx context.Context, by Caller, first, last chain.Hash, yield func(Place) bool) error {
	for from := ">="; ; from = ">" {
		batch := make([]Place, 0, placesBatch)
		err := v.read(ctx, func(r *conn) error {
			batch = batch[:0]
			return r.each(func(rows *sql.Rows) error {
				var p Place
				var name sql.RawBytes
				err := rows.Scan(&name, &p.Index)
				copy(p.Name[:], name)
				batch = append(batch, p)
				return err
			}, `SELECT name, idx FROM idempotency_key WHERE chain = ? AND name `+from+` ? AND name <= ? ORDER BY name LIMIT ?`,
				by.Company.Chain, first[:], last[:], placesBatch)
		})
		if err != nil {
			return fmt.Errorf("places of a session: %w", err)
		}
		for _, p := range batch {
			if !yield(p) {
				return nil
			}
		}
		if len(batch) < placesBatch {
			return nil
		}
		first = batch[len(batch)-1].Name
	}
}
