package client

import (
	"context"
	"iter"
	"net/url"
	"strconv"
)

// Search says which records are looked for: those for which all of it holds. What is empty is not asked.
type Search struct {
	Log         Log
	Agent       string // agentId
	Action      string // actionType, or its beginning and a *
	DelegatedBy string // SPIFFE ID of who gave the power, or * for any delegation
	Since       string // time of the first, as in 2026-03-02T09:05:04.218Z
	Until       string // time before which the last is
	Text        string // within a string or a name of the payload, in either case; not for Count
	Oldest      bool   // the oldest first; not for Count
}

func (s Search) query() url.Values {
	q := s.Log.query()
	for name, value := range map[string]string{
		"agent": s.Agent, "action": s.Action, "delegatedBy": s.DelegatedBy, "since": s.Since, "until": s.Until, "q": s.Text,
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

// Search returns the records that match, the newest first, reading them page by page: those of the log as it was at the first one. That none is
// missing is the server's word; what is returned can be checked.
func (c *Client) Search(ctx context.Context, s Search) iter.Seq2[Record, error] {
	return pages(func(cursor string) ([]Record, string, error) {
		var page struct {
			Records []Record
			Next    string
		}
		query := s.query()
		if query.Set("limit", "1000"); cursor != "" {
			query.Set("cursor", cursor)
		}
		err := c.get(ctx, "/v1/records", query, &page)
		return page.Records, page.Next, err
	})
}

// Histogram is how many records match over time.
type Histogram struct {
	Since   string   `json:"since"`
	Until   string   `json:"until"`
	Total   int64    `json:"total"`
	Size    int64    `json:"size"` // of the log
	Buckets []Bucket `json:"buckets"`
}

// Bucket is how many records match from a time on, to that of the next.
type Bucket struct {
	Since string `json:"since"`
	Count int64  `json:"count"`
}

// Count returns how many records match, in so many parts of the period, 1 to 200; Text and Oldest count for nothing.
func (c *Client) Count(ctx context.Context, s Search, buckets int) (h Histogram, err error) {
	s.Text, s.Oldest = "", false
	query := s.query()
	query.Set("buckets", strconv.Itoa(buckets))
	err = c.get(ctx, "/v1/records/histogram", query, &h)
	return h, err
}
