package cmd

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"attestd/chain"
	"attestd/internal/printable"
	"attestd/store"
)

// clockLeeway is how far two machines' clocks may differ before the time of a record counts as in
// the future.
const clockLeeway = time.Minute

func verifyCommand(schema string) *cobra.Command {
	var db, heads, company string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Verify every chain of a database, offline",
		Long: `Recompute every hash, signature and Merkle root of a database. Servers may run meanwhile.
Prints one line for each chain: the actions log and the control log of each company, then the
log of the companies (--json: "companyId":"@installation","log":"control").
Exit status 4 when a chain does not verify. That includes chains, heads and records without a
company, which are named by the chain's number; a company that the log of the companies does not
have; a table that differs from its control log; and a log that does not lead to a checkpoint
which the database stores of it, whether published, cosigned or shown by a witness.

Then compares tables, indices and triggers with the schema of this program, and looks
for rows of companies that do not exist. Exit status 8 when only this fails.

With --heads, also compares the database with that head file. Exit status 5 when the
database is behind it, for example after a point-in-time recovery.

Records whose payloads were pruned (attestd archive --prune) are counted in the line (--json:
"pruned"). What is left of them is verified with the control record that the company has signed;
a payload that is missing without one makes the chain fail.

A record with a time in the future is a warning. SQLite's own check of every page would
block a server's checkpoints; attestd backup makes it on the copy.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := store.OpenReadOnly(cmd.Context(), db)
			if err != nil {
				return err
			}
			defer s.Close()
			report, finish := progress()
			defer finish()
			var bar func(done, total int64)
			if report != nil {
				bar = func(done, total int64) { report("records", done, total) }
			}
			verified := 0
			err = s.VerifyAll(cmd.Context(), company, runtime.GOMAXPROCS(0), func(v store.ChainVerdict) {
				verified++
				finish() // otherwise the line would be drawn into the bar
				warning := futureTime(v, time.Now())
				if asJSON {
					printVerdictJSON(cmd.OutOrStdout(), v, warning)
					return
				}
				printVerdict(cmd.OutOrStdout(), v)
				if warning != "" {
					printable.Fprintf(cmd.ErrOrStderr(), "warning: %s: %s\n", v.Title(), warning)
				}
			}, bar)
			if invalid := (*store.VerifyError)(nil); err != nil && !errors.As(err, &invalid) {
				return err
			}
			if verified == 0 && !asJSON {
				printable.Fprintf(cmd.ErrOrStderr(), "%s: no company is registered, so there is no chain to verify\n", shown(db))
			}
			if wrong := s.Check(cmd.Context(), schema); wrong != nil {
				err = errors.Join(err, fmt.Errorf("%s: %w", shown(db), wrong))
			}
			if heads != "" {
				if behind := s.Rollback.Check(cmd.Context(), heads); behind != nil {
					err = errors.Join(err, fmt.Errorf("%s: %w", shown(db), behind))
				}
			}
			return err
		},
	}
	databaseFlag(cmd, &db)
	cmd.Flags().StringVar(&heads, "heads", "", "head `file` to compare the database with")
	// ATTESTD_HEADS is the head file of the served database, and a copy is behind it.
	cmd.Flag("heads").Annotations = map[string][]string{typedOnly: {"yes"}}
	cmd.Flags().StringVar(&company, "company", "", "verify only the chains of the company with this `ID`")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object per line")
	return cmd
}

// futureTime returns a warning when the last verified record of a chain has a time later than now.
// Times never decrease, so earlier records may have one too.
func futureTime(v store.ChainVerdict, now time.Time) string {
	if v.Timestamp <= chain.FormatTime(now.Add(clockLeeway)) {
		return ""
	}
	return fmt.Sprintf("the time of the last record, %s, is in the future", v.Timestamp)
}

func printVerdict(out io.Writer, v store.ChainVerdict) {
	if v.Valid {
		pruned := ""
		if v.Pruned > 0 {
			pruned = fmt.Sprintf(", of which %d have no payload, as the company has signed", v.Pruned)
		}
		printable.Fprintf(out, "%s: valid, %d records%s, root %s\n", v.Title(), v.Length, pruned, v.Root)
		return
	}
	printable.Fprintf(out, "%s: FAILS at index %d: %s\n", v.Title(), v.FailedAt, v.Reason)
}

func printVerdictJSON(out io.Writer, v store.ChainVerdict, warning string) {
	line := map[string]any{"valid": v.Valid}
	if v.Company != "" {
		line["companyId"] = v.Company
	} else {
		line["chain"] = v.Chain
	}
	if v.Log != store.Actions {
		line["log"] = v.Log
	}
	if v.Valid {
		line["records"], line["merkleRoot"] = v.Length, v.Root.String()
		if v.Pruned > 0 {
			line["pruned"] = v.Pruned
		}
	} else {
		line["failedAtIndex"], line["error"] = v.FailedAt, v.Reason
	}
	if warning != "" {
		line["warning"] = warning
	}
	_ = printable.JSON(out, line) // a closed pipe shows in the exit status of whoever closed it
}
