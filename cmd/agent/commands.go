// Package agent has the commands for the machine of an agent: they give it a key, record what it
// does, and read the records. They reach the service over HTTP alone.
package agent

import (
	"runtime/debug"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"attestd/cmd/check"
	"attestd/cmd/cli"
	"attestd/internal/lazyregexp"
)

// Commands returns the commands of this package, which a program of a version has.
func Commands(version string) []*cobra.Command {
	return []*cobra.Command{attestCommand(), recordsCommand(), tailCommand(), runCommand(), hookCommand(), initCommand(), mcpCommand(),
		mcpServerCommand(version), agentKeyCommand(), tokenCommand(), spoolCommand(), openCommand()}
}

// Run executes the command line of a process that has the commands for the machine of an agent, and
// no server. It returns the exit status.
func Run(release string) int {
	info, _ := debug.ReadBuildInfo()
	p := cli.Program{Root: Root(cli.VersionOf(release, info)), Guard: GuardHook, Named: named}
	return p.Run()
}

// Root returns the command of that program.
func Root(version string) *cobra.Command {
	root := cli.Root(smallProgram, version, "Identity for an AI agent, and proof of what it did", `attestd-agent gives an AI agent a key, and records what the agent does in the log of its company.
It is the part of attestd for the machine of an agent: attestd has these commands too.
attestd-agent COMMAND --help explains a command.`)
	root.AddCommand(Commands(version)...)
	root.AddCommand(check.Command(nil), check.TrustCommand(), cli.VersionCommand(version))
	cli.Explain(root, statuses, Examples)
	help := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, args []string) {
		c.Short, c.Long, c.Example = named(c.Short), named(c.Long), named(c.Example)
		for _, sub := range c.Commands() {
			sub.Short = named(sub.Short)
		}
		c.Flags().VisitAll(func(f *pflag.Flag) { f.Usage = named(f.Usage) })
		help(c, args)
	})
	return root
}

const statuses = `Exit status: 0 done, 1 failed, 2 usage, 3 not found, 4 verification failed,
5 refused or not trusted.`

// ownCommand is a command of attestd that this program has too.
var ownCommand = lazyregexp.New(`\battestd (agent-key|attest|check|hook|init|mcp|mcp-server|open|records|run|spool|tail|token|trust|version)\b`)

// named returns a text that names commands of attestd, with the name of this program where it has
// them.
func named(text string) string { return ownCommand().ReplaceAllString(text, smallProgram+" $1") }

// Examples show how the commands of an agent's machine are used, by their names.
var Examples = map[string]string{
	"agent-key": `
		agent-key enrol --token enr_…
		agent-key list --agent travel-bot`,
	"agent-key enrol":  `agent-key enrol --token enr_…`,
	"agent-key list":   `agent-key list --agent travel-bot`,
	"agent-key new":    `agent-key new --agent travel-bot`,
	"agent-key revoke": `agent-key revoke --agent travel-bot --reason "lost laptop" KslpcROgjD2B1sZ2iVgdilWqqMHj23_HRWY52dUZiT4`,
	"attest":           `attest --agent travel-bot --action flight.booked '{"flight":"LH 400"}'`,
	"check": `
		check --key SHA256:… evidence.json
		check --lines --company acme exported.ndjson`,
	"hook": `hook --from claude-code --agent claude-code --url http://127.0.0.1:8080`,
	"init": `
		init claude-code --write
		init mcp --settings .mcp.json --agent claude-code --write`,
	"init claude-code": `
		init claude-code --write
		init claude-code --fail closed --write
		init claude-code --check`,
	"init codex":  `init codex --write`,
	"init gemini": `init gemini --write`,
	"init mcp":    `init mcp --settings .mcp.json --agent claude-code --write`,
	"mcp": `
		mcp --agent claude --server files -- npx -y @modelcontextprotocol/server-filesystem /work
		mcp --agent claude --upstream https://mcp.example.com/mcp --sign-in`,
	"mcp-server": `mcp-server --url https://attest.example.com`,
	"open":       `open`,
	"records": `
		records --order newest --limit 3
		records --agent travel-bot --from 2026-11-23T00:00:00Z`,
	"run":  `run --agent builder --git -- make release`,
	"tail": `tail --agent travel-bot`,
	"spool": `
		spool list
		spool retry --all`,
	"spool list":  `spool list --json`,
	"spool retry": `spool retry --all`,
	"spool show":  `spool show 3fa9c1d2`,
	"token":       `token --agent travel-bot --audience https://api.example.com`,
	"trust": `
		trust add acme SHA256:…
		trust list`,
	"trust add":    `trust add acme SHA256:…`,
	"trust list":   `trust list --json`,
	"trust remove": `trust remove acme`,
	"version":      `version --build`,
}
