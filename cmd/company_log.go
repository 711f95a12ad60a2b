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
		Long: `Print a line "log VKEY" for each key that signs checkpoints of the log of the companies, the newest first. Whoever runs a
witness puts them into the file of --cosign-for. That log has a record for each company that was registered, so that a company
which is cut out of the database, with its record, is missed by the witness. It is made with the first company (exit status 3
before that). No company can read it: attestd verify does, beside a running server or without one.`,
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
