package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"attestd/chain"
	"attestd/store/db"
	"attestd/store/names"
)

// Sessions are runs of agents in which they have made statements.
type Sessions struct {
	db *base

	// when they were recorded, by the caller's clock
	noted *db.Cache[sessionID, time.Time]
}

// Session is a run of an agent. The table only names sessions: the contents of each are in
// idempotency_key, which has a name for each record of it; see package names.
type Session struct {
	names.Session
	Number int64 // of the row, for the next page
}

// sessionID names a session in a cache.
type sessionID struct {
	company int64
	names.Session
}

// notedFor is how long a session is remembered as listed. It is shorter than LeastSessions, after
// which any server of the database may delete one that has no new record.
const notedFor = 24 * time.Hour

// ErrOtherKey reports the sid of a session of statements that another key of the agent has used.
var ErrOtherKey = errors.New("another key of the agent has used the sid")

// Note ensures that sessions are listed. A sid belongs to one key of an agent, the first one that
// uses it: ErrOtherKey. Changes of rows are serialized, also those of several servers.
func (s Sessions) Note(ctx context.Context, by Caller, sessions ...names.Session) error {
	idOf := func(of names.Session) sessionID { return sessionID{by.Company.Chain, of} }
	var unknown []names.Session
	for _, of := range sessions {
		noted, is := s.noted.Get(idOf(of))
		age := by.At.Sub(noted)
		if is = is && age >= 0 && age < notedFor; !is && !slices.Contains(unknown, of) {
			unknown = append(unknown, of)
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	generation := s.noted.Generation()
	var missing []names.Session
	err := s.db.Read(ctx, func(r *db.Conn) error {
		missing = missing[:0]
		for _, of := range unknown {
			var there bool
			if err := r.One([]any{&there}, `SELECT EXISTS (SELECT 1 FROM agent_session WHERE company = ? AND agent_id = ? AND sid = ? AND kid = ?)`,
				by.Company.Chain, of.AgentID, of.ID, of.Key); err != nil {
				return err
			}
			if !there {
				missing = append(missing, of)
			}
		}
		return nil
	})
	if err == nil && len(missing) > 0 {
		err = s.db.Write(ctx, func(w *db.Conn) error {
			for _, of := range missing {
				if err := mayUse(w, by, of); err != nil {
					return err
				}
				if _, err := w.Exec(insertSession, by.Company.Chain, of.AgentID, of.Key, of.ID); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err != nil {
		return fmt.Errorf("note a session of agent %q: %w", unknown[0].AgentID, err)
	}
	for _, of := range unknown {
		s.noted.Put(generation, idOf(of), by.At)
	}
	return nil
}

const insertSession = `INSERT INTO agent_session (company, agent_id, kid, sid) VALUES (?, ?, ?, ?) ON CONFLICT (company, agent_id, sid, kid) DO NOTHING`

// mayUse returns ErrOtherKey where another key has a session of statements of this name.
func mayUse(w *db.Conn, by Caller, of names.Session) error {
	if len(of.Key) != thumbprintSize {
		return nil
	}
	var other bool
	err := w.One([]any{&other}, `SELECT EXISTS (SELECT 1 FROM agent_session WHERE company = ? AND agent_id = ? AND sid = ? AND kid <> ? AND length(kid) = ?)`,
		by.Company.Chain, of.AgentID, of.ID, of.Key, thumbprintSize)
	if err == nil && other {
		err = ErrOtherKey
	}
	return err
}

const sessionColumns = "id, agent_id, kid, sid"

func scanSession(rows *sql.Rows) (s Session, err error) {
	err = rows.Scan(&s.Number, &s.AgentID, &s.Key, &s.ID)
	return s, err
}

// SessionQuery narrows a list of sessions. What is "" narrows nothing.
type SessionQuery struct {
	AgentID, ID string
	// Key is exact. With Signed, the sessions are those of any key, and none without statements.
	Key    string
	Signed bool
	Before int64 // the Number of the session after which to continue
}

// thumbprintSize is the length of a thumbprint. No kind of a session without statements has it.
const thumbprintSize = 43

// List yields the sessions of the company that a query asks for, the newest first.
func (s Sessions) List(ctx context.Context, by Caller, q SessionQuery) iter.Seq2[Session, error] {
	size := 0
	if q.Signed {
		size = thumbprintSize
	}
	return db.List(ctx, s.db.DB, "sessions", scanSession, "SELECT "+sessionColumns+` FROM agent_session
		WHERE company = ?1 AND (?2 = '' OR agent_id = ?2) AND (?3 = '' OR sid = ?3) AND (?4 = '' OR kid = ?4)
		AND (?5 = 0 OR length(kid) = ?5) AND id < ?6 ORDER BY id DESC`,
		func(last Session) []any {
			if last.Number == 0 {
				last.Number = q.Before
			}
			return []any{by.Company.Chain, q.AgentID, q.ID, q.Key, size, last.Number}
		})
}

// Named returns the sessions of an agent of one name: one for each of its keys that has used it,
// and one for each kind without statements.
func (s Sessions) Named(ctx context.Context, by Caller, agentID, id string) (found []Session, err error) {
	err = s.db.Read(ctx, func(r *db.Conn) error {
		return r.Each(func(rows *sql.Rows) error {
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
		err := v.Read(ctx, func(r *db.Conn) error {
			batch = batch[:0]
			return r.Each(func(rows *sql.Rows) error {
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

// tailBytes is how much is read of the ends of payloads at once.
const tailBytes = 1 << 20

// PlaceTails is like Places, and gives yield the last characters of each record's payload too: up
// to size of them, none of a payload that was pruned. yield may read more.
func (v *View) PlaceTails(ctx context.Context, by Caller, first, last chain.Hash, size int, yield func(p Place, tail []byte) (bool, error)) error {
	type placeTail struct {
		Place
		tail []byte
	}
	limit := max(1, tailBytes/size)
	for from := ">="; ; from = ">" {
		batch := make([]placeTail, 0, limit)
		err := v.Read(ctx, func(r *db.Conn) error {
			batch = batch[:0]
			return r.Each(func(rows *sql.Rows) error {
				var p placeTail
				var name sql.RawBytes
				err := rows.Scan(&name, &p.Index, &p.tail)
				copy(p.Name[:], name)
				batch = append(batch, p)
				return err
			}, `SELECT k.name, k.idx, CASE WHEN length(r.payload) > ?4 THEN substr(r.payload, length(r.payload) - ?4 + 1) ELSE r.payload END
				FROM idempotency_key k JOIN record r ON r.id = k.chain * 1099511627776 + k.idx
				WHERE k.chain = ?1 AND k.name `+from+` ?2 AND k.name <= ?3 ORDER BY k.name LIMIT ?5`,
				by.Company.Chain, first[:], last[:], size, limit)
		})
		if err != nil {
			return fmt.Errorf("statements of a session: %w", err)
		}
		for _, p := range batch {
			if more, err := yield(p.Place, p.tail); err != nil || !more {
				return err
			}
		}
		if len(batch) < limit {
			return nil
		}
		first = batch[len(batch)-1].Name
	}
}

// PlaceEnds returns the first and the last place of a range of names; ErrNotFound where it is
// empty.
func (v *View) PlaceEnds(ctx context.Context, by Caller, first, last chain.Hash) (ends [2]Place, err error) {
	err = v.Read(ctx, func(r *db.Conn) error {
		for i, order := range [2]string{"", " DESC"} {
			var name []byte
			if err := r.One([]any{&name, &ends[i].Index}, `SELECT name, idx FROM idempotency_key WHERE chain = ? AND name >= ? AND name <= ? ORDER BY name`+order+` LIMIT 1`,
				by.Company.Chain, first[:], last[:]); err != nil {
				return err
			}
			copy(ends[i].Name[:], name)
		}
		return nil
	})
	if err != nil {
		err = fmt.Errorf("ends of a session: %w", err)
	}
	return ends, err
}
