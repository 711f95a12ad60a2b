package agent

import (
	"bufio"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sort"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"attestd/chain"
	"attestd/chain/decision"
	"attestd/chain/search"
	"attestd/cmd/cli"
	"attestd/internal/printable"
	"attestd/sdk/attestd"
)

// recordFilter holds the filter flags that records and tail share.
type recordFilter struct {
	search.Filter
	payload string // text of Members
}

// checkedFlag is a flag whose text is checked when it is set.
type checkedFlag struct {
	text  *string
	kind  string
	check func(text string) error
}

func (f checkedFlag) String() string {
	if f.text == nil { // pflag compares with the zero value
		return ""
	}
	return *f.text
}

func (f checkedFlag) Type() string { return f.kind }

func (f checkedFlag) Set(text string) error {
	*f.text = text
	return f.check(text)
}

func (f *recordFilter) setMembers(text string) (err error) {
	f.Members, err = search.ParseMembers(text)
	return err
}

func checkVerdict(text string) error {
	if text != decision.Allow && text != decision.Deny && text != decision.Ask {
		return errors.New("it must be allow, deny or ask")
	}
	return nil
}

func checkPolicy(text string) error {
	if !decision.IsID(text) {
		return errors.New("it must be the ID of a policy, as in no-force, which also finds no-force#0")
	}
	return nil
}

func (f *recordFilter) flags(cmd *cobra.Command) {
	cli.URLFlag(cmd)
	cmd.Flags().StringVar(&f.Agent, "agent", "", "only records of the agent with this `ID`")
	cmd.Flags().StringVar(&f.Action, "action", "",
		"only records with this action `type`, or with a * at its end, this prefix")
	cmd.Flags().StringVar(&f.DelegatedBy, "delegated-by", "",
		"only records of actions delegated by this SPIFFE `ID`, or with * by anyone")
	cmd.Flags().StringVar(&f.Text, "text", "",
		"only records with this `text` in a string or a name of their payload, ignoring case")
	cmd.Flags().Var(checkedFlag{&f.Decision, "verdict", checkVerdict}, "decision",
		"only records whose decision has this `verdict`: allow, deny or ask")
	cmd.Flags().Var(checkedFlag{&f.Policy, "ID", checkPolicy}, "policy",
		"only records whose decision was made by the policy with this `ID`")
	cmd.Flags().Var(checkedFlag{&f.payload, "conditions", f.setMembers}, "payload",
		"only records whose payload has these members, as in tool=Bash or input.command=\"ls -l\"; `conditions` have spaces between them")
	for _, name := range []string{"agent", "action", "delegated-by", "decision", "policy", "text", "payload", "hash", "from", "to", "since", "until",
		"order", "limit", "csv"} {
		// ATTESTD_AGENT names the agent to attest for, and does not filter records.
		if f := cmd.Flag(name); f != nil {
			f.Annotations = map[string][]string{cli.TypedOnly: {"yes"}}
		}
	}
}

// matches reports whether the server's search would return the record.
func (f *recordFilter) matches(r *attestd.Record) (bool, error) {
	raw, err := r.MarshalJSON()
	if err != nil {
		return false, err
	}
	var parts struct{ Payload, Delegation json.RawMessage }
	if err := json.Unmarshal(raw, &parts); err != nil {
		return false, err
	}
	if string(parts.Payload) == "null" { // it was pruned
		parts.Payload = nil
	}
	return f.Matches(&chain.Record{Index: r.Index, Payload: parts.Payload, Delegation: parts.Delegation})
}

func recordsCommand() *cobra.Command {
	var query recordSearch
	var from, to, since, until string
	cmd := &cobra.Command{
		Use:   "records",
		Short: "Print the records of the chain, or search them, as JSON lines",
		Long: `Print the company's records in order, each as one line of JSON, or only those that match all
filters. --from (inclusive) and --to (exclusive) are indexes, or times such as
2026-03-02T09:00:00Z. --since and --until are times. A time can also be relative: 90m, 7d ago.

The server searches with an index and finds few records among many quickly; only --text,
--payload and --hash read every record. The output does not prove that no match is missing: to check that,
attestd verify reads every record.

` + cli.ConnectionHelp,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := query.check(from, to, since, until); err != nil {
				return err
			}
			c, err := cli.Connect(cmd)
			if err != nil {
				return err
			}
			defer c.Close()
			out := bufio.NewWriterSize(cmd.OutOrStdout(), 64<<10)
			err = query.print(cmd.Context(), c, out)
			return errors.Join(err, out.Flush()) // print the records before the error
		},
	}
	cmd.Flags().StringVar(&query.hash, "hash", "", "only the record with this hash, of 64 hex `digits`")
	cmd.Flags().StringVar(&from, "from", "", "first `index or time`, inclusive")
	cmd.Flags().StringVar(&to, "to", "", "end `index or time`, exclusive")
	cmd.Flags().StringVar(&since, "since", "", "start `time`, inclusive")
	cmd.Flags().StringVar(&until, "until", "", "end `time`, exclusive")
	cmd.Flags().StringVar(&query.order, "order", "oldest", "`oldest or newest` first")
	cmd.Flags().Int64Var(&query.limit, "limit", 0, "largest `number` of records; 0 for all")
	cmd.Flags().BoolVar(&query.csv, "csv", false, "print comma-separated values with a header instead of JSON")
	cmd.Flags().StringVar(&query.log, "log", string(attestd.Actions), "log to read: `actions or control`")
	query.flags(cmd)
	return cmd
}

// bound is one end of a range: a time, or an index when the time is zero.
type bound struct {
	at   int64
	time time.Time
}

func parseBound(flag, text string) (b bound, err error) {
	if text == "" {
		return b, nil
	}
	if b.at, err = strconv.ParseInt(text, 10, 64); err == nil && b.at >= 0 {
		return b, nil
	}
	var ok bool
	if b.time, ok = cli.ParseInstant(text, time.Now()); !ok {
		return b, cli.Usagef("--%s must be an index, a time such as 2026-03-02T09:00:00Z, or a time ago such as 90m or 7d; got %q", flag, text)
	}
	return b, nil
}

// index returns the first index at or after a bound. For a time it sends log₂ n requests, because
// the times of records never decrease.
func (b bound) index(ctx context.Context, c *attestd.Client, log attestd.Log) (int64, error) {
	if b.time.IsZero() {
		return b.at, nil
	}
	size, err := RecordCount(ctx, c, log)
	if err != nil {
		return 0, err
	}
	want := chain.FormatTime(b.time)
	found := sort.Search(int(size), func(i int) bool {
		for r, wrong := range c.Records(ctx, attestd.Range{Log: log, From: int64(i), Limit: 1}) {
			if err == nil {
				err = wrong
			}
			return err != nil || r.Timestamp >= want
		}
		return true
	})
	return int64(found), err
}

// IndexAt returns the index of the first record of a log that is not before a time.
func IndexAt(ctx context.Context, c *attestd.Client, log attestd.Log, at time.Time) (int64, error) {
	return bound{time: at}.index(ctx, c, log)
}

// RecordCount returns how many records a log has.
func RecordCount(ctx context.Context, c *attestd.Client, log attestd.Log) (int64, error) {
	logs, err := c.Logs(ctx)
	if err != nil {
		return 0, err
	}
	for _, l := range logs {
		if l.Log == log {
			return l.Size, nil
		}
	}
	return 0, fmt.Errorf("the server has no log %s", log)
}

func tailCommand() *cobra.Command {
	var filter recordFilter
	var from string
	cmd := &cobra.Command{
		Use:   "tail",
		Short: "Follow the records as they are appended, as JSON lines",
		Long: `Print the company's records as they are appended, each as one line of JSON, until interrupted.
When the connection is lost, the command reconnects and continues after the last printed
record. Each record is printed exactly once. Without --from, it begins with the next record.

` + cli.ConnectionHelp,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			first, err := parseBound("from", from)
			if err != nil {
				return err
			}
			c, err := cli.Connect(cmd)
			if err != nil {
				return err
			}
			defer c.Close()
			ctx := cmd.Context()
			next, err := first.index(ctx, c, attestd.Actions)
			if err == nil && from == "" {
				next, err = RecordCount(ctx, c, attestd.Actions)
			}
			if err != nil {
				return err
			}
			for r, err := range c.Follow(ctx, next) {
				if ctx.Err() != nil {
					return nil // Ctrl-C is the normal end
				}
				matches := false
				if err == nil {
					matches, err = filter.matches(&r)
				}
				if matches {
					err = printable.JSON(cmd.OutOrStdout(), r)
				}
				if err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&from, "from", "", "first `index or time`, inclusive")
	filter.flags(cmd)
	return cmd
}

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
		Log: attestd.Log(s.log), Agent: s.Agent, Action: s.Action, DelegatedBy: s.DelegatedBy, Decision: s.Decision, Policy: s.Policy,
		Text: s.Text, Payload: s.payload, Hash: s.hash, Oldest: s.order == "oldest",
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
