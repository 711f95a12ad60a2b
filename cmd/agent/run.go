package agent

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"attestd/agent/approval"
	"attestd/agent/run"
	"attestd/cmd/cli"
	"attestd/internal/wake"
	"attestd/sdk/attestd"
	"attestd/sdk/attestd/spool"
)

// lastFlush is the time limit for sending the queued records after the command has ended.
const lastFlush = 10 * time.Second

func runCommand() *cobra.Command {
	var agent, fail, require, folder string
	var git bool
	var askWait time.Duration
	cmd := &cobra.Command{
		Use:   "run --agent ID [flags] -- COMMAND [ARGUMENT…]",
		Short: "Run a command, and attest its start, its end and its commits",
		Long: `Run a command and attest its start (run.started) and its end (run.ended) with the exit status
or signal and the duration. With --git, also attest each commit made meanwhile in the
repository of this folder (git.commit): hash, author, subject. Secrets in the arguments are
masked if their form is recognised. The environment is never recorded.

The command keeps its standard input, output and error. Signals are forwarded, and the exit
status is the command's: 127 if it does not exist, 128 plus the number of a signal that ended it.

Records are queued on this machine, synced to disk, and sent from there. With --fail closed,
the command starts only after attestd has acknowledged the record of its start. With
--require policy, it starts only if the policies allow a call of the tool run with the command.
Where that needs an approval by a person, it waits for one (--ask-wait), and does not start
without: once it is approved, the same command again does.

A session of signed records is one run.

` + agentHelp,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case agent == "":
				return cli.Usagef("--agent is required: the ID of the agent that runs the command")
			case fail != "open" && fail != "closed":
				return cli.Usagef("--fail must be open or closed, got %q", fail)
			}
			if require != "" && require != "policy" {
				return cli.Usagef("--require must be policy, got %q", require)
			}
			if askWait < 0 {
				return cli.Usagef("--ask-wait must not be negative")
			}
			at, c, err := connectAs(cmd, agent, folder)
			if err != nil {
				return err
			}
			defer c.Close()
			queue, err := at.openSpool()
			if err != nil {
				return err
			}
			config := run.Config{Agent: agent, Command: args, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
			config.Mask, config.Decided = at.maskKey(warnOf), require != ""
			if git {
				config.Git = "."
			}
			// This is not cmd's context, because signals are for the child process.
			start := starting{closed: fail == "closed", decided: require != "", askWait: askWait}
			status, err := runAttested(context.Background(), config, queue, start, c, at.identity)
			if err != nil {
				cli.PrintError("attestd: %v\n", err)
			}
			if status != 0 {
				return cli.ExitError{Status: status}
			}
			return nil
		},
	}
	cmd.Flags().SetInterspersed(false) // flags after COMMAND belong to COMMAND
	cli.URLFlag(cmd)
	cli.AgentFlag(cmd, &agent, "")
	cmd.Flags().StringVar(&fail, "fail", "open", "when attestd is unreachable, `open` runs the command and closed does not")
	cmd.Flags().StringVar(&require, "require", "", "`policy`: do not run the command unless attestd has decided that it is allowed")
	askWaitFlag(cmd, &askWait)
	cmd.Flags().BoolVar(&git, "git", false, "attest the commits made meanwhile")
	cmd.Flags().StringVar(&folder, "state", "", "`folder` of unsent records (default: one for each address and credential, in the user's state folder)")
	return cmd
}

// acknowledged returns when the service has recorded the attestation, and the decision that the
// record holds; nil for none.
func acknowledged(ctx context.Context, c *attestd.Client, session *spool.Session, a attestd.Attestation) (*attestd.Decision, error) {
	if session != nil {
		r, err := session.AttestNow(ctx, a)
		return r.Payload.Decision, err
	}
	r, err := c.AttestDerived(ctx, a)
	return r.Payload.Decision, err
}

// starting is what a command needs to start.
type starting struct {
	closed, decided bool // an acknowledged record of the start, and a decision that allows it
	askWait         time.Duration
}

// allow returns when attestd has decided that a command may start, and else why it may not. A
// signal ends the wait for an approval.
func (s *starting) allow(ctx context.Context, c *attestd.Client, session *spool.Session, a attestd.Attestation, signals <-chan os.Signal) error {
	a.Decide = true
	a.Folder, _ = os.Getwd() // "" is unknown
	made, err := acknowledged(ctx, c, session, a)
	if err != nil {
		return err
	}
	if made == nil {
		return errors.New("attestd has not decided it")
	}
	waiting, stop := context.WithTimeout(ctx, s.askWait)
	defer stop()
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-signals:
			stop()
		case <-waiting.Done():
		}
	}()
	key := a.IdempotencyKey
	refused := approval.Await(waiting, c, made, func(id string) (*attestd.Decision, error) {
		a.IdempotencyKey = key + ":" + id
		return acknowledged(ctx, c, session, a)
	})
	stop()
	<-done
	if refused != "" {
		return &run.RefusedError{Reason: refused}
	}
	return nil
}

// runAttested runs a command, and sends queued records while it runs and after its end.
func runAttested(ctx context.Context, config run.Config, queue *spool.Spool, start starting, c *attestd.Client, identity *attestd.Identity) (int, error) {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, forwardedSignals...)
	defer signal.Stop(signals)
	config.Signals = signals
	config.Terminal = term.IsTerminal(int(os.Stdin.Fd()))

	queued := wake.NewSignal()
	started := false
	var session *spool.Session
	config.ID, config.Signed = rand.Text(), identity != nil
	if identity != nil {
		var err error
		if session, err = queue.Session(identity, config.ID); err != nil {
			return 1, err
		}
	}
	config.Record = func(ctx context.Context, a attestd.Attestation) error {
		if start.decided && a.ActionType == run.Started {
			return start.allow(ctx, c, session, a, signals)
		}
		if start.closed && !started {
			_, err := acknowledged(ctx, c, session, a)
			started = err == nil
			return err
		}
		if session != nil {
			if err := session.Add(ctx, a); err != nil {
				return err
			}
		} else if err := queue.Add(ctx, a); err != nil {
			// When the spool is full or its disk fails, send the record directly.
			if _, sent := acknowledged(ctx, c, nil, a); sent != nil {
				return errors.Join(err, sent)
			}
		}
		queued.Set()
		return nil
	}
	sending, stop := context.WithCancel(ctx)
	var sender sync.WaitGroup
	sender.Go(func() {
		var retry <-chan time.Time // fires when the rate limit allows the next record
		for {
			select {
			case <-queued:
			case <-retry:
			case <-sending.Done():
				return
			}
			var limited *spool.LimitedError
			retry = nil
			// Records that could not be sent are sent after the end, or by the next run.
			if err := queue.Flush(sending); errors.As(err, &limited) {
				retry = time.After(limited.After)
			}
		}
	})
	status, err := run.Run(ctx, config)
	stop()
	sender.Wait()
	last, cancel := context.WithTimeout(ctx, lastFlush)
	defer cancel()
	if failed := queue.Flush(last); failed != nil {
		err = errors.Join(err, fmt.Errorf("%d records are unsent in %s: %w", queue.Pending(), queue.Dir(), failed))
	}
	return status, err
}
