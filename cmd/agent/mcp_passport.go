package agent

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"attestd/agent/mcpproxy"
	"attestd/cmd/cli"
	"attestd/sdk/attestd"
)

// passportFlags are the flags of `attestd mcp` that restrict the tools.
type passportFlags struct{ file, pinned string }

func (p *passportFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&p.file, "passport", "",
		"`file` with the agent's passport, whose scopes must cover the called tools")
	cmd.Flags().StringVar(&p.pinned, "pinned-key", "",
		"`fingerprint` (SHA256:…) of a key of the company; the current key must descend from it by rotations (default: the key of attestd trust)")
	_ = cmd.Flags().SetAnnotation("pinned-key", cli.TypedOnly, []string{"true"}) // it is there
}

// startTimeout is the time limit for getting the company's keys from the service. After it, the
// keys of an earlier run are used.
const startTimeout = 5 * time.Second

// check returns usage errors.
func (p *passportFlags) check() error {
	switch {
	case p.file == "" && p.pinned != "":
		return cli.Usagef("--pinned-key requires --passport")
	case p.pinned != "":
		return cli.CheckFingerprint("--pinned-key", p.pinned)
	}
	return nil
}

// agent is the agent of the passport, which is not checked here; "" where there is none.
func (p *passportFlags) agent() string {
	text, err := os.ReadFile(p.file)
	if p.file == "" || err != nil {
		return "" // gate returns the error
	}
	return mcpproxy.AgentOf(strings.TrimSpace(string(text)))
}

// gate configures a proxy to require the passport, if there is one. The keys of the company are
// stored in the folder of unsent records.
func (p *passportFlags) gate(ctx context.Context, at agentConnection, config *mcpproxy.Config) error {
	if p.file == "" {
		return nil
	}
	connection := at.Config
	// a tool call waits for the response; the next call asks again
	connection.Retry = &attestd.Retry{}
	c, err := cli.NewClient(connection)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	company := ""
	if at.identity != nil {
		company = at.identity.CompanyID()
	}
	service, err := mcpproxy.NewService(ctx, c, company, filepath.Join(at.folder, "issuer.json"), func(company string) (string, error) {
		if p.pinned != "" {
			return p.pinned, nil
		}
		return cli.TrustedKeyOf(company)
	})
	if err != nil {
		return err
	}
	passport, err := mcpproxy.NewPassport(p.file, config.Agent, service, config.FailClosed)
	if err != nil {
		return cli.ExitError{Status: cli.ExitInvalid, Err: err}
	}
	config.Agent, config.Gate = passport.Agent(), passport
	return nil
}
