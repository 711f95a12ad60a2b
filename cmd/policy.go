package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"attestd/chain"
	"attestd/cmd/agent"
	"attestd/cmd/cli"
	"attestd/internal/printable"
	"attestd/sdk/attestd"
	"attestd/service/decide"
)

func policyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Put, list and try the policies that decide what agents may do",
		Long: `Policies are texts in Cedar (https://www.cedarpolicy.com) that decide what the agents of a company
may do, down to the arguments of a call. Without policies everything is allowed; with one, only
what a policy permits.

` + cli.ConnectionHelp,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		Args: cobra.NoArgs,
	}
	cmd.AddCommand(policyPutCommand(), policyListCommand(), policyShowCommand(), policyDeleteCommand(), policyTestCommand())
	return cmd
}

// policyFile is a policy in a file.
type policyFile struct {
	path string
	decide.Policy
}

// readPolicies reads files. id is that of the only one, or "" for their names without .cedar.
func readPolicies(paths []string, id string) ([]policyFile, error) {
	if id != "" && len(paths) > 1 {
		return nil, cli.Usagef("--id is for one file")
	}
	var all []policyFile
	seen := map[string]string{}
	for _, path := range paths {
		text, err := cli.ReadBounded(path, decide.MaxText)
		if err != nil {
			return nil, err
		}
		own := id
		if own == "" {
			own = strings.TrimSuffix(filepath.Base(path), ".cedar")
		}
		if other, is := seen[own]; is {
			return nil, cli.Usagef("%s and %s have the same ID, %s", other, path, own)
		}
		seen[own] = path
		all = append(all, policyFile{path, decide.Policy{ID: own, Text: string(text)}})
	}
	return all, nil
}

// refusal places the refusal of a policy in its file. Others are as they are.
func (p policyFile) refusal(err error) error {
	var here *decide.PolicyError
	var there *attestd.Error
	line, column, code, message := 0, 0, "", ""
	switch {
	case errors.As(err, &here):
		line, column, code, message = here.Line, here.Column, here.Code, here.Message
	case errors.As(err, &there) && (there.Code == decide.Invalid || there.Code == decide.UnknownName):
		line, column, code = there.Line, there.Column, there.Code
		message = strings.TrimPrefix(there.Message, "Invalid field: cedar ")
	case errors.Is(err, decide.ErrLimit), errors.Is(err, &attestd.Error{Code: "POLICY_LIMIT"}):
		return cli.ExitError{Status: cli.ExitRefused, Err: err}
	default:
		return err
	}
	at := p.path
	if line > 0 {
		at = fmt.Sprintf("%s:%d:%d", p.path, line, column)
	}
	err = fmt.Errorf("%s: %s (%s)", at, message, code)
	if code == decide.UnknownName {
		err = fmt.Errorf("%w; --force puts it all the same", err)
	}
	return cli.ExitError{Status: cli.ExitRefused, Err: err}
}

// missingPolicy gives the error for a policy that is not there the exit status of that.
func missingPolicy(err error) error {
	if errors.Is(err, &attestd.Error{Status: http.StatusNotFound}) {
		return cli.ExitError{Status: cli.ExitNotFound, Err: err}
	}
	return err
}

func policyPutCommand() *cobra.Command {
	var id string
	var n attestd.NewPolicy
	cmd := &cobra.Command{
		Use:   "put FILE…",
		Short: "Put policies in force",
		Long: `Put each file as a policy in force, in place of the one with its ID. The ID is the name of the file
without .cedar. All files are checked before the first is put. A mistake is printed with its place,
as FILE:LINE:COLUMN, and exit status 5.

` + cli.ConnectionHelp,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			files, err := readPolicies(args, id)
			if err != nil {
				return err
			}
			var mistakes []error
			for _, p := range files {
				if err := decide.Check(p.Policy, n.Force); err != nil {
					mistakes = append(mistakes, p.refusal(err))
				}
			}
			if len(mistakes) > 0 {
				return errors.Join(mistakes...)
			}
			return withClient(cmd, func(c *attestd.Client) error {
				for _, p := range files {
					n.Cedar = p.Text
					made, err := c.PutPolicy(cmd.Context(), p.ID, n)
					if err != nil {
						return p.refusal(err)
					}
					printable.Fprintf(cmd.OutOrStdout(), "%s %s\n", made.ID, made.SHA256)
				}
				return nil
			})
		},
	}
	cli.URLFlag(cmd)
	cmd.Flags().StringVar(&id, "id", "", "`ID` of the policy, when it is not the name of the file")
	cmd.Flags().StringVar(&n.Description, "description", "", "`text` about the policy, for people")
	cmd.Flags().BoolVar(&n.Force, "force", false, "put policies that name what does not exist")
	cli.TypeOnly(cmd, "url", "ca-file")
	return cmd
}

func policyListCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "list", Short: "List the policies in force", Args: cobra.NoArgs,
		Long: "List the policies in force: ID, SHA-256, when each was put, and its description.\n\n" + cli.ConnectionHelp,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withClient(cmd, func(c *attestd.Client) error {
				set, err := c.Policies(cmd.Context())
				if err != nil {
					return err
				}
				for _, p := range set.Policies {
					if asJSON {
						err = errors.Join(err, printable.JSON(cmd.OutOrStdout(), p))
						continue
					}
					line := printable.Sprintf("%s %s %s %s", p.ID, p.SHA256, p.PutAt, p.Description)
					_, err = io.WriteString(cmd.OutOrStdout(), strings.TrimSuffix(line, " ")+"\n")
				}
				return err
			})
		},
	}
	cli.URLFlag(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object per line, with the text")
	return cmd
}

func policyShowCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "show ID", Short: "Print the text of a policy", Args: cobra.ExactArgs(1),
		Long: `Print the text of a policy, byte for byte as it was put. On a terminal, control characters are
escaped.

` + cli.ConnectionHelp,
		RunE: func(cmd *cobra.Command, args []string) error {
			return withClient(cmd, func(c *attestd.Client) error {
				p, err := c.Policy(cmd.Context(), args[0])
				if err != nil {
					return missingPolicy(err)
				}
				if term.IsTerminal(int(os.Stdout.Fd())) {
					lines := strings.Split(strings.ReplaceAll(p.Cedar, "\t", "    "), "\n")
					for i := range lines {
						lines[i] = printable.Text(lines[i])
					}
					p.Cedar = strings.Join(lines, "\n")
				}
				_, err = io.WriteString(cmd.OutOrStdout(), p.Cedar)
				return err
			})
		},
	}
	cli.URLFlag(cmd)
	return cmd
}

func policyDeleteCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "delete ID", Short: "Delete a policy", Args: cobra.ExactArgs(1),
		Long: "Delete a policy. Without any policy everything is allowed.\n\n" + cli.ConnectionHelp,
		RunE: func(cmd *cobra.Command, args []string) error {
			return withClient(cmd, func(c *attestd.Client) error {
				if err := c.DeletePolicy(cmd.Context(), args[0]); err != nil {
					return missingPolicy(err)
				}
				printable.Fprintf(cmd.OutOrStdout(), "%s is deleted\n", args[0])
				return nil
			})
		},
	}
	cli.URLFlag(cmd)
	return cmd
}

// withClient calls do with a client of the server that the command line or the environment names.
func withClient(cmd *cobra.Command, do func(*attestd.Client) error) error {
	c, err := cli.Connect(cmd)
	if err != nil {
		return err
	}
	defer c.Close()
	return do(c)
}

// policyTrial holds the flags of attestd policy test.
type policyTrial struct {
	id, since, agent, records string
	asJSON                    bool

	from               time.Time // zero for the begin
	decided, different int64
}

func policyTestCommand() *cobra.Command {
	var t policyTrial
	cmd := &cobra.Command{
		Use:   "test FILE",
		Short: "Decide what is on record again, with a draft of a policy",
		Long: `Decide again what is on record, as if the policy in the file were in force in place of the one with
its ID, and print what would be decided otherwise. Nothing is changed. Records with a decision are
decided again, and so are requests of tool calls without one, which were let through.

With --records, decide the records of a file in place of the server's, without a server: a file of
attestd records, export or archive, or one of evidence, a session or a report. Then FILE, or several,
have all the policies there are. What the records do not say is not there: the groups of agents whose
requests hold no decision. The file is not checked; attestd check does that.

The last line has the numbers. The exit status is 0 however many there are.

` + cli.ConnectionHelp,
		Args: func(cmd *cobra.Command, args []string) error {
			if t.records != "" {
				return cobra.MinimumNArgs(1)(cmd, args)
			}
			return cobra.ExactArgs(1)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			files, err := readPolicies(args, t.id)
			if err != nil {
				return err
			}
			if t.since != "" {
				var ok bool
				if t.from, ok = cli.ParseInstant(t.since, time.Now()); !ok {
					return cli.Usagef("--since must be a time such as 2026-03-02T09:00:00Z, or a time ago such as 90m or 7d; got %q", t.since)
				}
			}
			out := cmd.OutOrStdout()
			if t.records != "" {
				err = t.offline(out, files)
			} else {
				err = withClient(cmd, func(c *attestd.Client) error { return t.online(cmd.Context(), c, out, files[0]) })
			}
			if err != nil {
				return err
			}
			if t.asJSON {
				return printable.JSON(out, map[string]int64{"decided": t.decided, "different": t.different})
			}
			printable.Fprintf(out, "%s decided, %d different\n", printable.Count(t.decided, "record"), t.different)
			return nil
		},
	}
	cli.URLFlag(cmd)
	cmd.Flags().StringVar(&t.id, "id", "", "`ID` of the policy, when it is not the name of the file")
	cmd.Flags().StringVar(&t.since, "since", "", "only records from this `time` on")
	cmd.Flags().StringVar(&t.agent, "agent", "", "only records of the agent with this `ID`")
	cmd.Flags().StringVar(&t.records, "records", "", "`file` with records, which are decided without a server")
	cmd.Flags().BoolVar(&t.asJSON, "json", false, "print one JSON object per line")
	cli.TypeOnly(cmd, "url", "ca-file", "json")
	return cmd
}

// print prints what would be decided otherwise.
func (t *policyTrial) print(out io.Writer, d attestd.PolicyDifference) error {
	t.different++
	if t.asJSON {
		return printable.JSON(out, d)
	}
	was, by := "not decided", ""
	if d.Was != nil {
		was = *d.Was
	}
	if len(d.By) > 0 {
		by = " by " + strings.Join(d.By, ", ")
	}
	printable.Fprintf(out, "record %d: %s, becomes %s%s\n", d.Index, was, d.Becomes, by)
	return nil
}

// online pages over what is on record at the server.
func (t *policyTrial) online(ctx context.Context, c *attestd.Client, out io.Writer, p policyFile) error {
	trial := attestd.PolicyTrial{Draft: &attestd.PolicyText{ID: p.ID, Cedar: p.Text}, AgentID: t.agent, Limit: 10_000}
	size, err := agent.RecordCount(ctx, c, attestd.Actions)
	if err == nil && !t.from.IsZero() {
		trial.From, err = agent.IndexAt(ctx, c, attestd.Actions, t.from)
	}
	if err != nil {
		return err
	}
	begin := trial.From
	report, finish := cli.Progress()
	defer func() { finish() }()
	for {
		tried, err := c.TestPolicies(ctx, trial)
		if err != nil {
			return p.refusal(err)
		}
		finish() // lines and the progress bar may share a terminal
		t.decided += int64(tried.Decided)
		for _, d := range tried.Different {
			if err := t.print(out, d); err != nil {
				return err
			}
		}
		if tried.Next == nil {
			return nil
		}
		if trial.From = *tried.Next; report != nil {
			report("decide", trial.From-begin, size-begin)
		}
	}
}

// offline decides the records of a file by the policies of files alone.
func (t *policyTrial) offline(out io.Writer, files []policyFile) error {
	all := make([]decide.Policy, len(files))
	for i, p := range files {
		if err := decide.Check(p.Policy, true); err != nil {
			return p.refusal(err)
		}
		all[i] = p.Policy
	}
	set, err := decide.Compile(all)
	if err != nil {
		return files[0].refusal(err)
	}
	since := ""
	if !t.from.IsZero() {
		since = chain.FormatTime(t.from)
	}
	return eachFileRecord(t.records, func(r fileRecord) error {
		past, err := decide.ReadPast(r.timestamp, r.payload)
		if err != nil {
			return fmt.Errorf("record %d: %w", r.index, err)
		}
		if past == nil || r.timestamp < since || t.agent != "" && t.agent != past.AgentID {
			return nil
		}
		t.decided++
		made, differs := set.Again(past, nil)
		if !differs {
			return nil
		}
		return t.print(out, attestd.PolicyDifference{Index: r.index, Was: past.Was, Becomes: made.Verdict, By: made.By})
	})
}
