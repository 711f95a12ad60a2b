package attestd

import (
	"context"
	"io"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"strconv"
)

// Search says which records are looked for: those for which all of it holds. What is empty is not
// asked.
type Search struct {
	Log         Log
	Agent       string // agentId
	Action      string // actionType, or its beginning and a *
	DelegatedBy string // SPIFFE ID of who gave the power, or * for any delegation
	Decision    string // verdict of the record's decision: allow, deny or ask
	Policy      string // ID of a policy that made the decision
	Since       string // time of the first, as in 2026-03-02T09:05:04.218Z
	Until       string // time before which the last is
	Text        string // within a string or a name of the payload, in either case; not for Count
	Payload     string // members of the payload, as in tool=Bash or a.b="x y"; not for Count
	Hash        string // of a record, 64 hex digits; not for Count
	Oldest      bool   // the oldest first; not for Count
}

func (s Search) query() url.Values {
	q := s.Log.query()
	for name, value := range map[string]string{
		"agent": s.Agent, "action": s.Action, "delegatedBy": s.DelegatedBy, "decision": s.Decision, "policy": s.Policy, "since": s.Since, "until": s.Until, "q": s.Text,
		"payload": s.Payload, "hash": s.Hash,
	} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if s.Oldest {
		q.Set("order", "oldest")
	}
	return q
}

// SearchPage is a part of what a search finds.
type SearchPage struct {
	Records []Record
	Size    int64                    // of the log when the search began
	Read    struct{ From, To int64 } // the indexes that this page has decided, To not among them
	Next    string                   // the cursor of the next page, "" where all is decided
}

// SearchPage returns what matches from a cursor on, "" for the beginning: at most limit records, 1
// to 1000. With Text, Payload or Hash a page may have fewer, even none, and a Next.
func (c *Client) SearchPage(ctx context.Context, s Search, cursor string, limit int) (page SearchPage, err error) {
	query := s.query()
	if query.Set("limit", strconv.Itoa(limit)); cursor != "" {
		query.Set("cursor", cursor)
	}
	err = c.get(ctx, "/v1/records", query, &page)
	return page, err
}

// Search returns the records that match, the newest first, reading them page by page: those of the
// log as it was at the first one. That none is missing is the server's word; what is returned can
// be checked.
func (c *Client) Search(ctx context.Context, s Search) iter.Seq2[Record, error] {
	return pages(func(cursor string) ([]Record, string, error) {
		page, err := c.SearchPage(ctx, s, cursor, 1000)
		return page.Records, page.Next, err
	})
}

// SearchTable returns the records that match as comma-separated values, as the service sends them:
// all of them, or where limit is not 0 so many, at most 1000. The caller closes it.
func (c *Client) SearchTable(ctx context.Context, s Search, limit int) (io.ReadCloser, error) {
	query := s.query()
	if limit > 0 {
		query.Set("limit", strconv.Itoa(limit))
	}
	return c.open(ctx, request{method: http.MethodGet, route: "/v1/records", query: query, status: http.StatusOK, header: http.Header{"Accept": {"text/csv"}}})
}

// Histogram is how many records match over time.
type Histogram struct {
	Since   string   `json:"since"`
	Until   string   `json:"until"`
	Total   int64    `json:"total"`
	Size    int64    `json:"size"` // of the log
	Buckets []Bucket `json:"buckets"`

	// Verdicts are allow, deny and ask, as CountDecisions counts them.
	Verdicts []VerdictCount `json:"verdicts,omitempty"`
}

// VerdictCount is how many decisions have a verdict, in all and in each bucket.
type VerdictCount struct {
	Verdict string  `json:"verdict"`
	Total   int64   `json:"total"`
	Counts  []int64 `json:"counts"`
}

// Bucket is how many records match from a time on, to that of the next.
type Bucket struct {
	Since string `json:"since"`
	Count int64  `json:"count"`
}

// CountDecisions is Count with how many of the records have a decision of each verdict; Decision
// counts for nothing.
func (c *Client) CountDecisions(ctx context.Context, s Search, buckets int) (h Histogram, err error) {
	s.Decision = ""
	return c.count(ctx, s, buckets, url.Values{"by": {"decision"}})
}

// Count returns how many records match, in so many parts of the period, 1 to 200; Text, Payload,
// Hash and Oldest count for nothing.
func (c *Client) Count(ctx context.Context, s Search, buckets int) (h Histogram, err error) {
	return c.count(ctx, s, buckets, url.Values{})
}

func (c *Client) count(ctx context.Context, s Search, buckets int, query url.Values) (h Histogram, err error) {
	s.Text, s.Payload, s.Hash, s.Oldest = "", "", "", false
	maps.Copy(query, s.query())
	query.Set("buckets", strconv.Itoa(buckets))
	err = c.get(ctx, "/v1/records/histogram", query, &h)
	return h, err
}
