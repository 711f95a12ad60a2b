package cmd

import (
	"slices"

	"github.com/spf13/cobra"

	"attestd/internal/printable"
	"attestd/store"
)

func companyLogCommand() *cobra.Command {
	var db string
	cmd := &cobra.Command{
		Use:   "company-log",
		Short: "Print the keys of the log of the companies, for a witness",
		Long: `Print a line "log VKEY" for each key that signs checkpoints of the log of the companies, newest
first. A witness needs these lines in its file for --cosign-for.

The log of the companies has a record for each registered company, so that a witness notices if
somebody removes a company and its record from the database. The log is created with the first
company; before that the exit status is 3. No company can read it; attestd verify verifies it,
while a server runs or not.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := store.OpenReadOnly(cmd.Context(), db)
			if err != nil {
				return err
			}
			defer s.Close()
			origin, ring, err := s.KeyRing(cmd.Context(), store.CompanyLogChain)
			if err != nil {
				return err
			}
			for _, k := range slices.Backward(ring) {
				if k.CompromisedAt == "" {
					printable.Fprintf(cmd.OutOrStdout(), "log %s\n", store.Log{Origin: origin}.VKey(k.Public))
				}
			}
			return nil
		},
	}
	databaseFlag(cmd, &db)
	return cmd
}
