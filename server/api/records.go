package api

import (
	"context"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode/utf8"

	"golang.org/x/sync/semaphore"

	"attestd/chain"
	"attestd/chain/decision"
	"attestd/chain/search"
	"attestd/server/httpapi"
	"attestd/server/jobs"
	"attestd/server/limit"
	"attestd/store"
)

// Searches find and count records.
type Searches struct {
	Store *store.Store
	Pool  *limit.Pool // of searches under way
	// of 1: the turn of a search that reads each payload, or all records
	Long    *semaphore.Weighted
	Appends *jobs.Pace
}

type recordsRequest struct {
	Agent       string        `query:"agent"`
	Action      string        `query:"action"`
	DelegatedBy string        `query:"delegatedBy"`
	Since       string        `query:"since"`
	Until       string        `query:"until"`
	Text        string        `query:"q"`
	Payload     string        `query:"payload"`
	Hash        string        `query:"hash"`
	Decision    string        `query:"decision" must:"oneof allow deny ask"`
	Policy      string        `query:"policy" must:"given"`
	Order       string        `query:"order"`
	Cursor      string        `query:"cursor"`
	Limit       int           `query:"limit" must:"number 1..1000"` // 0 if absent
	Accept      string        `header:"Accept"`
	Log         store.LogName `query:"log" must:"log"`
}

// searched is a search in a part of a log.
type searched struct {
	company  int64 // its chain ID
	log      store.Log
	size     int64 // of the log at the start of the search
	from, to int64 // the part that remains to be searched
	filter   search.Filter
	backward bool
	digest   digest // of the search; a cursor is bound to it
}

// Search is an addition to the specification: the matching records of a log.
func (s *Searches) Search(ctx context.Context, by store.Caller, r recordsRequest) (httpapi.Body, error) {
	what, err := s.searched(ctx, by, &r)
	if err != nil {
		return nil, err
	}
	p := &page{s: s, searched: what, limit: r.Limit}
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

// orPage returns the default number of records if a request has no limit.
func orPage(limit int) int {
	if limit == 0 {
		return 100
	}
	return limit
}

// searched returns the search that a request asks for.
func (s *Searches) searched(ctx context.Context, by store.Caller, r *recordsRequest) (w searched, err error) {
	switch r.Order {
	case "", "newest":
		w.backward = true
	case "oldest":
	default:
		return w, httpapi.BadQuery("order must be newest or oldest")
	}
	if err := r.check(); err != nil {
		return w, err
	}
	w.company, w.log = by.Company.Chain, by.Company.Log(r.Log)
	hash, err := hex.DecodeString(r.Hash)
	if err != nil || r.Hash != "" && len(hash) != len(chain.Hash{}) {
		return w, httpapi.BadQuery("hash must have 64 hex digits")
	}
	w.filter = search.Filter{Agent: r.Agent, Action: r.Action, DelegatedBy: r.DelegatedBy, Text: r.Text,
		Hash: string(hash), Decision: r.Decision, Policy: r.Policy}
	if r.Payload != "" {
		if w.filter.Members, err = search.ParseMembers(r.Payload); err != nil {
			return w, httpapi.BadQuery("payload: " + err.Error())
		}
	}
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
			return w, httpapi.BadQuery("cursor must be the next of an answer to the same question")
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

// maxTerm is the maximum length of a search term in characters. No agentId or principal is longer.
const maxTerm = 2048

// check refuses terms that no record can match, and invalid times.
func (r *recordsRequest) check() error {
	for _, term := range []struct {
		name, text string
		most       int
	}{{"agent", r.Agent, httpapi.MaxName}, {"action", r.Action, httpapi.MaxName + 1}, {"delegatedBy", r.DelegatedBy, maxTerm}, {"q",
		r.Text, httpapi.MaxName}} {
		if n := utf8.RuneCountInString(term.text); n > term.most || !utf8.ValidString(term.text) {
			return httpapi.BadQuery(fmt.Sprintf("%s must have at most %d characters, in UTF-8", term.name, term.most))
		}
	}
	for _, at := range []struct{ name, text string }{{"since", r.Since}, {"until", r.Until}} {
		if at.text != "" && !chain.IsTimestamp(at.text) {
			return httpapi.BadQuery(at.name + " must be a time, as in 2026-03-02T09:05:04.218Z")
		}
	}
	if r.Policy != "" && !decision.IsID(r.Policy) {
		return httpapi.BadQuery("policy must be the ID of a policy, as in no-force, which also finds no-force#0")
	}
	if r.Since != "" && r.Until != "" && r.Since > r.Until {
		return httpapi.BadQuery("since must not be later than until")
	}
	return nil
}

// period returns the range of the first size records of a chain that are in a period.
func (s *Searches) period(ctx context.Context, number, size int64, since, until string) (from, to int64, err error) {
	to = size
	if until != "" {
		to, err = s.Store.SizeAt(ctx, number, size, until)
	}
	if since != "" && err == nil {
		from, err = s.Store.SizeAt(ctx, number, to, since)
	}
	return from, to, damage(err)
}
