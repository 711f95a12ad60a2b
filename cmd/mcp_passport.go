package cmd

import (
	"context"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"attestd/agent/mcpproxy"
	"attestd/sdk/attestd"
)

// passportFlags are the flags of `attestd mcp` that restrict the tools.
type passportFlags struct{ file, pinned string }

func (p *passportFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&p.file, "passport", "",
		"`file` with the agent's passport, whose scopes must cover the called tools")
	cmd.Flags().StringVar(&p.pinned, "pinned-key", "",
		"`fingerprint` (SHA256:…) of a key of the company; the current key must descend from it by rotations")
	_ = cmd.Flags().SetAnnotation("pinned-key", typedOnly, []string{"true"}) // the flag is there
}

// startTimeout is the time limit for getting the company's keys from the service. After it, the
// keys of an earlier run are used.
const startTimeout = 5 * time.Second

// check returns usage errors.
func (p *passportFlags) check() error {
	switch {
	case p.file == "" && p.pinned != "":
		return usagef("--pinned-key requires --passport")
	case p.pinned != "" && !fingerprintForm.MatchString(p.pinned):
		return usagef("--pinned-key must be a fingerprint, SHA256: and 43 characters")
	}
	return nil
}

// gate configures a proxy to require the passport, if there is one, and sets an unnamed agent to
// the passport's. The keys of the company are stored in the folder.
func (p *passportFlags) gate(cmd *cobra.Command, folder string, config *mcpproxy.Config) error {
	if p.file == "" {
		return nil
	}
	connection, err := connection(cmd)
	if err != nil {
		return err
	}
	// a tool call waits for the response; the next call asks again
	connection.Retry = &attestd.Retry{}
	c, err := attestd.New(connection)
	if err != nil {
		return usageError{err}
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), startTimeout)
	defer cancel()
	service, err := mcpproxy.NewService(ctx, c, filepath.Join(folder, "issuer.json"), p.pinned)
	if err != nil {
		return err
	}
	passport, err := mcpproxy.NewPassport(p.file, config.Agent, service, config.FailClosed)
	if err != nil {
		return exitError{exitInvalid, err}
	}
	config.Agent, config.Gate = passport.Agent(), passport
	return nil
}
