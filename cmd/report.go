package cmd

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"maps"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"attestd/evidence"
)

func reportCommand() *cobra.Command {
	var key, policy string
	var asJSON, asHTML bool
	cmd := &cobra.Command{
		Use:   "report FILE",
		Short: "Check a report of a period, offline, and print what happened",
		Long: `Check a file of GET /v1/report, without a server and without a database, as attestd check does with evidence: exit status 0 when it
holds, 4 when it does not, 5 when it is self-consistent only. Prints every change that the control log tells, and how often each agent did what;
with --html as one page to be printed. Memory does not grow with the length of the report, but for the page: that holds its changes.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if asJSON && asHTML {
				return usagef("--json and --html exclude each other")
			}
			trust, err := readTrust(key, policy)
			if err != nil {
				return err
			}
			f, err := os.Open(args[0])
			if err != nil {
				return err
			}
			defer f.Close()
			out := cmd.OutOrStdout()
			page := reportPage{actions: make(map[deed]int64)}
			visit := func(e *evidence.Event) {
				if e.Log == evidence.Control && !asHTML && !asJSON {
					fmt.Fprintf(out, "%s  %d  %s  %s  by %s\n", e.Timestamp, e.Index, e.Action, e.Subject, e.By)
				}
				page.add(e, asHTML)
			}
			page.Verdict = evidence.CheckReport(f, trust, func(r *evidence.Report) { page.Report = r }, visit)
			v := page.Verdict
			switch {
			case asHTML:
				err = reportTemplate.Execute(out, &page)
			case asJSON:
				err = json.NewEncoder(out).Encode(v)
			default:
				page.print(out)
			}
			if err != nil {
				return err
			}
			return outcome(args[0], v)
		},
	}
	trustFlags(cmd, &key, &policy)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the verdict alone, as one JSON object")
	cmd.Flags().BoolVar(&asHTML, "html", false, "print one page of HTML")
	return cmd
}

// reportPage is what a report says, for people.
type reportPage struct {
	Verdict evidence.Verdict
	Report  *evidence.Report // nil where its header does not hold
	Changes []evidence.Event // of the control log

	actions map[deed]int64
}

// deed is what an agent did, perhaps often.
type deed struct {
	Agent, Action string
	Delegated     bool
}

// maxDeeds bounds the table of what agents did; action types are free text.
const maxDeeds = 10_000

func (p *reportPage) add(e *evidence.Event, keep bool) {
	if e.Log == evidence.Control {
		if keep {
			p.Changes = append(p.Changes, *e)
		}
		return
	}
	d := deed{e.AgentID, e.Action, e.Delegated != nil}
	if _, known := p.actions[d]; !known && len(p.actions) >= maxDeeds {
		d = deed{Agent: "(others)", Action: "(others)"}
	}
	p.actions[d]++
}

// Deeds are those of the report in the order of agents.
func (p *reportPage) Deeds() []deed {
	return slices.SortedFunc(maps.Keys(p.actions), func(a, b deed) int {
		return cmp.Or(cmp.Compare(a.Agent, b.Agent), cmp.Compare(a.Action, b.Action))
	})
}

func (p *reportPage) Count(d deed) int64 { return p.actions[d] }

func (p *reportPage) print(out io.Writer) {
	for _, d := range p.Deeds() {
		delegated := ""
		if d.Delegated {
			delegated = " (delegated)"
		}
		fmt.Fprintf(out, "%d × %s by %s%s\n", p.Count(d), d.Action, d.Agent, delegated)
	}
	printEvidence(out, p.Verdict)
}

//go:embed report.html
var reportHTML string

var reportTemplate = template.Must(template.New("report").Parse(reportHTML))
