package cmd

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"attestd/printable"
	"attestd/store"
)

func recoverKeyCommand() *cobra.Command {
	var db, company string
	var master masterKeyFlags
	cmd := &cobra.Command{
		Use:   "recover-key --company ID",
		Short: "Print a company's first API key",
		Long:  "Print the oldest API key of a company, alone, on standard output. Works beside a running server and without one.",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if company == "" {
				return usagef("--company is required")
			}
			sealedWith, err := master.read(cmd.Context())
			if err != nil {
				return err
			}
			s, err := store.OpenReadOnly(cmd.Context(), db)
			if err != nil {
				return err
			}
			defer s.Close()
			if err := s.Unseal(sealedWith); err != nil {
				return err
			}
			key, err := s.FirstKey(cmd.Context(), company)
			if errors.Is(err, store.ErrNotFound) {
				return fmt.Errorf("no API key for company %q in %s: %w", company, shown(db), err)
			}
			if err != nil {
				return err
			}
			printable.Fprintf(cmd.OutOrStdout(), "%s\n", key.Key)
			return nil
		},
	}
	databaseFlag(cmd, &db)
	master.add(cmd, "", masterKeyUse)
	cmd.Flags().StringVar(&company, "company", "", "`ID` of the company")
	return cmd
}
