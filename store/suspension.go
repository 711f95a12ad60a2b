package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"attestd/chain"
	"attestd/store/db"
	"attestd/store/projection"
)

// Suspension says since when a company is suspended, and why. The zero value is of none.
type Suspension struct {
	At     string
	Reason string
}

type storedSuspension struct {
	company int64
	Suspension
}

var suspensions = right[storedSuspension, projection.Suspension]{
	table: projection.TableSuspension, subject: "suspension", order: "company",
	columns: func(s *storedSuspension) []column {
		return []column{
			plain("company", &s.company),
			optional("suspended_at", &s.At).as("suspendedAt").ifAny(),
			optional("reason", &s.Reason).as("reason"),
		}
	},
	row: func(s *storedSuspension) projection.Suspension {
		return projection.Suspension{SuspendedAt: s.At, Reason: s.Reason}
	},
}

// Suspend suspends the caller's company, for a reason that its control log says. When Suspend
// returns, no server appends anything for it or issues anything to it; see Active. It reports false
// if the company is suspended already.
func (s Companies) Suspend(ctx context.Context, by Caller, reason string) (bool, error) {
	return s.suspend(ctx, by, Suspension{chain.FormatTime(by.At), reason})
}

// Resume ends a suspension, for a reason that the control log says. It reports false if there is
// none.
func (s Companies) Resume(ctx context.Context, by Caller, reason string) (bool, error) {
	return s.suspend(ctx, by, Suspension{Reason: reason})
}

func (companies Companies) suspend(ctx context.Context, by Caller, next Suspension) (changed bool, err error) {
	company := by.Company.Chain
	defer companies.suspended.Forget(company) // whatever the outcome
	err = companies.db.recorded(ctx, by, companies.db.Change, func(w *db.Conn) ([]controlEvent, error) {
		var at, reason sql.NullString
		err := w.One([]any{&at, &reason}, `SELECT suspended_at, reason FROM company_suspension WHERE company = ?`, company)
		if err != nil && !errors.Is(err, db.ErrNotFound) {
			return nil, err
		}
		if changed = at.Valid != (next.At != ""); !changed {
			return nil, nil
		}
		s := storedSuspension{company, next}
		action := CompanySuspended
		if next.At == "" {
			action = CompanyResumed
		}
		if _, err := suspensions.insert(w, &s, `ON CONFLICT (company) DO UPDATE SET suspended_at = excluded.suspended_at, reason = excluded.reason`); err != nil {
			return nil, err
		}
		return []controlEvent{suspensions.created(action, &s, nil)}, companies.relimit(w, by.Company)
	})
	if err != nil {
		return false, fmt.Errorf("suspend or resume company %q: %w", by.Company.ID, err)
	}
	return changed, nil
}

// relimit makes the writers of all servers read the limits of a company again before they append to
// its logs.
func (s Companies) relimit(w *db.Conn, c *Company) error {
	for _, l := range c.Logs() {
		if _, err := w.Rekey(l.Chain); err != nil {
			return err
		}
		s.db.Rekeyed(l.Chain)
	}
	return nil
}

// Active returns ErrSuspended if the caller's company is suspended, unless an operator acts.
// Answers are cached; a change takes effect before Suspend or Resume returns. What the company
// appends is decided by the log's writer, which never appends behind the record of the suspension.
func (s Companies) Active(ctx context.Context, by Caller) error {
	if by.Operator || by.Company.Chain == db.Installation {
		return nil
	}
	suspended, err := db.Lookup(s.suspended, by.Company.Chain, by.At, func() (bool, error) {
		found, err := s.Suspension(ctx, by.Company)
		return found.At != "", err
	})
	if err == nil && suspended {
		err = s.db.Refused(ErrSuspended)
	}
	if err != nil {
		return fmt.Errorf("company %q: %w", by.Company.ID, err)
	}
	return nil
}

// Suspension reads the suspension of a company, and compares it with the newest control record
// about it.
func (s Companies) Suspension(ctx context.Context, c *Company) (found Suspension, err error) {
	err = s.db.Read(ctx, func(r *db.Conn) error {
		found, err = s.loadSuspension(r, c)
		return err
	})
	return found, err
}

func (s Companies) loadSuspension(r *db.Conn, c *Company) (found Suspension, err error) {
	var at, reason sql.NullString
	var latest sql.NullInt64
	if err := r.One([]any{&at, &reason, &latest}, `SELECT suspended_at, reason, `+latestOf("CAST(?1 AS BIGINT)", "?2")+`
		FROM (SELECT 1) AS one LEFT JOIN company_suspension ON company = ?1`, c.Chain, suspensions.subject); err != nil {
		return found, err
	}
	found = Suspension{at.String, reason.String}
	l, err := controlRecord(r, c, latest)
	if err != nil {
		return found, s.db.Tables.noted(c, err)
	}
	return found, s.db.Tables.checked(c, l.Suspension(suspensions.row(&storedSuspension{Suspension: found})))
}
