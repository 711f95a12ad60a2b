package agent

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"github.com/spf13/cobra"

	"attestd/agent/setup"
	"attestd/cmd/cli"
	"attestd/sdk/attestd"
)

// runCheck runs the installed hooks with a test call and prints the records that the server has of
// it.
func (f *initFlags) runCheck(cmd *cobra.Command, s setup.Steps) error {
	ctx := cmd.Context()
	settings, err := os.ReadFile(f.settings)
	if err != nil {
		return fmt.Errorf("%w; attestd init %s --write creates the settings", err, f.kind.Source)
	}
	c, err := cli.Connect(cmd)
	if err != nil {
		return err
	}
	defer c.Close()
	s.Print("server", c.URL())
	s.Print("settings", f.settings)
	version := f.kind.Version(ctx)
	if version == "" {
		version = "unknown: " + setup.Version(f.kind.Program) + " --version prints none"
	}
	s.Print("version", f.kind.Title+" "+string(version))
	since, err := recordCount(ctx, c, attestd.Actions)
	if err != nil {
		return err
	}
	_, file, err := cli.ReadConnectionFile()
	if err != nil {
		return err
	}
	check := setup.Check{Kind: f.kind, URL: c.URL(), Session: "attestd-check-" + attestd.NewIdempotencyKey(), Env: file, Programs: ourPrograms(), System: runtime.GOOS}
	answers, err := check.Run(ctx, settings)
	want := 1
	for _, a := range answers {
		if want = 2; a.Denied == "" {
			s.Print("hook", a.Event+": the call is allowed")
		} else {
			s.Print("hook", a.Event+": the call is refused: "+a.Denied)
		}
	}
	records, unread := check.Records(ctx, c, since)
	for _, r := range records {
		s.Print("record", fmt.Sprintf("%d at %s, %s by %s: %s", r.Index, r.Timestamp, r.Payload.ActionType, r.Payload.AgentID,
			r.Hash))
	}
	if err = errors.Join(err, unread); err != nil {
		return err
	}
	if len(records) < want {
		return fmt.Errorf("%s has %d records of the call, want %d: the hooks in %s report to another server or company, or cannot reach it", c.URL(), len(records), want, f.settings)
	}
	guard, err := check.WithoutProgram(ctx, settings, version)
	if err != nil {
		return err
	}
	s.Print("missing", without(guard))
	off := f.kind.HooksOff(f.settings)
	for _, why := range off {
		s.Print("off", why)
	}
	s.Print("shown", "the hooks in these settings reach this server, and it has signed their records")
	s.Print("not shown", "that "+f.kind.Title+
		" runs them. Make it call a tool, then look for the records: attestd records --order newest --limit 3")
	if f.kind.Trust != "" {
		s.Print("trust", f.kind.Trust)
	}
	if f.kind.HTTP && os.Getenv("ATTESTD_KEY") == "" && setup.NeedsKey(settings) {
		s.Print("stored key", "HTTP hooks read ATTESTD_KEY from the environment of "+f.kind.Title+
			", and this shell has none: start it with the last line that init prints")
	}
	switch {
	case len(off) > 0:
		return fmt.Errorf("%s may run no hooks: %s", f.kind.Title, off[0])
	case guard.Asked && !guard.Refused:
		return fmt.Errorf("%s goes on with calls when the program of its hooks is missing, and the hooks are to refuse what is not recorded: attestd init %s --write installs the present ones", f.kind.Title, f.kind.Source)
	}
	return nil
}

// without says what becomes of a call when the program of its hook is missing.
func without(g setup.Guard) string {
	how := "the call goes on"
	if g.Refused {
		how = "the call is refused"
	}
	if !g.Asked && !g.Refused {
		how += ", unrecorded (--fail closed refuses it)"
	}
	return "without a program of the hooks " + how + ": " + g.How
}
