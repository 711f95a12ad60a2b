package cmd

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
	"attestd/internal/printable"
	"attestd/sdk/attestd"
)

// recordFilter is what the flags of records and tail choose.
type recordFilter struct{ search.Filter }

func (f *recordFilter) flags(cmd *cobra.Command) {
	urlFlag(cmd)
	cmd.Flags().StringVar(&f.Agent, "agent", "", "only records of the agent with this `ID`")
	cmd.Flags().StringVar(&f.Action, "action", "", "only records of this `type` of action, or with a * at its end of those that begin so")
	cmd.Flags().StringVar(&f.DelegatedBy, "delegated-by", "", "only records done with the power of this SPIFFE `ID`, or with * by any delegation")
	cmd.Flags().StringVar(&f.Text, "text", "", "only records with this `text` in a string or a name of their payload, in either case")
	for _, name := range []string{"agent", "action", "delegated-by", "text", "hash", "from", "to", "since", "until", "order", "limit", "csv"} {
		// ATTESTD_AGENT says in whose name to attest, not what to read
		if f := cmd.Flag(name); f != nil {
			f.Annotations = map[string][]string{typedOnly: {"yes"}}
		}
	}
}

// takes says of a record what the server's search says.
func (f *recordFilter) takes(r *attestd.Record) (bool, error) {
	raw, err := r.MarshalJSON()
	if err != nil {
		return false, err
	}
	var is struct{ Payload, Delegation json.RawMessage }
	if err := json.Unmarshal(raw, &is); err != nil {
		return false, err
	}
	return f.Matches(&chain.Record{Index: r.Index, Payload: is.Payload, Delegation: is.Delegation})
}

func recordsCommand() *cobra.Command {
	var asked recordSearch
	var from, to, since, until string
	cmd := &cobra.Command{
		Use:   "records",
		Short: "Print the records of the chain, or those that a search finds, as JSON lines",
		Long: `Print the company's records in their order, each as one line of JSON, or those for which all that is asked for holds. --from and --to are indexes, or
times such as 2026-03-02T09:00:00Z; what --to names is not a part of it. --since and --until are times. A time may also say how long ago it was: 90m, 7d. The server searches, so that few
records among many are found at once; only --text and --hash have it read each. That it leaves none out is its word: attestd verify reads all.

` + connectionHelp,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := asked.check(from, to, since, until); err != nil {
				return err
			}
			c, err := connect(cmd)
			if err != nil {
				return err
			}
			defer c.Close()
			out := bufio.NewWriterSize(cmd.OutOrStdout(), 64<<10)
			err = asked.print(cmd.Context(), c, out)
			return errors.Join(err, out.Flush()) // what came before an error is whole
		},
	}
	cmd.Flags().StringVar(&asked.hash, "hash", "", "only the record with this hash, of 64 hex `digits`")
	cmd.Flags().StringVar(&from, "from", "", "first `index or time`")
	cmd.Flags().StringVar(&to, "to", "", "`index or time` at which to end")
	cmd.Flags().StringVar(&since, "since", "", "first `time`")
	cmd.Flags().StringVar(&until, "until", "", "`time` at which to end")
	cmd.Flags().StringVar(&asked.order, "order", "oldest", "`oldest or newest` first")
	cmd.Flags().Int64Var(&asked.limit, "limit", 0, "largest `number` of records; 0 for all")
	cmd.Flags().BoolVar(&asked.csv, "csv", false, "comma-separated values with a header, in place of JSON")
	cmd.Flags().StringVar(&asked.log, "log", string(attestd.Actions), "`actions or control`")
	asked.flags(cmd)
	return cmd
}

// bound is an end of a range: an index, or a time unless that is zero.
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
	if b.time, ok = parseInstant(text, time.Now()); !ok {
		return b, usagef("--%s must be an index, a time such as 2026-03-02T09:00:00Z, or how long ago, such as 90m or 7d; got %q", flag, text)
	}
	return b, nil
}

// index returns the first index at or after a bound. Of a time it asks the service log₂ n times,
// for records never go back in time.
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
		Long: `Print the company's records as they are appended, each as one line of JSON, until it is interrupted. A lost connection is made again, and what was appended meanwhile is
printed then: no record is left out, and none comes twice. Without --from it begins with the next record.

` + connectionHelp,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			first, err := parseBound("from", from)
			if err != nil {
				return err
			}
			c, err := connect(cmd)
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
					return nil // Ctrl-C is how this ends
				}
				takes := false
				if err == nil {
					takes, err = filter.takes(&r)
				}
				if takes {
					err = printable.JSON(cmd.OutOrStdout(), r)
				}
				if err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&from, "from", "", "first `index or time`")
	filter.flags(cmd)
	return cmd
}
