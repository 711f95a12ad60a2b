package store

import (
	"context"
	"database/sql"
	"fmt"

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
// Resume ends a suspension, for a reason that the control log says. It reports false if there is
// none.
// relimit makes the writers of all servers read the limits of a company again before they append to
// its logs.
// changeable is Tables.Changeable.
func (s companyCache) changeable(ctx context.Context, by Caller) error {
	if err := s.db.intact(by.Company.Chain); err != nil {
		return err
	}
	return s.Active(ctx, by)
}

// Active returns ErrSuspended if the caller's company is suspended, unless an operator acts.
// Answers are cached; a change takes effect before Suspend or Resume returns. What the company
// appends is decided by the log's writer, which never appends behind the record of the suspension.
func (s companyCache) Active(ctx context.Context, by Caller) error {
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
func (s companyCache) Suspension(ctx context.Context, c *Company) (found Suspension, err error) {
	err = s.db.Read(ctx, func(r *db.Conn) error {
		found, err = s.loadSuspension(r, c)
		return err
	})
	return found, err
}

func (s companyCache) loadSuspension(r *db.Conn, c *Company) (found Suspension, err error) {
	var at, reason sql.NullString
	var latest sql.NullInt64
	if err := r.One([]any{&at, &reason, &latest}, `SELECT suspended_at, reason, `+latestOf("CAST(?1 AS BIGINT)", "?2")+`
		FROM (SELECT 1) AS one LEFT JOIN company_suspension ON company = ?1`, c.Chain, suspensions.subject); err != nil {
		return found, err
	}
	found = Suspension{at.String, reason.String}
	l, err := controlRecord(r, c, latest)
	if err != nil {
		return found, s.db.noted(c, err)
	}
	return found, s.db.checked(c, l.Suspension(suspensions.row(&storedSuspension{Suspension: found})))
}
