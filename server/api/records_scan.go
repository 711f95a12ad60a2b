package api

import (
	"cmp"
	"encoding/json"
	"errors"

	"attestd/chain"
	"attestd/chain/search"
	"attestd/server/httpapi"
	"attestd/server/limit"
)

// page is the requested number of matching records.
type page struct {
	s *Searches
	searched
	limit int // 0 for all
	scan  *search.Scan
	found int
}

// each calls add for the records of the page, and send after each step, until send returns false.
func (p *page) each(c *httpapi.Call, add func(r *chain.Record), send func() (goOn bool, err error)) error {
	parts := int64(1)
	if p.isLong() {
		parts = limit.LongSearch
	}
	done, err := p.s.beginSearch(p.company, parts)
	if err != nil {
		return err
	}
	defer done()
	p.scan = search.NewScan(&turns{Reader: p.s.Store, s: p.s, long: p.isLong()}, p.log.Chain, p.filter, p.from, p.to,
		p.backward)
	isFull := func() bool { return p.limit > 0 && p.found == p.limit }
	// A page ends when one more record is found, so that the next one is not empty, unless finding
	// it could take long.
	one := p.limit > 0 && !p.filter.NeedsRecords()
	full := false
	for goOn := true; goOn && !full && !p.scan.Done(); {
		var unfit error
		err := p.scan.Step(c.Context(), func(r *chain.Record) bool {
			if full = isFull(); full {
				return false
			}
			if unfit = readable(r); unfit != nil {
				return false
			}
			add(r)
			p.found++
			return true
		})
		if err = cmp.Or(err, unfit); err != nil {
			return damage(err)
		}
		full = full || !one && isFull()
		if goOn, err = send(); err != nil {
			return err
		}
	}
	return nil
}

// isLong reports whether a search reads every payload, or returns everything that it finds.
func (p *page) isLong() bool { return p.filter.NeedsRecords() || p.limit == 0 }

// beginSearch holds parts of the budget until done is called. A company's first search may use the
// reserve, so that slow readers of other companies cannot block it.
func (s *Searches) beginSearch(company, parts int64) (done func(), err error) {
	holder := limit.Holder{Company: company, Known: s.Pool.Holds(company) == 0}
	if err := s.Pool.Acquire(parts, holder); err != nil {
		return nil, httpapi.Unavailable("NOT_DONE", "too many searches are under way; try again later", err).With("Retry-After", "1")
	}
	return func() { s.Pool.Release(parts, holder) }, nil
}

// next returns the cursor for the remaining part, or "".
func (p *page) next() string {
	if p.scan.Done() {
		return ""
	}
	return cursor{p.digest, p.size, p.border()}.String()
}

// border returns the border between the searched and the remaining part.
func (p *page) border() int64 {
	if p.backward {
		return p.scan.To
	}
	return p.scan.From
}

// decided returns the searched part of the log.
func (p *page) decided() (from, to int64) {
	if p.backward {
		return p.scan.To, p.to
	}
	return p.from, p.scan.From
}

// damage returns the response for a search that meets a missing or unreadable record. Omitting such
// a record would hide the damage.
func damage(err error) error {
	var found *search.DamageError
	if !errors.As(err, &found) {
		return err
	}
	return httpapi.DamagedRecord(found.Index, err)
}

var errNoJSON = errors.New("not JSON")

// readable refuses a record that would make a response invalid JSON.
func readable(r *chain.Record) error {
	if !r.IsPruned() && !json.Valid(r.Payload) || len(r.Delegation) > 0 && !json.Valid(r.Delegation) {
		return &search.DamageError{Index: r.Index, Cause: errNoJSON}
	}
	return nil
}
