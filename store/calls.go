package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"attestd/chain"
	"attestd/chain/action"
	"attestd/store/db"
	"attestd/store/names"
)

// Calls of tools that were refused, and what became of them.
type Calls struct{ db *base }

// refusedFor is how long a call is remembered after its refusal, and after it was found to have run
// all the same. An MCP proxy waits a day for an outcome, and what could not be sent stays in a
// spool for longer.
const refusedFor = 7 * 24 * time.Hour

// RefusedCall is a call that was refused, and what its records have reported so far.
type RefusedCall struct {
	Call    chain.Hash // see CallName
	Counted int64      // the first record that is not in State
	State   action.State
	Expires time.Time

	was int64 // Counted in the table; -1 for a call that is not there
}

// CallName names a call of a company in the table.
func CallName(company int64, c *action.Call) chain.Hash {
	return sha256.Sum256(fmt.Appendf(nil, "%d %s", company, c.Key()))
}

// NewRefusedCall returns a call that was refused by a record at a time.
func NewRefusedCall(name chain.Hash, at time.Time) RefusedCall {
	return RefusedCall{Call: name, Expires: at.Add(refusedFor), was: -1}
}

// DisobeyedCall is a finding, for the control log.
type DisobeyedCall struct {
	action.Disobeyed
	Call    action.Call
	Session names.Session // of the record that shows it; zero for none
}

// Behind returns the companies whose actions have a number of records, at least, that were not
// looked at yet.
func (s Calls) Behind(ctx context.Context, least int64) (companies []int64, err error) {
	err = s.db.Read(ctx, func(r *db.Conn) error {
		companies = companies[:0]
		return r.Each(func(rows *sql.Rows) error {
			var company int64
			err := rows.Scan(&company)
			companies = append(companies, company)
			return err
		}, `SELECT h.chain FROM head h LEFT JOIN call_watch w ON w.company = h.chain
			WHERE h.chain > 0 AND h.length > 0 AND (w.company IS NULL OR h.length - w.next_record >= ?) ORDER BY h.chain`, least)
	})
	if err != nil {
		return nil, fmt.Errorf("companies whose calls were not looked at: %w", err)
	}
	return companies, nil
}

// Next returns the first record of a company's actions that was not looked at. Of a company of
// which none was, it is the first of the last day: what is older was recorded under a version that
// looked at no calls.
func (s Calls) Next(ctx context.Context, company int64, now time.Time) (next int64, err error) {
	err = s.db.Read(ctx, func(r *db.Conn) error {
		return r.One([]any{&next}, `SELECT next_record FROM call_watch WHERE company = ?`, company)
	})
	if errors.Is(err, db.ErrNotFound) {
		var head chain.Head
		if head, _, err = s.db.now.Tip(ctx, company); err == nil {
			next, err = s.db.now.SizeAt(ctx, company, head.Length, chain.FormatTime(now.Add(-24*time.Hour)))
		}
	}
	if err != nil {
		return 0, fmt.Errorf("calls that were not looked at: %w", err)
	}
	return next, nil
}

// SaveNext stores the first record of each company that was not looked at, in one transaction,
// unless the duty to look at them has gone to another server.
func (s Calls) SaveNext(ctx context.Context, duty *db.Held, next map[int64]int64) error {
	mine, args := duty.Fence()
	err := s.db.Write(ctx, func(w *db.Conn) error {
		for company, index := range next {
			if _, err := w.Exec(`INSERT INTO call_watch (company, next_record) SELECT ?, ? WHERE `+mine+`
				ON CONFLICT (company) DO UPDATE SET next_record = excluded.next_record`, slices.Concat([]any{company, index}, args)...); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("save which calls were looked at: %w", err)
	}
	return nil
}

// AnyRefused reports whether a company has a call that was refused and is remembered.
func (s Calls) AnyRefused(ctx context.Context, company int64) (is bool, err error) {
	err = s.db.Read(ctx, func(r *db.Conn) error {
		return r.One([]any{&is}, `SELECT EXISTS (SELECT 1 FROM refused_call WHERE company = ?)`, company)
	})
	if err != nil {
		return false, fmt.Errorf("refused calls: %w", err)
	}
	return is, nil
}

// Refused returns those of some calls that were refused and are remembered, by their names.
func (s Calls) Refused(ctx context.Context, names []chain.Hash) (found map[chain.Hash]RefusedCall, err error) {
	err = s.db.Read(ctx, func(r *db.Conn) error {
		found = make(map[chain.Hash]RefusedCall)
		for _, name := range names {
			if _, again := found[name]; again {
				continue
			}
			c := RefusedCall{Call: name}
			var expires int64
			var done, foundAt sql.NullInt64
			err := r.One([]any{&c.Counted, &c.State.Requests, &c.State.Refusals, &c.State.Refused, &done, &c.State.Tool, &expires, &foundAt},
				`SELECT counted, requests, refusals, refused, done, tool, expires_at, found_at FROM refused_call WHERE call = ?`, name[:])
			if errors.Is(err, db.ErrNotFound) {
				continue
			}
			if err != nil {
				return err
			}
			c.was, c.Expires = c.Counted, time.UnixMilli(expires)
			c.State.Done, c.State.HasOutcome, c.State.Found = done.Int64, done.Valid, foundAt.Valid
			c.State.IsRefused = true // as all calls of the table
			found[name] = c
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("refused calls: %w", err)
	}
	return found, nil
}

// errCallMoved means that another server has counted records of a call meanwhile.
var errCallMoved = errors.New("another server looks at the same calls")

// Save stores what the records of refused calls of the caller's company have reported, and appends
// a control record for each that disobeyed, in one transaction.
func (s Calls) Save(ctx context.Context, by Caller, calls []RefusedCall, found []DisobeyedCall) error {
	rows := func(w *db.Conn) error {
		for i := range calls {
			if err := saveCall(w, by, &calls[i]); err != nil {
				return err
			}
		}
		return nil
	}
	var err error
	if len(found) == 0 {
		err = s.db.Write(ctx, rows)
	} else {
		err = s.db.controlled(ctx, by, func(w *db.Conn) ([]controlEvent, error) {
			events := make([]controlEvent, len(found))
			for i := range found {
				events[i] = found[i].event()
			}
			return events, rows(w)
		})
	}
	if err != nil {
		return fmt.Errorf("save refused calls: %w", err)
	}
	return nil
}

// saveCall writes a call, unless another server has written it since it was read.
func saveCall(w *db.Conn, by Caller, c *RefusedCall) error {
	done := sql.NullInt64{Int64: c.State.Done, Valid: c.State.HasOutcome}
	foundAt, expires := sql.NullInt64{Int64: by.At.UnixMilli(), Valid: c.State.Found}, c.Expires
	if c.State.Found {
		expires = by.At.Add(refusedFor)
	}
	var n int64
	var err error
	if c.was < 0 {
		n, err = w.Exec(`INSERT INTO refused_call (call, company, counted, requests, refusals, refused, done, tool, expires_at, found_at)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (call) DO NOTHING`, c.Call[:], by.Company.Chain, c.Counted, c.State.Requests,
			c.State.Refusals, c.State.Refused, done, c.State.Tool, expires.UnixMilli(), foundAt)
	} else {
		n, err = w.Exec(`UPDATE refused_call SET counted = ?, requests = ?, refusals = ?, refused = ?, done = ?, tool = ?,
			found_at = coalesce(found_at, ?7), expires_at = CASE WHEN found_at IS NULL THEN ?8 ELSE expires_at END
			WHERE call = ?9 AND counted = ?10`, c.Counted, c.State.Requests, c.State.Refusals, c.State.Refused,
			done, c.State.Tool, foundAt, expires.UnixMilli(), c.Call[:], c.was)
	}
	if err == nil && n == 0 {
		err = errCallMoved
	}
	return err
}

// event is the control record of a finding. Its subject names the session, so that the findings of
// a session are found.
func (d *DisobeyedCall) event() controlEvent {
	return controlEvent{CallDisobeyed, subjectDisobeyed(d.Call.Agent, d.Session), map[string]any{
		"agentId": d.Call.Agent, "tool": d.Tool, "source": d.Call.Source, "callId": d.Call.ID, "sessionId": d.Call.SessionID,
		"kid": d.Session.Key, "sid": d.Session.ID, "refused": d.Refused, "done": d.Done,
	}}
}

// subjectDisobeyed is of calls in one session that disobeyed a refusal. The name of a session is
// long, and anybody's choice.
func subjectDisobeyed(agentID string, of names.Session) string {
	h := sha256.New()
	for _, part := range []string{agentID, of.Key, of.ID} {
		part := sha256.Sum256([]byte(part))
		h.Write(part[:])
	}
	return "disobeyed:" + hex.EncodeToString(h.Sum(nil)[:16])
}

// Found returns how many calls were found since a time to have disobeyed a refusal, of all
// companies.
func (s Calls) Found(ctx context.Context, since time.Time) (count int, err error) {
	err = s.db.Read(ctx, func(r *db.Conn) error {
		return r.One([]any{&count}, `SELECT count(*) FROM refused_call WHERE found_at >= ?`, since.UnixMilli())
	})
	if err != nil {
		return 0, fmt.Errorf("calls that disobeyed: %w", err)
	}
	return count, nil
}

// Disobeyed returns the calls of a session that disobeyed a refusal, in the order in which that was
// found, and at most a number of them. more says that there are further ones.
func (v *View) Disobeyed(ctx context.Context, by Caller, of names.Session, most int) (list []action.Disobeyed, more bool, err error) {
	subject := subjectDisobeyed(of.AgentID, of)
	err = v.Read(ctx, func(r *db.Conn) error {
		list = list[:0]
		return r.Each(func(rows *sql.Rows) error {
			var payload sql.RawBytes
			if err := rows.Scan(&payload); err != nil {
				return err
			}
			var record struct {
				ActionType ControlAction
				Payload    action.Disobeyed
			}
			if err := json.Unmarshal(payload, &record); err != nil {
				return fmt.Errorf("%w: a control record of %s: %w", db.ErrCorrupt, subject, err)
			}
			if record.ActionType == CallDisobeyed {
				list = append(list, record.Payload)
			}
			return nil
		}, `SELECT payload`+controlRecords+` ORDER BY id LIMIT ?4`,
			subject, db.RecordID(by.Company.Control.Chain, 0), db.RecordID(by.Company.Control.Chain, db.IndexMask), most+1)
	})
	if err != nil {
		return nil, false, fmt.Errorf("calls of a session that disobeyed: %w", err)
	}
	if more = len(list) > most; more {
		list = slices.Delete(list, most, len(list))
	}
	return list, more, nil
}
