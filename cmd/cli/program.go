// Package cli runs a program of commands: it sets their flags from the environment, says what is
// wrong with a command line, and ends with the status that scripts branch on. What commands of all
// programs share is here too: how they find the server and the credential, and how they read files
// that give rights.
package cli

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"attestd/internal/printable"
	"attestd/sdk/attestd"
)

// Exit statuses. They are part of the interface: scripts branch on them.
const (
	ExitFailed    = 1
	ExitUsage     = 2
	ExitNotFound  = 3
	ExitInvalid   = 4 // verification failed
	ExitRefused   = 5
	ExitInUse     = 6
	ExitMasterKey = 7 // missing, or not the one that sealed the database
	ExitDatabase  = 8 // not an attestd database, corrupt, or of a newer version
	// attestd doctor has warnings and no failure, or attestd verify wrong counts of bytes alone
	ExitWarnings = 9
	ExitFailures = 10
)

// UsageError is a mistake in the command line.
type UsageError struct{ Err error }

func (e UsageError) Error() string { return e.Err.Error() }

func (e UsageError) Unwrap() error { return e.Err }

// Usagef returns a UsageError.
func Usagef(format string, args ...any) error { return UsageError{Err: fmt.Errorf(format, args...)} }

// ExitError is an error with an exit status of its own. Without Err the command has explained it.
type ExitError struct {
	Status int
	Err    error
}

func (e ExitError) Error() string {
	if e.Err == nil {
		return ""
	}
	return e.Err.Error()
}

func (e ExitError) Unwrap() error { return e.Err }

// Program is a tree of commands, and what is special in how they are run.
type Program struct {
	Root *cobra.Command
	// Settings sets the flags that are absent from the command line. nil sets them from the
	// environment alone.
	Settings func(*cobra.Command) error
	// Status returns the exit status of an error that is the program's own, and 0 for others. nil
	// if it has none.
	Status func(error) int
	// Shown returns an argument without secrets. nil if arguments have none.
	Shown func(arg string) string
	// Named returns a text with the program's own name for its commands. nil if they are attestd's.
	Named func(string) string
	// Guard returns what watches over a command that must answer in time, and nil for others.
	Guard func(ctx context.Context, args []string) (context.Context, *Guard)
}

// Root returns the command of a program, to which its commands are added. long is its help.
func Root(name, version, short, long string) *cobra.Command {
	showVersion := false
	root := &cobra.Command{
		Use: name, Short: short, Long: long,
		SilenceErrors: true, SilenceUsage: true,
		Args: cobra.NoArgs, // explainArguments says which command an unknown one may mean
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !showVersion {
				return cmd.Help()
			}
			printVersion(cmd, version)
			return nil
		},
	}
	// cobra prints a version by a template, and templates make a program half as large again.
	root.Flags().BoolVarP(&showVersion, "version", "v", false, "version for "+name)
	_ = root.Flags().SetAnnotation("version", TypedOnly, []string{"true"}) // the flag is there
	root.SetHelpCommand(helpCommand())
	root.SetFlagErrorFunc(unknownFlag)
	return root
}

// Guard watches over a command whose answer decides something.
type Guard struct {
	Out io.Writer // takes the command's answer
	// Status returns the exit status of a command that has ended with an error.
	Status func() int
}

// Run executes the command line of the process and returns its exit status.
func (p *Program) Run() int {
	// The first signal asks a command to end cleanly. A second one meets the default handler, which
	// ends the process at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)

	root := p.Root
	explainArguments(root)
	ctx, guard := p.Guard(ctx, os.Args[1:])
	output := &stdout{}
	root.SetOut(output)
	if guard != nil {
		root.SetOut(guard.Out)
	}
	running := false // errors before a command runs are usage errors
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		running = true
		if asksForAll(cmd) {
			return nil // also where a setting is wrong
		}
		settings := p.Settings
		if settings == nil {
			settings = func(cmd *cobra.Command) error { return FromEnvironment(cmd.Flags()) }
		}
		if err := settings(cmd); err != nil {
			return err
		}
		if err := trustCA(cmd); err != nil {
			return err
		}
		return completeURL(cmd)
	}
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		err = output.lost()
	}
	if err == nil {
		return 0
	}
	if own := (ExitError{}); errors.As(err, &own) && own.Err == nil {
		return own.Status // of the command that attestd ran; its own output explains it
	}
	switch {
	case !running: // cobra's errors may have several lines, with arguments in them
		err = UsageError{Err: joinLines(explainValue(err).Error())}
	case errors.Is(err, context.Canceled):
		err = errors.New("interrupted")
	case errors.Is(err, syscall.ECONNREFUSED) && cmd.Flag("url") != nil:
		err = fmt.Errorf("%w; no server listens there: start attestd serve, or set another address with --url or ATTESTD_URL", err)
	}
	if authority := (x509.UnknownAuthorityError{}); errors.As(err, &authority) && cmd.Flag("ca-file") != nil {
		err = fmt.Errorf("%w; if it is a CA of your own, name it with --ca-file or ATTESTD_CA_FILE", err)
	}
	status := p.exitStatus(err)
	usage := status == ExitUsage
	if usage && running {
		err = WithPlaces(cmd.Flags(), err)
	}
	if guard != nil {
		status = guard.Status()
	}
	why := printable.Error(err)
	if p.Named != nil {
		why = p.Named(why)
	}
	why = root.Name() + ": " + why
	if p.Shown != nil {
		for _, arg := range os.Args[1:] { // a misplaced one may have a secret
			why = strings.ReplaceAll(why, arg, p.Shown(arg))
		}
	}
	if refused := (*attestd.Error)(nil); errors.As(err, &refused) && !refused.Foreign && refused.Status == http.StatusUnauthorized && refused.Code == "" {
		why += "\n" + unauthorizedHint
	}
	if usage {
		why += fmt.Sprintf("\nRun '%s --help' for usage.", cmd.CommandPath())
	}
	WriteStderr(why + "\n")
	return status
}

// stdout is the standard output. It remembers the first error of a write, so that a command whose
// output is lost does not end as one that has succeeded.
type stdout struct {
	mu  sync.Mutex
	err error
}

func (o *stdout) Write(text []byte) (int, error) {
	n, err := os.Stdout.Write(text)
	if err != nil && !errors.Is(err, syscall.EPIPE) { // a reader that closes a pipe has read enough
		o.mu.Lock()
		o.err = cmp.Or(o.err, err)
		o.mu.Unlock()
	}
	return n, err
}

func (o *stdout) lost() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		return fmt.Errorf("the output is lost: %w", o.err)
	}
	return nil
}

func (p *Program) exitStatus(err error) int {
	var usage UsageError
	var own ExitError
	switch {
	case errors.As(err, &own):
		return own.Status
	case errors.As(err, &usage):
		return ExitUsage
	}
	if p.Status != nil {
		if status := p.Status(err); status != 0 {
			return status
		}
	}
	return ExitFailed
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

// stderrPatience is how long a process waits for the reader of its standard error. It is long,
// because a command of low priority on a busy machine waits for its turn to write.
const stderrPatience = 10 * time.Second

// unauthorizedHint is printed when the server rejects the credential.
const unauthorizedHint = "The credential is unknown to this server, deleted or expired. Check ATTESTD_KEY, ATTESTD_KEY_FILE and --url, " +
	"or run 'attestd help recover-key'."

// PrintError writes to standard error and escapes the arguments.
func PrintError(format string, args ...any) { WriteStderr(printable.Sprintf(format, args...)) }

// WriteStderr writes escaped text to standard error. That may be a pipe without a reader, so the
// process waits stderrPatience at most and then ends without the text.
func WriteStderr(text string) {
	written := make(chan struct{})
	go func() {
		defer close(written)
		_, _ = os.Stderr.WriteString(text)
	}()
	select {
	case <-written:
	case <-time.After(stderrPatience):
	}
}
