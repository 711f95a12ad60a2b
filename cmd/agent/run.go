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

	"attestd/agent/run"
	"attestd/cmd/cli"
	"attestd/internal/wake"
	"attestd/sdk/attestd"
	"attestd/sdk/attestd/spool"
)

// lastFlush is the time limit for sending the queued records after the command has ended.
const lastFlush = 10 * time.Second

func runCommand() *cobra.Command {
	var agent, fail, folder string
	var git bool
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
the command starts only after attestd has acknowledged the record of its start.

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
			config.Mask = at.maskKey(warnOf)
			if git {
				config.Git = "."
			}
			// This is not cmd's context, because signals are for the child process.
			status, err := runAttested(context.Background(), config, queue, fail == "closed", c, at.identity)
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
	cmd.Flags().BoolVar(&git, "git", false, "attest the commits made meanwhile")
	cmd.Flags().StringVar(&folder, "state", "", "`folder` of unsent records (default: one for each address and credential, in the user's state folder)")
	return cmd
}

// acknowledged returns when the service has recorded the attestation.
func acknowledged(ctx context.Context, c *attestd.Client, session *spool.Session, a attestd.Attestation) (err error) {
	if session != nil {
		_, err = session.AttestNow(ctx, a)
	} else {
		_, err = c.AttestDerived(ctx, a)
	}
	return err
}

// runAttested runs a command, and sends queued records while it runs and after its end.
func runAttested(ctx context.Context, config run.Config, queue *spool.Spool, closed bool, c *attestd.Client, identity *attestd.Identity) (int, error) {
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
		if closed && !started {
			err := acknowledged(ctx, c, session, a)
			started = err == nil
			return err
		}
		if session != nil {
			if err := session.Add(ctx, a); err != nil {
				return err
			}
		} else if err := queue.Add(ctx, a); err != nil {
			// When the spool is full or its disk fails, send the record directly.
			if sent := acknowledged(ctx, c, nil, a); sent != nil {
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
