package cmd

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"

	"github.com/spf13/cobra"

	"attestd/chain"
	"attestd/store"
)

func verifyCommand() *cobra.Command {
	var db, company string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Verify every chain of a database file, offline",
		Long: `Recompute every hash, signature and Merkle root of a database file, beside a running server or without one.
Prints a line for each chain. Exit status 4 when one does not verify.`,
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
			show := printVerdict
			if asJSON {
				show = printVerdictJSON
			}
			return s.VerifyAll(cmd.Context(), company, runtime.GOMAXPROCS(0), func(c *store.Company, v chain.Verdict) {
				finish() // the line must not be drawn into the bar
				show(cmd.OutOrStdout(), c.ID, v)
			}, bar)
		},
	}
	databaseFlag(cmd, &db)
	cmd.Flags().StringVar(&company, "company", "", "`ID` of the one company to verify")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line")
	return cmd
}

func printVerdict(out io.Writer, company string, v chain.Verdict) {
	if v.Valid {
		fmt.Fprintf(out, "%s: valid, %d records, root %s\n", company, v.Length, v.Root)
		return
	}
	fmt.Fprintf(out, "%s: FAILS at index %d: %s\n", company, v.FailedAt, v.Reason)
}

func printVerdictJSON(out io.Writer, company string, v chain.Verdict) {
	line := map[string]any{"companyId": company, "valid": v.Valid}
	if v.Valid {
		line["records"], line["merkleRoot"] = v.Length, v.Root.String()
	} else {
		line["failedAtIndex"], line["error"] = v.FailedAt, v.Reason
	}
	_ = json.NewEncoder(out).Encode(line) // a closed pipe shows in the exit status of whoever closed it
}
