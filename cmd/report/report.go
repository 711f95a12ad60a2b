// Package report has the command that explains evidence to people.
package report

import (
	"runtime/debug"

	"github.com/spf13/cobra"

	"attestd/chain/evidence"
	"attestd/chain/filekind"
	"attestd/cmd/check"
	"attestd/cmd/cli"
	"attestd/internal/printable"
)

// Command returns the command. d makes decisions again; nil where policies cannot be evaluated.
func Command(d evidence.Decider) *cobra.Command {
	var key, policy, passport string
	var asJSON, asHTML bool
	cmd := &cobra.Command{
		Use:   "report FILE",
		Short: "Check a report of a period, offline, and print its contents",
		Long: `Check a file from GET /v1/report, without a server and without a database, as attestd check does
with evidence. Exit status 0 when it holds, 4 when it fails, 5 when it holds and the key is not
confirmed. Prints every change in the control log and the number of each agent's actions by type.
With --html, prints them as one page.

With --passport, also prints whether a passport was issued in the period. A report is complete,
so a passport that somebody signed with the company's key outside the service is absent.

Memory does not grow with the length of the report, except for --html, which holds the changes.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if asJSON && asHTML {
				return cli.Usagef("--json and --html exclude each other")
			}
			if err := check.HasValues(cmd); err != nil {
				return err
			}
			trust, err := check.ReadTrust(key, policy)
			if err != nil {
				return err
			}
			trust.Decider = d
			debug.SetMemoryLimit(2 * evidence.MaxSize) // one line may have MaxSize bytes
			f, err := cli.OpenNamed(args[0])
			if err != nil {
				return err
			}
			defer f.Close()
			src := evidence.Reader(f)
			if err := check.MustBe(args[0], src, filekind.Report); err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			page := reportPage{actions: make(map[agentAction]int64), passport: passport}
			visit := func(e *evidence.Event) {
				if e.Log == evidence.Control && !asHTML && !asJSON {
					printable.Fprintf(out, "%s  %d  %s  %s  by %s\n", e.Timestamp, e.Index, e.Action, e.Subject, e.By)
				}
				page.add(e, asHTML)
			}
			page.Verdict = evidence.CheckReport(src, trust, func(r *evidence.Report) { page.Report = r }, visit)
			v := page.Verdict
			switch {
			case asHTML:
				err = page.html(out)
			case asJSON:
				err = printable.JSON(out, page.json())
			default:
				page.print(out)
			}
			if err != nil {
				return err
			}
			return check.Outcome(args[0], v)
		},
	}
	check.TrustFlags(cmd, &key, &policy)
	cmd.Flags().StringVar(&passport, "passport", "", "print the changes of the passport with this `jti`")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the verdict alone, as one JSON object")
	cmd.Flags().BoolVar(&asHTML, "html", false, "print one page of HTML")
	return cmd
}
