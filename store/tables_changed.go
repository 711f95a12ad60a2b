package store

import (
	"maps"
	"slices"
	"sync"
)

// changedSet holds the companies of which something was found that keeps them from being changed,
// with the first that was.
type changedSet struct {
	mu   sync.RWMutex
	errs map[int64]error // by the number of the company
}

// add says whether nothing was found of the company before.
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

// Changeable says whether the caller's company may be changed: a *RolledBackError where one of its
// logs is proven to have gone back, a *TablesChangedError where its tables were found to differ
// from its control log. What changes rights or gives out tokens asks first.
func (s Tables) Changeable(by Caller) error {
	if err := s.db.halted.of(by.Company.Chain); err != nil {
		return err
	}
	return s.db.changed.of(by.Company.Chain)
}

// Changed are the first differences that were found, a *TablesChangedError for each company
// that has one.
func (s Tables) Changed() []error { return s.db.changed.all() }
