// Package cmd is the command line. Each command has a file of its own, which parses the flags,
// opens a database or a connection, calls one function and prints the result.
package cmd

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"attestd/internal/printable"
	"attestd/sdk/attestd"
	"attestd/store"
)

//go:generate go test -run TestConfigurationPage -args -update

// Exit statuses. They are part of the interface: scripts branch on them.
const (
	exitFailed    = 1
	exitUsage     = 2
	exitNotFound  = 3
	exitInvalid   = 4 // verification failed
	exitRefused   = 5
	exitInUse     = 6
	exitMasterKey = 7 // missing, or not the one that sealed the database
	exitDatabase  = 8 // not an attestd database, corrupt, or of a newer version
	// attestd doctor has warnings and no failure, or attestd verify wrong counts of bytes alone
	exitWarnings = 9
	exitFailures = 10
)

// usageError is a mistake in the command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// Run executes the command line of the process and returns its exit status. A build that is no
// release has release "". A new database is created from schema, and an existing one is compared
// with it.
func Run(release, schema string) int {
	info, _ := debug.ReadBuildInfo()
	// The first signal asks a command to end cleanly. A second one meets the default handler, which
	// ends the process at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)

	root := rootCommand(versionOf(release, info), schema)
	explainArguments(root)
	var guard *hookGuard
	if isHook(os.Args[1:]) {
		ctx, guard = guardHook(ctx, os.Args[1:])
		root.SetOut(guard)
	}
	running := false // errors before a command runs are usage errors
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		running = true
		if err := readSettings(cmd); err != nil {
			return err
		}
		if err := trustCA(cmd); err != nil {
			return err
		}
		return completeURL(cmd)
	}
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return 0
	}
	if own := (exitError{}); errors.As(err, &own) && own.error == nil {
		return own.status // of the command that attestd ran; its own output explains it
	}
	switch {
	case !running: // cobra's errors may have several lines, with arguments in them
		err = usageError{joinLines(explainValue(err).Error())}
	case errors.Is(err, context.Canceled):
		err = errors.New("interrupted")
	case errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, store.ErrUnavailable):
		err = fmt.Errorf("%w; no server listens there: start attestd serve, or set another address with --url or ATTESTD_URL", err)
	}
	if authority := (x509.UnknownAuthorityError{}); errors.As(err, &authority) && cmd.Flag("ca-file") != nil {
		err = fmt.Errorf("%w; if it is a CA of your own, name it with --ca-file or ATTESTD_CA_FILE", err)
	}
	status := exitStatus(err)
	usage := status == exitUsage
	if usage && running {
		err = withPlaces(cmd.Flags(), err)
	}
	if guard != nil {
		status = guard.statusOf()
	}
	why := "attestd: " + printable.Error(err)
	// A misplaced argument may be a URL with a password.
	for _, arg := range os.Args[1:] {
		if store.IsPostgres(arg) {
			why = strings.ReplaceAll(why, arg, store.Name(arg))
		}
	}
	if refused := (*attestd.Error)(nil); errors.As(err, &refused) && refused.Status == http.StatusUnauthorized && refused.Code == "" {
		why += "\n" + unauthorizedHint
	}
	if usage {
		why += fmt.Sprintf("\nRun '%s --help' for usage.", cmd.CommandPath())
	}
	writeStderr(why + "\n")
	return status
}

// joinLines returns the joined errors of the lines of a text, one error for each line that is not
// empty.
func joinLines(text string) error {
	var lines []error
	for line := range strings.SplitSeq(text, "\n") {
		if line != "" {
			lines = append(lines, errors.New(strings.ReplaceAll(line, "\t", "  ")))
		}
	}
	return errors.Join(lines...)
}

// unauthorizedHint is printed when the server rejects the credential.
const unauthorizedHint = "The credential is unknown to this server, deleted or expired. Check ATTESTD_KEY, ATTESTD_KEY_FILE and --url, " +
	"or run 'attestd help recover-key'."

// printError writes to standard error and escapes the arguments.
func printError(format string, args ...any) { writeStderr(printable.Sprintf(format, args...)) }

// writeStderr writes escaped text to standard error. That may be a pipe that nobody reads, so the
// process waits logPatience at most and then ends without the text.
func writeStderr(text string) {
	written := make(chan struct{})
	go func() {
		defer close(written)
		_, _ = os.Stderr.WriteString(text)
	}()
	select {
	case <-written:
	case <-time.After(logPatience):
	}
}

func exitStatus(err error) int {
	var usage usageError
	var own exitError
	var invalid *store.VerifyError
	var miscount *store.MiscountError
	switch {
	case errors.As(err, &own):
		return own.status
	case errors.As(err, &usage):
		return exitUsage
	case errors.As(err, &invalid):
		return exitInvalid
	case errors.Is(err, store.ErrNotFound):
		return exitNotFound
	case errors.Is(err, store.ErrRefused), errors.Is(err, store.ErrRolledBack):
		return exitRefused
	case errors.Is(err, store.ErrInUse):
		return exitInUse
	case errors.Is(err, store.ErrMasterKey):
		return exitMasterKey
	case errors.Is(err, store.ErrForeign), errors.Is(err, store.ErrNewer), errors.Is(err, store.ErrCorrupt):
		return exitDatabase
	case errors.As(err, &miscount):
		return exitWarnings
	default:
		return exitFailed
	}
}

// Commands returns the tree of all commands, from which man pages and completions are made.
func Commands() *cobra.Command { return rootCommand("", "") }

func rootCommand(version, schema string) *cobra.Command {
	root := &cobra.Command{
		Use:   "attestd",
		Short: "Identity for AI agents, and proof of what they did",
		Long: `attestd gives AI agents an identity, and records what they do in tamper-evident logs.

It stores its data in one SQLite file, or in a PostgreSQL database. Start with:  attestd serve

Environment variables set the flags too: ATTESTD_BASE_URL sets --base-url. serve also reads them from
a file (--config): base-url = "https://attest.example.com". attestd config shows what holds.
Exit status: 0 done, 1 failed, 2 usage, 3 not found, 4 verification failed,
5 refused, or not trusted, 6 database in use, 7 master key missing or wrong,
8 not an attestd database, corrupt, or of a newer version, 9 warnings of attestd doctor, or bytes
that attestd verify finds counted wrongly, 10 failures of attestd doctor.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       version,
		// Without Args, cobra suggests commands whose names resemble an unknown one.
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetVersionTemplate("attestd {{.Version}}\n")
	root.SetHelpCommand(helpCommand())
	root.SetFlagErrorFunc(unknownFlag)
	root.AddCommand(serveCommand(version, schema), configCommand(version, schema), recoverKeyCommand(schema),
		rotateKeyCommand(schema), acceptRollbackCommand(schema), acceptTablesCommand(schema), masterKeyCommand(),
		rekeyCommand(schema), moveCommand(schema), migrateCommand(), backupCommand(version, schema), restoreCommand(schema),
		archiveCommand(schema), verifyCommand(schema), companyLogCommand(), companyCommand(schema), exportCommand(),
		checkCommand(), reportCommand(), attestCommand(), recordsCommand(), tailCommand(), runCommand(), hookCommand(),
		initCommand(), mcpCommand(), mcpServerCommand(version), agentKeyCommand(), tokenCommand(), demoCommand(),
		healthCommand(), doctorCommand(version, schema), versionCommand(version))
	return root
}
