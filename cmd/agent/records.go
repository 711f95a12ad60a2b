package agent

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sort"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"attestd/chain"
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

// membersFlag is the flag that sets them.
type membersFlag struct{ of *recordFilter }

func (f membersFlag) String() string {
	if f.of == nil { // pflag compares with the zero value
		return ""
	}
	return f.of.payload
}

func (membersFlag) Type() string { return "conditions" }

func (f membersFlag) Set(text string) (err error) {
	f.of.payload = text
	f.of.Members, err = search.ParseMembers(text)
	return err
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
	cmd.Flags().Var(membersFlag{f}, "payload",
		"only records whose payload has these members, as in tool=Bash or input.command=\"ls -l\"; `conditions` have spaces between them")
	for _, name := range []string{"agent", "action", "delegated-by", "text", "payload", "hash", "from", "to", "since", "until",
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
	size, err := recordCount(ctx, c, log)
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

func recordCount(ctx context.Context, c *attestd.Client, log attestd.Log) (int64, error) {
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
				next, err = recordCount(ctx, c, attestd.Actions)
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
