package cmd

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

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
