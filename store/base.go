package store

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"time"

	"attestd/store/db"
	"attestd/store/ledger"
	"attestd/store/projection"
)

// base is what all groups share: the ledger, and of which companies nothing may be changed.
type base struct {
	*ledger.Ledger
	now ledger.View // the logs, at the time of each call

	logHost string   // of the origins of new logs
	isNew   bool     // this program has just made the database
	notices []string // see Store.Notices

	halted  changedSet // companies of which a checkpoint shows that a log went back
	changed changedSet // companies whose tables differ from their control logs
	// held while payloads may begin to be missing, and where a webhook gets its first position
	pruning sync.Mutex
}

// TablesChangedError means that a table of a company does not match its control log.
type TablesChangedError struct {
	Company    string
	Difference projection.Difference // first difference found
}

func (e *TablesChangedError) Error() string {
	return fmt.Sprintf("company %q: %v", e.Company, &e.Difference)
}

func (e *TablesChangedError) Unwrap() error { return ErrTablesChanged }

// named returns a company with only its names and chain IDs, for uses that need no key and check no
// row.
func (s *base) named(ctx context.Context, number int64) (*Company, error) {
	number, _ = db.LogOf(number)
	c := &Company{Chain: number}
	c.Actions.Name, c.Actions.Chain = db.Actions, db.Actions.ChainID(number)
	c.Control.Name, c.Control.Chain = db.Control, db.Control.ChainID(number)
	err := s.Read(ctx, func(r *db.Conn) error {
		return r.One([]any{&c.ID}, `SELECT company_id FROM company WHERE id = ?`, number)
	})
	if err != nil {
		return nil, fmt.Errorf("company of chain %d: %w", number, err)
	}
	return c, nil
}

// newestOf returns the time of the newest record of a company's logs, or zero.
func (s *base) newestOf(ctx context.Context, company int64) (at time.Time, err error) {
	var text sql.NullString
	err = s.Read(ctx, func(c *db.Conn) error {
		return c.One([]any{&text}, `SELECT max(timestamp) FROM head WHERE chain IN (?, ?)`, db.Actions.ChainID(company), db.Control.ChainID(company))
	})
	if err == nil && text.String != "" {
		at, err = db.ParseTime(text.String)
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("newest record of chain %d: %w", company, err)
	}
	return at, nil
}
