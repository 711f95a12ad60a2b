package cmd

import (
	"context"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"attestd/agent/mcpproxy"
	"attestd/sdk/attestd"
)

// passportFlags are the flags of `attestd mcp` that say which tools may be called.
type passportFlags struct{ file, pinned string }

func (p *passportFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&p.file, "passport", "", "`file` with the agent's passport, which must cover the tools that are called")
	cmd.Flags().StringVar(&p.pinned, "pinned-key", "", "`fingerprint` (SHA256:…) of a key of the company, from which its present one must follow")
	_ = cmd.Flags().SetAnnotation("pinned-key", typedOnly, []string{"true"}) // the flag is there
}

// startTimeout is how long the service may take to name the company's keys before those of an
// earlier run are used.
const startTimeout = 5 * time.Second

// check finds mistakes of typing.
func (p *passportFlags) check() error {
	switch {
	case p.file == "" && p.pinned != "":
		return usagef("--pinned-key belongs to --passport")
	case p.pinned != "" && !fingerprintForm.MatchString(p.pinned):
		return usagef("--pinned-key must be a fingerprint, SHA256: and 43 characters")
	}
	return nil
}

// gate sets the gate of a proxy, and the agent where none was named, when there is a passport. The
// keys of the company are kept in place.
func (p *passportFlags) gate(cmd *cobra.Command, place string, config *mcpproxy.Config) error {
	if p.file == "" {
		return nil
	}
	connection, err := connection(cmd)
	if err != nil {
		return err
	}
	connection.Retry = &attestd.Retry{} // a call waits meanwhile, and the next asks again
	c, err := attestd.New(connection)
	if err != nil {
		return usageError{err}
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), startTimeout)
	defer cancel()
	service, err := mcpproxy.NewService(ctx, c, filepath.Join(place, "issuer.json"), p.pinned)
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
