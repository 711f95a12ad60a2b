package cmd

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"attestd/cmd/cli"
	"attestd/internal/printable"
	"attestd/server/local"
	"attestd/store"
)

func companyCommand(schema string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "company",
		Short: "List, suspend and bound companies, while a server runs or not",
		Long: `What the operator decides about companies. Every decision needs a reason, which the company's
control log records permanently.

While a server has the database file open, these commands change it through the server, over
the socket next to the file (attestd.db.sock), which only the server's user and root can use.
For PostgreSQL, they change the database themselves, and all servers follow at once.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		Args: cobra.NoArgs,
	}
	cmd.AddCommand(companyListCommand(schema), companyShowCommand(schema), companySuspendCommand(schema), companyResumeCommand(schema),
		companyQuotaCommand(schema))
	return cmd
}

func companyListCommand(schema string) *cobra.Command {
	f := operatorFlags{schema: schema}
	var asJSON bool
	cmd := &cobra.Command{
		Use: "list", Short: "List all companies with what they have", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			out := cmd.OutOrStdout()
			return f.read(cmd.Context(), func(o operations) error {
				for c, err := range o.List(cmd.Context()) {
					if err != nil {
						return err
					}
					if asJSON {
						err = printable.JSON(out, c)
					} else {
						printable.Fprintf(out, "%s: %s, %s, %s, %s\n", c.CompanyID, companyStatus(c),
							printable.Count(c.Records+c.ControlRecords, "record"), humanize.IBytes(uint64(c.Bytes+c.ControlBytes)), printable.Count(c.Agents, "agent"))
					}
					if err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	databaseFlag(cmd, &f.db)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object per line")
	return cmd
}

func companyShowCommand(schema string) *cobra.Command {
	f := operatorFlags{schema: schema}
	var asJSON bool
	cmd := &cobra.Command{
		Use: "show ID", Short: "Show what a company has and may have", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.read(cmd.Context(), func(o operations) error {
				c, err := o.Show(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				if asJSON {
					return printable.JSON(cmd.OutOrStdout(), c)
				}
				printCompany(cmd.OutOrStdout(), c)
				return nil
			})
		},
	}
	databaseFlag(cmd, &f.db)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object")
	return cmd
}

func companySuspendCommand(schema string) *cobra.Command {
	return decisionCommand(schema, "suspend ID --reason TEXT", "Suspend a company: it records nothing and is issued nothing",
		`Suspend a company. From then on, on all servers, everything that its credentials do to write or
to be issued something is answered 403 COMPANY_SUSPENDED: records, agents, keys, tokens,
passports. Its webhooks stop. It can still read its records, proofs, evidence and logs; its
public keys, checkpoints and proofs stay published, and what is read can be verified.

A suspension revokes nothing: a passport or token that was issued before verifies until it
expires. Disable agents or revoke passports first where that matters. rotate-key --compromised
ends all tokens at once.`, operations.Suspend)
}

func companyResumeCommand(schema string) *cobra.Command {
	return decisionCommand(schema, "resume ID --reason TEXT", "End the suspension of a company",
		`End the suspension of a company. Its webhooks go on where they stopped.`, operations.Resume)
}

// decisionCommand is a command that decides something about a company.
func decisionCommand(schema, use, short, long string, decide func(operations, context.Context, local.Decision) (local.Company, error)) *cobra.Command {
	f := operatorFlags{schema: schema}
	var d local.Decision
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if d.CompanyID = args[0]; d.Reason == "" {
				return cli.Usagef("--reason is required")
			}
			return f.change(cmd.Context(), func(o operations) error {
				c, err := decide(o, cmd.Context(), d)
				if err != nil {
					return err
				}
				printCompany(cmd.OutOrStdout(), c)
				return nil
			})
		},
	}
	f.add(cmd)
	cmd.Flags().StringVar(&d.Reason, "reason", "", "`text` for the control log")
	return cmd
}

func companyQuotaCommand(schema string) *cobra.Command {
	f := operatorFlags{schema: schema}
	var q local.Quota
	var records, bytes string
	cmd := &cobra.Command{
		Use: "quota ID --reason TEXT", Short: "Set what a company may store",
		Long: `Set the quota of a company. Each of its two logs, the actions and the control log, may have so
many records, and so many bytes of payloads and delegations. "server" is the quota of attestd
serve (--max-records, --max-bytes), 0 is no limit. A limit that is not given becomes "server".

What exceeds a quota is answered 507 QUOTA_EXCEEDED and not written. What ends a right, such as
a revocation, is always possible.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if q.CompanyID = args[0]; q.Reason == "" {
				return cli.Usagef("--reason is required")
			}
			if q.MaxRecords, err = parseQuota("--max-records", records, parseQuotaNumber); err != nil {
				return err
			}
			if q.MaxBytes, err = parseQuota("--max-bytes", bytes, parseQuotaSize); err != nil {
				return err
			}
			return f.change(cmd.Context(), func(o operations) error {
				c, err := o.SetQuota(cmd.Context(), q)
				if err != nil {
					return err
				}
				printCompany(cmd.OutOrStdout(), c)
				return nil
			})
		},
	}
	f.add(cmd)
	cmd.Flags().StringVar(&q.Reason, "reason", "", "`text` for the control log")
	cmd.Flags().StringVar(&records, "max-records", ofServer, "largest `number` of records in each log, or 0, or server")
	cmd.Flags().StringVar(&bytes, "max-bytes", ofServer, "largest `size` of the payloads in each log, or 0, or server")
	// ATTESTD_MAX_RECORDS and ATTESTD_MAX_BYTES are the quotas of a server.
	for _, name := range []string{"max-records", "max-bytes"} {
		cmd.Flag(name).Annotations = map[string][]string{cli.TypedOnly: {"yes"}}
	}
	return cmd
}

// ofServer means the quota of the server.
const ofServer = "server"

func parseQuota(flag, text string, parse func(flag, text string) (int64, error)) (*int64, error) {
	if text == ofServer {
		return nil, nil
	}
	n, err := parse(flag, text)
	return &n, err
}

// companyStatus says whether a company is suspended.
func companyStatus(c local.Company) string {
	if c.SuspendedAt == "" {
		return "active"
	}
	return fmt.Sprintf("SUSPENDED since %s (%s)", c.SuspendedAt, c.Reason)
}

func printCompany(out io.Writer, c local.Company) {
	quota := func(n *int64, show func(uint64) string) string {
		switch {
		case n == nil:
			return "the server's limit"
		case *n == 0:
			return "no limit"
		}
		return "at most " + show(uint64(*n))
	}
	printable.Fprintf(out, `%s: %s
registered %s, %s
actions: %s, %s
control: %s, %s
quota of each log: records: %s; bytes: %s
`, c.CompanyID, companyStatus(c), c.RegisteredAt, printable.Count(c.Agents, "agent"), printable.Count(c.Records, "record"), humanize.IBytes(uint64(c.Bytes)),
		printable.Count(c.ControlRecords, "record"),
		humanize.IBytes(uint64(c.ControlBytes)), quota(c.MaxRecords, func(n uint64) string { return fmt.Sprint(n) }),
		quota(c.MaxBytes, humanize.IBytes))
}

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
