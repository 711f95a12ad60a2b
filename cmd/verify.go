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

// clockLeeway is how far the clocks of two machines may be apart before the time of a record counts
// as in the future.
const clockLeeway = time.Minute

func verifyCommand(schema string) *cobra.Command {
	var db, heads, company string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Verify every chain of a database, offline",
		Long: `Recompute every hash, signature and Merkle root of a database, beside running servers or without one.
Prints a line for each chain: of each company its actions, and its control log; then the log of the companies, which has a record for
each company (--json: "companyId":"@installation","log":"control"). A company that no record tells of, or a record without its company,
fails there. Exit status 4 when one does not verify; what companies, chain heads and records have and another of them lacks is a failure
too, named by the chain's number where no company has it. So is a table that differs from its control log, and a log that does not lead
to a checkpoint which the database keeps of it: the one published last, and those that witnesses have cosigned or shown.
Then checks that tables, indices and guarding triggers are those of this program, and that no row belongs to
a company that is not there: exit status 8 when only this fails. With --heads it also compares the database with that
head file: exit status 5 when it is behind what that knows, after a point-in-time recovery for example. SQLite's own check of every page would keep a
server from its checkpoints; backup makes it on the copy. A record with a time in the future is a warning.`,
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
				finish() // the line must not be drawn into the bar
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
				if behind := s.CheckHeads(cmd.Context(), heads); behind != nil {
					err = errors.Join(err, fmt.Errorf("%s: %w", shown(db), behind))
				}
			}
			return err
		},
	}
	databaseFlag(cmd, &db)
	cmd.Flags().StringVar(&heads, "heads", "", "head `file` to compare the database with")
	// ATTESTD_HEADS is that of the database that is served, which a copy is behind
	cmd.Flag("heads").Annotations = map[string][]string{typedOnly: {"yes"}}
	cmd.Flags().StringVar(&company, "company", "", "`ID` of the one company whose chains to verify")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line")
	return cmd
}

// futureTime returns a warning when the last record that was verified of a chain, and so perhaps
// more of them, has a time later than now.
func futureTime(v store.ChainVerdict, now time.Time) string {
	if v.Timestamp <= chain.FormatTime(now.Add(clockLeeway)) {
		return ""
	}
	return fmt.Sprintf("the time of the last record, %s, is in the future", v.Timestamp)
}

func printVerdict(out io.Writer, v store.ChainVerdict) {
	if v.Valid {
		printable.Fprintf(out, "%s: valid, %d records, root %s\n", v.Title(), v.Length, v.Root)
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
	} else {
		line["failedAtIndex"], line["error"] = v.FailedAt, v.Reason
	}
	if warning != "" {
		line["warning"] = warning
	}
	_ = printable.JSON(out, line) // a closed pipe shows in the exit status of whoever closed it
}
