package cmd

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"attestd/agent/setup"
	"attestd/sdk/attestd"
)

// runCheck has the hooks in the settings report a call, and shows what the server has recorded of
// it.
func (f *initFlags) runCheck(cmd *cobra.Command, s setup.Steps) error {
	ctx := cmd.Context()
	settings, err := os.ReadFile(f.settings)
	if err != nil {
		return fmt.Errorf("%w; attestd init %s --write makes the settings", err, f.kind.Source)
	}
	c, err := connect(cmd)
	if err != nil {
		return err
	}
	defer c.Close()
	s.Say("server", c.URL())
	s.Say("settings", f.settings)
	version := f.kind.Version(ctx)
	if version == "" {
		version = "unknown: " + setup.Version(f.kind.Program) + " --version gives none"
	}
	s.Say("version", f.kind.Title+" "+string(version))
	since, err := recordCount(ctx, c, attestd.Actions)
	if err != nil {
		return err
	}
	_, file, err := readConnectionFile()
	if err != nil {
		return err
	}
	check := setup.Check{Kind: f.kind, URL: c.URL(), Session: "attestd-check-" + attestd.NewIdempotencyKey(), Env: file}
	answers, err := check.Run(ctx, settings)
	want := 1
	for _, a := range answers {
		if want = 2; a.Denied == "" {
			s.Say("hook", a.Event+": the call goes on")
		} else {
			s.Say("hook", a.Event+": the call is refused: "+a.Denied)
		}
	}
	records, unread := check.Records(ctx, c, since)
	for _, r := range records {
		s.Say("record", fmt.Sprintf("%d of %s, %s by %s: %s", r.Index, r.Timestamp, r.Payload.ActionType, r.Payload.AgentID, r.Hash))
	}
	if err = errors.Join(err, unread); err != nil {
		return err
	}
	if len(records) < want {
		return fmt.Errorf("%s has %d records of the call, want %d: the hooks in %s report to another server or company, or could not report at all", c.URL(), len(records), want, f.settings)
	}
	s.Say("shown", "the hooks in these settings get through to this server, which has signed what they report")
	s.Say("not shown", "that "+f.kind.Title+" runs them. Have it call a tool, and look for that: attestd records --order newest --limit 3")
	if f.kind.Trust != "" {
		s.Say("trust", f.kind.Trust)
	}
	if f.kind.HTTP && os.Getenv("ATTESTD_KEY") == "" && setup.NeedsKey(settings) {
		s.Say("key", "HTTP hooks take ATTESTD_KEY from the environment of "+f.kind.Title+", and this shell has none: start it with the line that init prints last")
	}
	return nil
}
