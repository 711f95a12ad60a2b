// Package cmd is the command line: one file for each command, which parses its flags, opens what it
// needs, calls one function and prints.
package cmd

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
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
	exitMasterKey = 7 // missing, or another than that of the database
	exitDatabase  = 8 // not ours, corrupt, or of a newer version
)

// usageError is a mistake in how the command was typed.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// Run carries out the command line of the process and returns its exit status. A new database is
// made from schema, and an old one held against it.
func Run(version, schema string) int {
	// The first signal asks a command to end and leave nothing half done; a second finds the
	// default handler and ends at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)

	root := rootCommand(version, schema)
	running := false // errors before a command runs are mistakes of typing
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		running = true
		if err := fromEnvironment(cmd); err != nil {
			return err
		}
		return completeURL(cmd)
	}
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return 0
	}
	if own := (exitError{}); errors.As(err, &own) && own.error == nil {
		return own.status // of a command that was run, which has said what it had to say
	}
	switch {
	case !running: // the library's errors may have lines of their own, of what was typed
		err = usageError{joinLines(err.Error())}
	case errors.Is(err, context.Canceled):
		err = errors.New("interrupted")
	case errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, store.ErrUnavailable):
		err = fmt.Errorf("%w; nobody listens there: start attestd serve, or name another address with --url or ATTESTD_URL", err)
	}
	status, why := exitStatus(err), "attestd: "+printable.Error(err)
	// an argument in the wrong place, which may be a URL with a password
	for _, arg := range os.Args[1:] {
		if store.IsPostgres(arg) {
			why = strings.ReplaceAll(why, arg, store.Name(arg))
		}
	}
	if refused := (*attestd.Error)(nil); errors.As(err, &refused) && refused.Status == http.StatusUnauthorized && refused.Code == "" {
		why += "\n" + unauthorizedHint
	}
	if status == exitUsage {
		why += fmt.Sprintf("\nRun '%s --help' for how to use it.", cmd.CommandPath())
	}
	sayLines(why + "\n")
	return status
}

// joinLines makes an error of each line of a text that is not empty, and one of them all.
func joinLines(text string) error {
	var lines []error
	for line := range strings.SplitSeq(text, "\n") {
		if line != "" {
			lines = append(lines, errors.New(strings.ReplaceAll(line, "\t", "  ")))
		}
	}
	return errors.Join(lines...)
}

// unauthorizedHint is for who presents a credential that the server does not know.
const unauthorizedHint = "The server does not know this credential, or it was deleted or has expired: look at ATTESTD_KEY, ATTESTD_KEY_FILE and --url, " +
	"or run 'attestd help recover-key'."

// say writes to standard error, with everything escaped that the arguments say.
func say(format string, args ...any) { sayLines(printable.Sprintf(format, args...)) }

// sayLines writes to standard error what is escaped already. That may be a pipe that nobody reads:
// the process then ends without its last words.
func sayLines(text string) {
	said := make(chan struct{})
	go func() {
		defer close(said)
		_, _ = os.Stderr.WriteString(text)
	}()
	select {
	case <-said:
	case <-time.After(logPatience):
	}
}

func exitStatus(err error) int {
	var usage usageError
	var own exitError
	var invalid *store.VerifyError
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
	default:
		return exitFailed
	}
}

func rootCommand(version, schema string) *cobra.Command {
	root := &cobra.Command{
		Use:   "attestd",
		Short: "Identity for AI agents, and proof of what they did",
		Long: `attestd gives AI agents an identity and their actions a proof.

It keeps everything in one SQLite file, or in a PostgreSQL database. Start with:  attestd serve

Every flag can also be set in the environment: --base-url is ATTESTD_BASE_URL.
Exit status: 0 done, 1 failed, 2 usage, 3 not found, 4 verification failed,
5 refused or trusted by nobody, 6 database in use, 7 master key missing or wrong, 8 not our database, corrupt,
or of a newer version.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       version,
		// without Args, cobra suggests what an unknown command may mean
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetVersionTemplate("attestd {{.Version}}\n")
	root.SetHelpCommand(helpCommand())
	root.AddCommand(serveCommand(version, schema), recoverKeyCommand(schema), rotateKeyCommand(schema), acceptRollbackCommand(schema), acceptTablesCommand(schema), masterKeyCommand(), rekeyCommand(schema), moveCommand(schema), migrateCommand(), backupCommand(schema), restoreCommand(schema), verifyCommand(schema), companyLogCommand(), checkCommand(), reportCommand(),
		attestCommand(), recordsCommand(), tailCommand(), runCommand(), hookCommand(), initCommand(), mcpCommand(), mcpServerCommand(version), versionCommand(version))
	return root
}

func versionCommand(version string) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		Run: func(cmd *cobra.Command, _ []string) { printable.Fprintf(cmd.OutOrStdout(), "attestd %s\n", version) },
	}
}
