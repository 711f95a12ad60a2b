package cmd

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sort"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"attestd/chain"
	"attestd/client"
)

// recordFilter is what the flags of records and tail choose.
type recordFilter struct{ agent, action string }

func (f *recordFilter) flags(cmd *cobra.Command) {
	urlFlag(cmd)
	cmd.Flags().StringVar(&f.agent, "agent", "", "only records of the agent with this `ID`")
	cmd.Flags().StringVar(&f.action, "action", "", "only records of this `type` of action")
	for _, name := range []string{"agent", "action", "from", "to"} { // ATTESTD_AGENT says in whose name to attest, not what to read
		if f := cmd.Flag(name); f != nil {
			f.Annotations = map[string][]string{typedOnly: {"yes"}}
		}
	}
}

func (f *recordFilter) takes(r *client.Record) bool {
	return (f.agent == "" || f.agent == r.Payload.AgentID) && (f.action == "" || f.action == r.Payload.ActionType)
}

func recordsCommand() *cobra.Command {
	var filter recordFilter
	var from, to, log string
	cmd := &cobra.Command{
		Use:   "records",
		Short: "Print the records of the chain, as JSON lines",
		Long: `Print the company's records in their order, each as one line of JSON. --from and --to are indexes, or times such as
2026-03-02T09:00:00Z; what --to names is not a part of it.

` + connectionHelp,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if log != string(client.Actions) && log != string(client.Control) {
				return usagef("--log must be actions or control, got %q", log)
			}
			first, err := parseBound("from", from)
			if err != nil {
				return err
			}
			last, err := parseBound("to", to)
			if err != nil {
				return err
			}
			c, err := connect(cmd)
			if err != nil {
				return err
			}
			defer c.Close()
			part := client.Range{Log: client.Log(log)}
			if part.From, err = first.index(cmd.Context(), c, part.Log); err != nil {
				return err
			}
			if to != "" {
				end, err := last.index(cmd.Context(), c, part.Log)
				if err != nil || end <= part.From {
					return err
				}
				part.Limit = end - part.From
			}
			out := bufio.NewWriterSize(cmd.OutOrStdout(), 64<<10)
			lines := jsonLines(out)
			for r, err := range c.Records(cmd.Context(), part) {
				if err == nil && filter.takes(&r) {
					err = lines.Encode(r)
				}
				if err != nil {
					_ = out.Flush() // what came before is whole
					return err
				}
			}
			return out.Flush()
		},
	}
	cmd.Flags().StringVar(&from, "from", "", "first `index or time`")
	cmd.Flags().StringVar(&to, "to", "", "`index or time` at which to end")
	cmd.Flags().StringVar(&log, "log", string(client.Actions), "`actions or control`")
	filter.flags(cmd)
	return cmd
}

// jsonLines writes values as JSON, one a line, with all characters as they were sent.
func jsonLines(w io.Writer) *json.Encoder {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e
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
	if b.time, err = time.Parse(time.RFC3339, text); err != nil || b.time.IsZero() {
		return b, usagef("--%s must be an index or a time such as 2026-03-02T09:00:00Z, got %q", flag, text)
	}
	return b, nil
}

// index returns the first index at or after a bound. Of a time it asks the service log₂ n times, for records never go back in time.
func (b bound) index(ctx context.Context, c *client.Client, log client.Log) (int64, error) {
	if b.time.IsZero() {
		return b.at, nil
	}
	size, err := recordCount(ctx, c, log)
	if err != nil {
		return 0, err
	}
	want := chain.FormatTime(b.time)
	found := sort.Search(int(size), func(i int) bool {
		for r, wrong := range c.Records(ctx, client.Range{Log: log, From: int64(i), Limit: 1}) {
			if err == nil {
				err = wrong
			}
			return err != nil || r.Timestamp >= want
		}
		return true
	})
	return int64(found), err
}

func recordCount(ctx context.Context, c *client.Client, log client.Log) (int64, error) {
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
			next, err := first.index(ctx, c, client.Actions)
			if err == nil && from == "" {
				next, err = recordCount(ctx, c, client.Actions)
			}
			if err != nil {
				return err
			}
			lines := jsonLines(cmd.OutOrStdout())
			for r, err := range c.Follow(ctx, next) {
				if ctx.Err() != nil {
					return nil // Ctrl-C is how this ends
				}
				if err == nil && filter.takes(&r) {
					err = lines.Encode(r)
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
