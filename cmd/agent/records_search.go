package agent

import (
	"bufio"
	"context"
	"encoding/hex"
	"io"
	"time"

	"attestd/chain"
	"attestd/chain/search"
	"attestd/cmd/cli"
	"attestd/internal/printable"
	"attestd/sdk/attestd"
)

// recordSearch holds the flags of attestd records.
type recordSearch struct {
	recordFilter
	hash         string
	log, order   string
	limit        int64 // 0 for all
	csv          bool
	first, last  bound
	hasLast      bool      // --to was set
	since, until time.Time // zero when not set
}

// check parses and validates the flags.
func (s *recordSearch) check(from, to, since, until string) (err error) {
	if s.log != string(attestd.Actions) && s.log != string(attestd.Control) {
		return cli.Usagef("--log must be actions or control, got %q", s.log)
	}
	if s.order != "oldest" && s.order != "newest" {
		return cli.Usagef("--order must be oldest or newest, got %q", s.order)
	}
	if s.limit < 0 || s.csv && s.limit > 1000 {
		return cli.Usagef("--limit must be 0 or more, and at most 1000 with --csv, got %d", s.limit)
	}
	if s.hash != "" {
		if digits, err := hex.DecodeString(s.hash); err != nil || len(digits) != len(chain.Hash{}) {
			return cli.Usagef("--hash must have 64 hex digits, got %q", s.hash)
		}
		s.limit = 1 // hashes are unique
	}
	if s.first, err = parseBound("from", from); err != nil {
		return err
	}
	if s.last, err = parseBound("to", to); err != nil {
		return err
	}
	s.hasLast = to != ""
	if s.csv && (from != "" && s.first.time.IsZero() || s.hasLast && s.last.time.IsZero()) {
		return cli.Usagef("with --csv, --from and --to must be times, not indexes")
	}
	for _, t := range []struct {
		flag, text string
		into       *time.Time
	}{{"since", since, &s.since}, {"until", until, &s.until}} {
		if t.text == "" {
			continue
		}
		var ok bool
		if *t.into, ok = cli.ParseInstant(t.text, time.Now()); !ok {
			return cli.Usagef("--%s must be a time such as 2026-03-02T09:00:00Z, or a time ago such as 90m or 7d; got %q", t.flag,
				t.text)
		}
	}
	return nil
}

// print writes the matching records. Without a filter it reads a range of the chain, in which the
// client verifies that each record follows the one before.
func (s *recordSearch) print(ctx context.Context, c *attestd.Client, out *bufio.Writer) error {
	if s.Filter == (search.Filter{}) && s.hash == "" && s.since.IsZero() && s.until.IsZero() && s.order == "oldest" &&
		!s.csv {
		return s.printRange(ctx, c, out)
	}
	ask := attestd.Search{
		Log: attestd.Log(s.log), Agent: s.Agent, Action: s.Action, DelegatedBy: s.DelegatedBy, Text: s.Text, Payload: s.payload,
		Hash: s.hash, Oldest: s.order == "oldest",
	}
	from, to, some, err := s.period(ctx, c, &ask)
	switch {
	case err != nil || !some:
		return err
	case s.csv:
		table, err := c.SearchTable(ctx, ask, int(s.limit))
		if err == nil {
			defer table.Close()
			err = printable.CopyTable(out, table)
		}
		return err
	}
	return s.printFound(ctx, c, out, ask, func(index int64) bool { return from <= index && (to < 0 || index < to) })
}

func (s *recordSearch) printRange(ctx context.Context, c *attestd.Client, out io.Writer) (err error) {
	part := attestd.Range{Log: attestd.Log(s.log), Limit: s.limit}
	if part.From, err = s.first.index(ctx, c, part.Log); err != nil {
		return err
	}
	if s.hasLast {
		end, err := s.last.index(ctx, c, part.Log)
		if err != nil || end <= part.From {
			return err
		}
		if part.Limit == 0 || end-part.From < part.Limit {
			part.Limit = end - part.From
		}
	}
	for r, err := range c.Records(ctx, part) {
		if err == nil {
			err = printable.JSON(out, r)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// printFound writes the records on the pages of a search. On a terminal it shows the progress.
func (s *recordSearch) printFound(
	ctx context.Context, c *attestd.Client, out *bufio.Writer, ask attestd.Search,
	within func(index int64) bool,
) error {
	report, finish := cli.Progress()
	defer func() { finish() }()
	left, read := s.limit, int64(0)
	for cursor := ""; ; {
		most := 1000
		if s.limit > 0 {
			most = int(min(left, 1000))
		}
		page, err := c.SearchPage(ctx, ask, cursor, most)
		if err != nil {
			return err
		}
		finish() // lines and the progress bar may share a terminal
		for _, r := range page.Records {
			if !within(r.Index) {
				continue
			}
			if err := printable.JSON(out, r); err != nil {
				return err
			}
			if left--; left == 0 {
				return nil
			}
		}
		if err := out.Flush(); err != nil {
			return err
		}
		if cursor = page.Next; cursor == "" {
			return nil
		}
		if read += page.Read.To - page.Read.From; report != nil {
			report("search", read, page.Size)
		}
	}
}

// period sets the times of a search to the intersection of all flags. An index becomes the time of
// its record. Several records may have that time, so the caller must skip those before from, and
// those at or after to unless it is negative. some is false when the period is empty.
func (s *recordSearch) period(
	ctx context.Context, c *attestd.Client, ask *attestd.Search,
) (from, to int64, some bool, err error) {
	since, until := s.since, s.until
	to = -1
	later := func(t time.Time) {
		if t.After(since) {
			since = t
		}
	}
	earlier := func(t time.Time) {
		if until.IsZero() || t.Before(until) {
			until = t
		}
	}
	if later(s.first.time); s.first.at > 0 {
		from = s.first.at
		at, found, err := timeOf(ctx, c, ask.Log, from)
		if err != nil || !found {
			return 0, 0, false, err
		}
		later(at)
	}
	switch {
	case !s.hasLast:
	case !s.last.time.IsZero():
		earlier(s.last.time)
	case s.last.at <= from:
		return 0, 0, false, nil
	default:
		to = s.last.at
		at, found, err := timeOf(ctx, c, ask.Log, to-1)
		if err != nil {
			return 0, 0, false, err
		}
		if found {
			earlier(at.Add(time.Millisecond))
		}
	}
	// rounds up, since records have whole milliseconds
	const up = time.Millisecond - time.Nanosecond
	if !since.IsZero() {
		ask.Since = chain.FormatTime(since.Add(up))
	}
	if !until.IsZero() {
		ask.Until = chain.FormatTime(until.Add(up))
	}
	return from, to, until.IsZero() || ask.Since < ask.Until, nil
}

// timeOf returns the time of the record at an index. found is false when there is none.
func timeOf(
	ctx context.Context, c *attestd.Client, log attestd.Log, index int64,
) (at time.Time, found bool, err error) {
	for r, err := range c.Records(ctx, attestd.Range{Log: log, From: index, Limit: 1}) {
		if err == nil {
			at, err = time.Parse(time.RFC3339, r.Timestamp)
		}
		return at, err == nil, err
	}
	return at, false, nil
}
