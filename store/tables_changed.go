package store

import (
	"context"
	"maps"
	"slices"
	"sync"
)

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

// Changeable returns nil if the caller's company may be changed, a *RolledBackError if one of its
// logs was rolled back, a *TablesChangedError if its tables differ from its control log, or
// ErrSuspended. Operations that change rights or issue tokens call it first.
func (s Tables) Changeable(ctx context.Context, by Caller) error {
	return s.companies.changeable(ctx, by)
}

// intact is Changeable for what is written with a control record: of that the log's writer knows
// whether the company is suspended, and nothing has to be read first.
func (s *base) intact(company int64) error {
	if err := s.halted.of(company); err != nil {
		return err
	}
	return s.changed.of(company)
}

// Changed returns the first difference of each company that has one, each a *TablesChangedError.
func (s Tables) Changed() []error { return s.db.changed.all() }

// Differing returns the numbers of the companies that have a difference, with the lengths of their
// control logs: a longer one may say what the tables have.
func (s Tables) Differing(ctx context.Context) (map[int64]int64, error) {
	lengths := map[int64]int64{}
	for _, number := range s.db.changed.companies() {
		head, _, err := s.db.now.Tip(ctx, ControlChain(number))
		if err != nil {
			return nil, err
		}
		lengths[number] = head.Length
	}
	return lengths, nil
}
