package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"unicode/utf8"

	"attestd/chain"
	"attestd/search"
	"attestd/server/limit"
	"attestd/store"
)

type recordsRequest struct {
	Agent       string        `query:"agent"`
	Action      string        `query:"action"`
	DelegatedBy string        `query:"delegatedBy"`
	Since       string        `query:"since"`
	Until       string        `query:"until"`
	Text        string        `query:"q"`
	Order       string        `query:"order"`
	Cursor      string        `query:"cursor"`
	Limit       int           `query:"limit" must:"number 1..1000"` // 0 when it is absent
	Accept      string        `header:"Accept"`
	Log         store.LogName `query:"log" must:"log"`
}

// searched is a part of a log, and what is looked for there.
type searched struct {
	company  int64 // number of its chain
	log      store.Log
	size     int64 // of the log when the search began
	from, to int64 // the part that is not decided yet
	filter   search.Filter
	backward bool
	digest   digest // of all that is asked for, which a cursor is bound to
}

// searchRecords is an addition to the specification: the records of a log that match.
func (s *Server) searchRecords(ctx context.Context, by store.Caller, r recordsRequest) (body, error) {
	what, err := s.searched(ctx, by, &r)
	if err != nil {
		return nil, err
	}
	p := &page{searched: what, limit: r.Limit}
	switch {
	case strings.Contains(r.Accept, "text/event-stream"):
		p.limit = orPage(p.limit)
		return recordEvents{p}, nil
	case strings.Contains(r.Accept, "application/x-ndjson"):
		return recordLines{p}, nil
	case strings.Contains(r.Accept, "text/csv"):
		return recordTable{p}, nil
	}
	p.limit = orPage(p.limit)
	return recordPage{p}, nil
}

// orPage is how many records are given where a request does not say.
func orPage(limit int) int {
	if limit == 0 {
		return 100
	}
	return limit
}

// searched finds out which part of a log a request is about.
func (s *Server) searched(ctx context.Context, by store.Caller, r *recordsRequest) (w searched, err error) {
	switch r.Order {
	case "", "newest":
		w.backward = true
	case "oldest":
	default:
		return w, badQuery("order must be newest or oldest")
	}
	if err := r.check(); err != nil {
		return w, err
	}
	w.company, w.log = by.Company.Chain, by.Company.Log(r.Log)
	w.filter = search.Filter{Agent: r.Agent, Action: r.Action, DelegatedBy: r.DelegatedBy, Text: r.Text}
	w.digest = digestOf(w.log.ID, r.Order != "oldest", &w.filter, r.Since, r.Until)
	head, _, err := s.Store.Tip(ctx, w.log.Chain)
	if err != nil {
		return w, err
	}
	w.size = head.Length
	at := int64(-1)
	if r.Cursor != "" {
		c, ok := parseCursor(r.Cursor)
		if !ok || c.digest != w.digest || c.size > w.size {
			return w, badQuery("cursor must be the next of an answer to the same question")
		}
		w.size, at = c.size, c.at
	}
	if w.from, w.to, err = s.period(ctx, w.log.Chain, w.size, r.Since, r.Until); err != nil {
		return w, err
	}
	if at >= 0 && w.backward {
		w.to = max(w.from, min(w.to, at))
	} else if at >= 0 {
		w.from = min(w.to, max(w.from, at))
	}
	return w, nil
}

// maxTerm is the length in characters of what a record is looked for by: no agentId is longer, and no principal either.
const maxTerm = 2048

// check refuses what no record can have, and times that are none.
func (r *recordsRequest) check() error {
	for _, term := range []struct {
		name, text string
		most       int
	}{{"agent", r.Agent, maxName}, {"action", r.Action, maxName + 1}, {"delegatedBy", r.DelegatedBy, maxTerm}, {"q", r.Text, maxName}} {
		if n := utf8.RuneCountInString(term.text); n > term.most || !utf8.ValidString(term.text) {
			return badQuery(fmt.Sprintf("%s must have at most %d characters, in UTF-8", term.name, term.most))
		}
	}
	for _, at := range []struct{ name, text string }{{"since", r.Since}, {"until", r.Until}} {
		if at.text != "" && !chain.IsTimestamp(at.text) {
			return badQuery(at.name + " must be a time, as in 2026-03-02T09:05:04.218Z")
		}
	}
	if r.Since != "" && r.Until != "" && r.Since > r.Until {
		return badQuery("since must not be later than until")
	}
	return nil
}

func badQuery(what string) error {
	return fail(http.StatusBadRequest, "Invalid query parameter: "+what)
}

// period returns which of the first size records of a chain are of a period.
func (s *Server) period(ctx context.Context, number, size int64, since, until string) (from, to int64, err error) {
	to = size
	if until != "" {
		to, err = s.Store.SizeAt(ctx, number, size, until)
	}
	if since != "" && err == nil {
		from, err = s.Store.SizeAt(ctx, number, to, since)
	}
	return from, to, err
}

// page is as many of the records that match as are asked for.
type page struct {
	searched
	limit int // 0 for all
	scan  *search.Scan
	found int
}

// each calls add for the records of the page, and send after each step, until that says that it is enough.
func (p *page) each(c *call, add func(r *chain.Record), send func() (goOn bool, err error)) error {
	holder := limit.Holder{Company: p.company, Known: true}
	if err := c.s.searches.Take(1, holder); err != nil {
		return tooManySearches(err)
	}
	defer c.s.searches.Give(1, holder)
	p.scan = search.NewScan(c.s.Store, p.log.Chain, p.filter, p.from, p.to, p.backward)
	isFull := func() bool { return p.limit > 0 && p.found == p.limit }
	one := p.limit > 0 && p.filter.Text == "" // a page ends where one more is found, so that no empty one follows it, unless that could take long
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

func tooManySearches(err error) error {
	return unavailable("NOT_DONE", "too many searches are under way; try again later", err).with("Retry-After", "1")
}

// next is the cursor of what is left, "" for nothing.
func (p *page) next() string {
	if p.scan.Done() {
		return ""
	}
	return cursor{p.digest, p.size, p.border()}.String()
}

// border lies between what is decided and what is not.
func (p *page) border() int64 {
	if p.backward {
		return p.scan.To
	}
	return p.scan.From
}

// decided is the part of the log that is decided.
func (p *page) decided() (from, to int64) {
	if p.backward {
		return p.scan.To, p.to
	}
	return p.from, p.scan.From
}

// damage is the answer where a search meets a record that is missing or cannot be read: to leave it out would be to hide it.
func damage(err error) error {
	var found *search.DamageError
	if !errors.As(err, &found) {
		return err
	}
	return &apiError{Status: http.StatusInternalServerError, Code: "RECORD_DAMAGED", cause: err,
		Message: fmt.Sprintf("Record %d of the log is missing or damaged on disk; GET /v1/verify says what is wrong", found.Index)}
}

var errNoJSON = errors.New("not JSON")

// readable refuses a record that would make an answer unreadable.
func readable(r *chain.Record) error {
	if !json.Valid(r.Payload) || len(r.Delegation) > 0 && !json.Valid(r.Delegation) {
		return &search.DamageError{Index: r.Index, Cause: errNoJSON}
	}
	return nil
}
