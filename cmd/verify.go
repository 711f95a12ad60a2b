package cmd

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"attestd/chain"
	"attestd/cmd/cli"
	"attestd/internal/printable"
	"attestd/store"
	"attestd/store/admin"
)

// clockLeeway is how far two machines' clocks may differ before the time of a record counts as in
// the future.
const clockLeeway = time.Minute

func verifyCommand(schema string) *cobra.Command {
	var db, heads, company string
	var asJSON, recount bool
	var master masterKeyFlags
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Verify every chain of a database, offline",
		Long: `Recompute every hash, signature, chain root and log root of a database. Servers may run meanwhile.
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

A log whose head counts the bytes of its records wrongly is valid, and its quota is applied
wrongly (--json: "bytes"). Exit status 9 when only this is found. --recount counts again, corrects
the head, and records in the control log what it counted before (--json: a line with "recounted").
It leaves out companies of which a log fails. On PostgreSQL servers may run meanwhile; otherwise
the server must be stopped. It opens the served database, so --heads is that of serve.

A record with a time in the future is a warning. SQLite's own check of every page would
block a server's checkpoints; attestd backup makes it on the copy.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := verification{cmd: cmd, db: db, schema: schema, heads: heads, company: company, asJSON: asJSON, recounts: recount}
			if !recount {
				s, err := store.OpenReadOnly(cmd.Context(), db)
				if err != nil {
					return err
				}
				defer s.Close()
				return v.run(s)
			}
			if err := refuseOlder(cmd.Context(), db); err != nil {
				return err
			}
			// Here it is the served database that has the head file, so the variable counts.
			options := store.Options{Heads: headsPath(cmp.Or(heads, os.Getenv("ATTESTD_HEADS")), db)}
			var err error
			if options.Master, err = master.read(cmd.Context()); err != nil {
				return err
			}
			s, err := store.Open(cmd.Context(), db, schema, options)
			if errors.Is(err, store.ErrInUse) {
				return fmt.Errorf("%w; stop the server first", err)
			}
			if err != nil {
				return err
			}
			v.heads = "" // Open has compared it
			return admin.Run(cmd.Context(), s, store.RunOptions{}, func() error { return v.run(s) })
		},
	}
	databaseFlag(cmd, &db)
	cmd.Flags().StringVar(&heads, "heads", "", "head `file` to compare the database with")
	// ATTESTD_HEADS is the head file of the served database, and a copy is behind it.
	cmd.Flag("heads").Annotations = map[string][]string{cli.TypedOnly: {"yes"}}
	cmd.Flags().StringVar(&company, "company", "", "verify only the chains of the company with this `ID`")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object per line")
	cmd.Flags().BoolVar(&recount, "recount", false, "count bytes again that a head counts wrongly, and record it")
	master.add(cmd, "", "with --recount: "+masterKeyUse)
	return cmd
}

// verification is one run of attestd verify.
type verification struct {
	cmd                        *cobra.Command
	db, schema, heads, company string
	asJSON, recounts           bool
}

func (x *verification) run(s *store.Store) error {
	ctx, out, errs := x.cmd.Context(), x.cmd.OutOrStdout(), x.cmd.ErrOrStderr()
	report, finish := cli.Progress()
	defer finish()
	var bar func(done, total int64)
	if report != nil {
		bar = func(done, total int64) { report("records", done, total) }
	}
	verified := 0
	var found []store.ChainVerdict // that fail, or whose heads count bytes wrongly
	err := s.VerifyAll(ctx, x.company, runtime.GOMAXPROCS(0), func(v store.ChainVerdict) {
		verified++
		if v.Bytes != nil || !v.Valid {
			found = append(found, v)
		}
		finish() // otherwise the line would be drawn into the bar
		warning := futureTime(v, time.Now())
		if x.asJSON {
			printVerdictJSON(out, v, warning)
			return
		}
		printVerdict(out, v)
		if v.Bytes != nil {
			printable.Fprintf(errs, "warning: %s: %v\n", v.Title(), v.Bytes)
		}
		if warning != "" {
			printable.Fprintf(errs, "warning: %s: %s\n", v.Title(), warning)
		}
	}, bar)
	if err != nil && !store.IsVerdict(err) {
		return err
	}
	if x.recounts {
		if failed := admin.Recount(ctx, s, found, x.printRecount); failed != nil {
			return errors.Join(err, failed)
		}
		// A count that is still wrong is of a company of which another log fails.
		if invalid := (*store.VerifyError)(nil); errors.As(err, &invalid) {
			err = invalid
		} else {
			err = nil
		}
	}
	if verified == 0 && !x.asJSON {
		printable.Fprintf(errs, "%s: no company is registered, so there is no chain to verify\n", shown(x.db))
	}
	if wrong := s.Check(ctx, x.schema); wrong != nil {
		err = errors.Join(err, fmt.Errorf("%s: %w", shown(x.db), wrong))
	}
	if x.heads != "" {
		if rollback := s.Rollback.Check(ctx, x.heads); rollback != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", shown(x.db), rollback))
		}
	}
	return err
}

// futureTime returns a warning when the last verified record of a chain has a time later than now.
// Times never decrease, so earlier records may have one too.
func futureTime(v store.ChainVerdict, now time.Time) string {
	if v.Timestamp <= chain.FormatTime(now.Add(clockLeeway)) {
		return ""
	}
	return fmt.Sprintf("the time of the last record, %s, is in the future", v.Timestamp)
}

// printRecount says what a log counts since it was counted again.
func (x *verification) printRecount(v store.ChainVerdict) {
	if x.asJSON {
		line := map[string]any{"recounted": map[string]int64{"from": v.Bytes.Counted, "to": v.Bytes.Found}}
		nameLog(line, v)
		_ = printable.JSON(x.cmd.OutOrStdout(), line) // as in printVerdictJSON
		return
	}
	printable.Fprintf(x.cmd.OutOrStdout(), "%s: counted again: %d bytes, not %d; its control log records it\n", v.Title(), v.Bytes.Found,
		v.Bytes.Counted)
}

func printVerdict(out io.Writer, v store.ChainVerdict) {
	if v.Valid {
		pruned := ""
		if v.Pruned > 0 {
			pruned = fmt.Sprintf(", of which %d have no payload, as the company has signed", v.Pruned)
		}
		printable.Fprintf(out, "%s: valid, %s%s, chain root %s\n", v.Title(), printable.Count(v.Length, "record"), pruned, v.Root)
		return
	}
	printable.Fprintf(out, "%s: FAILS at index %d: %s\n", v.Title(), v.FailedAt, v.Reason)
}

func printVerdictJSON(out io.Writer, v store.ChainVerdict, warning string) {
	line := map[string]any{"valid": v.Valid}
	nameLog(line, v)
	if v.Valid {
		line["records"], line["merkleRoot"] = v.Length, v.Root.String()
		if v.Pruned > 0 {
			line["pruned"] = v.Pruned
		}
	} else {
		line["failedAtIndex"], line["error"] = v.FailedAt, v.Reason
	}
	if v.Bytes != nil {
		line["bytes"] = map[string]int64{"counted": v.Bytes.Counted, "found": v.Bytes.Found}
	}
	if warning != "" {
		line["warning"] = warning
	}
	_ = printable.JSON(out, line) // a closed pipe shows in the exit status of its reader
}

// nameLog says in a line of JSON which log it is about.
func nameLog(line map[string]any, v store.ChainVerdict) {
	if v.Company != "" {
		line["companyId"] = v.Company
	} else {
		line["chain"] = v.Chain
	}
	if v.Log != store.Actions {
		line["log"] = v.Log
	}
}
