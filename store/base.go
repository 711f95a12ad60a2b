package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
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

	// refuses changes that their caller may not make; see mayChange
	admit func(w *db.Conn, by Caller, events []controlEvent) error

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

// changedSet maps companies that must not be changed to the first reason; number 0 means all.
type changedSet struct {
	mu   sync.RWMutex
	errs map[int64]error // by company number
}

// add reports whether the company had no reason yet.
func (c *changedSet) add(company int64, err error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.errs == nil {
		c.errs = map[int64]error{}
	}
	_, known := c.errs[company]
	if !known {
		c.errs[company] = err
	}
	return !known
}

func (c *changedSet) remove(company int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.errs, company)
}

// of returns the reason of a company, or one that concerns all of them.
func (c *changedSet) of(company int64) error {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if err := c.errs[theDatabase.Chain]; err != nil {
		return err
	}
	return c.errs[company]
}

// companies returns the numbers of those that have a reason.
func (c *changedSet) companies() []int64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return slices.DeleteFunc(slices.Sorted(maps.Keys(c.errs)), func(number int64) bool { return number == theDatabase.Chain })
}

func (c *changedSet) all() []error {
	c.mu.RLock()
	defer c.mu.RUnlock()
	errs := make([]error, 0, len(c.errs))
	for _, company := range slices.Sorted(maps.Keys(c.errs)) {
		errs = append(errs, c.errs[company])
	}
	return errs
}

// intact is Changeable for what is written with a control record: of that the log's writer knows
// whether the company is suspended, and nothing has to be read first.
func (s *base) intact(company int64) error {
	if err := s.halted.of(company); err != nil {
		return err
	}
	return s.changed.of(company)
}

// noted remembers a *TablesChangedError of a company.
func (s *base) noted(c *Company, err error) error {
	if errors.Is(err, ErrTablesChanged) {
		s.changed.add(c.Chain, err)
	}
	return err
}

// checked converts a difference to an error, or nil to nil. A row without a record is obeyed if the
// log is incomplete.
func (s *base) checked(company *Company, d *projection.Difference) error {
	if d == nil || d.Unrecorded() && !company.complete {
		return nil
	}
	err := changedTables(company, d)
	s.changed.add(company.Chain, err)
	return fmt.Errorf("%w", err)
}

// compared compares what was read of a row with the newest control record about it, of which latest
// is the ID.
func (s *base) compared(r *db.Conn, company *Company, latest sql.NullInt64, compare func(*projection.Latest) *projection.Difference) error {
	l, err := controlRecord(r, company, latest)
	if err != nil {
		return s.noted(company, err)
	}
	return s.checked(company, compare(l))
}

func changedTables(company *Company, d *projection.Difference) error {
	return &TablesChangedError{Company: company.ID, Difference: *d}
}

func (s *base) haltedChain(number int64) error {
	company, _ := db.LogOf(number)
	return s.halted.of(company)
}

// overwriteDeleted makes SQLite overwrite deleted content on the connection that writes. Otherwise
// it may stay in the free part of a page.
func (s *base) overwriteDeleted(w *db.Conn, on bool) error {
	if s.MultiWriter() {
		return nil
	}
	if on {
		return w.One([]any{new(int64)}, "PRAGMA secure_delete = ON")
	}
	return w.One([]any{new(int64)}, "PRAGMA secure_delete = OFF")
}

// owned is the name of something that belongs to a company.
type owned struct {
	company int64
	name    string
}

// checkCount refuses another row of a company that has as many as most.
func checkCount(w *db.Conn, most int, query string, args ...any) error {
	var n int
	if err := w.One([]any{&n}, query, args...); err != nil {
		return err
	}
	if n >= most {
		return fmt.Errorf("%w: the bound is %d", ErrTooMany, most)
	}
	return nil
}
