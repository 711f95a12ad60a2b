package store

import (
	"maps"
	"slices"
	"sync"
)

// changedSet holds the companies whose tables were found to differ from their control logs.
type changedSet struct {
	mu   sync.RWMutex
	errs map[int64]error // by the number of the company
}

func (c *changedSet) add(company int64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.errs == nil {
		c.errs = map[int64]error{}
	}
	if _, known := c.errs[company]; !known {
		c.errs[company] = err
	}
}

func (c *changedSet) remove(company int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.errs, company)
}

func (c *changedSet) of(company int64) error {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.errs[company]
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

// TablesAgree says whether nobody has found the tables of the caller's company to differ from its control log: else a *TablesChangedError.
// What changes rights or gives out tokens asks first; what is recorded, read and proven goes on.
func (s *Store) TablesAgree(by Caller) error { return s.changed.of(by.Company.Chain) }

// TablesChanged are the first differences that were found, a *TablesChangedError for each company that has one.
func (s *Store) TablesChanged() []error { return s.changed.all() }
