package check

import (
	"github.com/spf13/cobra"

	"attestd/cmd/cli"
	"attestd/internal/printable"
)

// TrustCommand returns the command that stores which keys of companies are trusted.
func TrustCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "trust",
		Short: "Store which company has which key, for checks on this machine",
		Long: `Store the fingerprint of a company's key, which you got from the company and not from the server:
from a contract, its site, or a person. attestd check, attestd report, check.py and check.mjs then
confirm files of that company without --key, attestd mcp and mcp-server pin the key without
--pinned-key, and attestd open opens a console that confirms the key at sign-in.

The keys are lines "COMPANY SHA256:…" in the file trusted-keys next to attestd/env, in the user's
configuration folder. A file that others may write is refused. A key that the company rotates to
needs no change, because rotations are proven. Nothing replaces a trusted key by another one.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(trustAddCommand(), trustListCommand(), trustRemoveCommand())
	return cmd
}

func trustAddCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "add COMPANY FINGERPRINT",
		Short: "Trust the key with this fingerprint (SHA256:…) as the company's",
		Args:  cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			key := cli.TrustedKey{Company: args[0], Fingerprint: args[1]}
			added, err := cli.TrustKey(key)
			if err != nil {
				return err
			}
			how := "is trusted"
			if added {
				how = "is trusted now"
			}
			printable.Fprintf(cmd.OutOrStdout(), "%s %s %s\n", key.Company, key.Fingerprint, how)
			return nil
		},
	}
}

func trustListCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the trusted keys",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			keys, err := cli.ReadTrustedKeys()
			if err != nil {
				return err
			}
			if asJSON {
				return printable.JSON(cmd.OutOrStdout(), append(cli.TrustedKeys{}, keys...))
			}
			for _, k := range keys {
				printable.Fprintf(cmd.OutOrStdout(), "%s %s\n", k.Company, k.Fingerprint)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON array of objects with companyId and fingerprint")
	return cmd
}

func trustRemoveCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "remove COMPANY",
		Short: "Trust no key as the company's",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cli.UntrustKey(args[0]); err != nil {
				return err
			}
			printable.Fprintf(cmd.OutOrStdout(), "no key is trusted for %s now\n", args[0])
			return nil
		},
	}
}
