// Package cmd is the command line. Each command has a file of its own, which parses the flags,
// opens a database or a connection, calls one function and prints the result.
package cmd

import (
	"errors"
	"runtime/debug"

	"github.com/spf13/cobra"

	"attestd/cmd/agent"
	"attestd/cmd/check"
	"attestd/cmd/cli"
	"attestd/cmd/report"
	"attestd/service/decide"
	"attestd/store"
)

//go:generate go test -run TestConfigurationPages -args -update

// exitStatus returns the exit status of an error of the store, and 0 for others.
func exitStatus(err error) int {
	var invalid *store.VerifyError
	var miscount *store.MiscountError
	switch {
	case errors.As(err, &invalid):
		return cli.ExitInvalid
	case errors.Is(err, store.ErrNotFound):
		return cli.ExitNotFound
	case errors.Is(err, store.ErrRefused), errors.Is(err, store.ErrRolledBack):
		return cli.ExitRefused
	case errors.Is(err, store.ErrInUse):
		return cli.ExitInUse
	case errors.Is(err, store.ErrMasterKey):
		return cli.ExitMasterKey
	case errors.Is(err, store.ErrForeign), errors.Is(err, store.ErrNewer), errors.Is(err, store.ErrCorrupt):
		return cli.ExitDatabase
	case errors.As(err, &miscount):
		return cli.ExitWarnings
	default:
		return 0
	}
}

// Run executes the command line of the process and returns its exit status. A build that is no
// release has release "". A new database is created from schema, and an existing one is compared
// with it.
func Run(release, schema string) int {
	info, _ := debug.ReadBuildInfo()
	p := cli.Program{Root: rootCommand(cli.VersionOf(release, info), schema), Settings: readSettings, Status: exitStatus, Shown: shown, Guard: agent.GuardHook}
	return p.Run()
}

// Commands returns the tree of all commands, from which man pages and completions are made.
func Commands() *cobra.Command { return rootCommand("", "") }

func rootCommand(version, schema string) *cobra.Command {
	root := cli.Root("attestd", version, "Identity for AI agents, and proof of what they did", `attestd gives AI agents an identity, and records what they do. Start with: attestd serve.`)
	root.AddCommand(serveCommand(version, schema), configCommand(version, schema), recoverKeyCommand(schema),
		rotateKeyCommand(schema), acceptRollbackCommand(schema), acceptTablesCommand(schema), masterKeyCommand(),
		rekeyCommand(schema), moveCommand(schema), migrateCommand(), backupCommand(version, schema), restoreCommand(schema),
		archiveCommand(schema), verifyCommand(schema), companyLogCommand(), companyCommand(schema), personCommand(schema), exportCommand(),
		demoCommand(), healthCommand(), policyCommand(), approveCommand(), doctorCommand(version, schema), cli.VersionCommand(version))
	root.AddCommand(agent.Commands(version)...)
	root.AddCommand(check.Command(new(decide.Decider)), check.TrustCommand(), verifierCommand(), report.Command(new(decide.Decider)))
	cli.Explain(root, statuses, examples)
	return root
}

const statuses = `Exit status: 0 done, 1 failed, 2 usage, 3 not found, 4 verification failed, 5 refused or untrusted,
6 database in use, 7 master key wrong, 8 database corrupt or newer, 9 warnings, 10 doctor failed.`
