package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"

	"github.com/spf13/cobra"

	"attestd/chain"
	"attestd/store"
)

func recoverKeyCommand() *cobra.Command {
	var db, company string
	cmd := &cobra.Command{
		Use:   "recover-key --company ID",
		Short: "Print a company's first API key",
		Long:  "Print the oldest API key of a company, alone, on standard output. Works beside a running server and without one.",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if company == "" {
				return usagef("--company is required")
			}
			s, err := store.OpenReadOnly(cmd.Context(), db)
			if err != nil {
				return err
			}
			defer s.Close()
			key, err := s.FirstKey(cmd.Context(), company)
			if errors.Is(err, store.ErrNotFound) {
				return fmt.Errorf("no API key for company %q in %s: %w", company, db, err)
			}
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), key.Key)
			return nil
		},
	}
	databaseFlag(cmd, &db)
	cmd.Flags().StringVar(&company, "company", "", "`ID` of the company")
	return cmd
}

func backupCommand() *cobra.Command {
	var db string
	cmd := &cobra.Command{
		Use:   "backup OUT",
		Short: "Copy the database into a new file, of a running server or without one",
		Long: `Copy the database into a new file that only its owner can read. The copy is checked, every chain of it,
before it gets its name; an existing file is never overwritten. It holds every private key: keep it as you keep the database.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			report, finish := progress()
			err := store.Backup(cmd.Context(), db, args[0], report)
			finish()
			if err == nil {
				fmt.Fprintf(cmd.ErrOrStderr(), "backed up %s to %s and checked it\n", db, args[0])
			}
			return err
		},
	}
	databaseFlag(cmd, &db)
	return cmd
}

func restoreCommand() *cobra.Command {
	var db string
	var force bool
	cmd := &cobra.Command{
		Use:   "restore IN",
		Short: "Put a backup in place of the database",
		Long: `Check a backup wholly and put it in place. An existing database is replaced only with --force, and never while it is in use.
What was written after the backup is gone then, revocations and key deletions included.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			report, finish := progress()
			err := store.Restore(cmd.Context(), args[0], db, force, report)
			finish()
			if err == nil {
				fmt.Fprintf(cmd.ErrOrStderr(), "restored %s to %s\n", args[0], db)
			}
			return err
		},
	}
	databaseFlag(cmd, &db)
	cmd.Flags().BoolVar(&force, "force", false, "replace an existing database")
	return cmd
}

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
