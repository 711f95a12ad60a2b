package cmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"attestd/agent/run"
	"attestd/sdk/attestd"
	"attestd/sdk/attestd/spool"
)

// lastFlush is how long a run whose command has ended tries to send what it has queued.
const lastFlush = 10 * time.Second

func runCommand() *cobra.Command {
	var agent, fail, folder string
	var git bool
	cmd := &cobra.Command{
		Use:   "run --agent ID [flags] -- COMMAND [ARGUMENT…]",
		Short: "Run a command, and attest its start, its end and its commits",
		Long: `Run a command and attest that it began (run.started) and how it ended (run.ended): exit status or signal, and how long it took. With --git also each commit
that was made meanwhile in the repository of this folder (git.commit): hash, author, subject. Secrets in the arguments are masked as far as
their form shows them; the environment is never recorded.

The command's input, output and errors are its own; signals are handed on, and so is the exit status: 127 if there is no such command,
128 and the number of a signal that ended it.

What happens is queued on this machine, synced to disk, and sent from there. With --fail closed the command begins only when attestd has its start.

` + connectionHelp,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case agent == "":
				return usagef("--agent must say in whose name the command runs")
			case fail != "open" && fail != "closed":
				return usagef("--fail must be open or closed, got %q", fail)
			}
			c, err := connect(cmd)
			if err != nil {
				return err
			}
			defer c.Close()
			queue, err := openQueue(cmd, folder)
			if err != nil {
				return err
			}
			config := run.Config{Agent: agent, Command: args, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
			if git {
				config.Git = "."
			}
			// Not the command's context: a signal is for the one that we run.
			status, err := runAttested(context.Background(), config, queue, fail == "closed", c)
			if err != nil {
				say("attestd: %v\n", err)
			}
			if status != 0 {
				return exitError{status, nil}
			}
			return nil
		},
	}
	cmd.Flags().SetInterspersed(false) // what follows the command is the command's
	urlFlag(cmd)
	agentFlag(cmd, &agent, "")
	cmd.Flags().StringVar(&fail, "fail", "open", "`open` runs the command while attestd is away, closed does not")
	cmd.Flags().BoolVar(&git, "git", false, "attest the commits that are made meanwhile")
	cmd.Flags().StringVar(&folder, "state", "", "`folder` of the records that are not sent yet (default: one for each address and credential, in the user's state folder)")
	return cmd
}

// openQueue opens the spool of the server and the credential. What it sends it sends once: the
// spool itself is what tries again.
func openQueue(cmd *cobra.Command, folder string) (*spool.Spool, error) {
	place, err := placeFor(cmd, folder)
	if err != nil {
		return nil, err
	}
	config, err := connection(cmd)
	if err != nil {
		return nil, err
	}
	config.Retry = &attestd.Retry{}
	c, err := attestd.New(config)
	if err != nil {
		return nil, usageError{err}
	}
	queue, err := spool.Open(filepath.Join(place, "spool"), c)
	if err == nil {
		queue.FreshKeys = true
	}
	return queue, err
}

// runAttested runs a command, and sends what it queues while it runs and at its end.
func runAttested(ctx context.Context, config run.Config, queue *spool.Spool, closed bool, c *attestd.Client) (int, error) {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, handedOn...)
	defer signal.Stop(signals)
	config.Signals = signals
	config.Terminal = term.IsTerminal(int(os.Stdin.Fd()))

	queued := make(chan struct{}, 1)
	started := false
	config.Keep = func(ctx context.Context, a attestd.Attestation) error {
		if closed && !started {
			_, err := c.AttestDerived(ctx, a)
			started = err == nil
			return err
		}
		// full, or its disk fails: then attestd must take it at once
		if err := queue.Add(ctx, a); err != nil {
			_, sent := c.AttestDerived(ctx, a)
			if sent != nil {
				return errors.Join(err, sent)
			}
		}
		select {
		case queued <- struct{}{}:
		default:
		}
		return nil
	}
	sending, stop := context.WithCancel(ctx)
	var sender sync.WaitGroup
	sender.Go(func() {
		var later <-chan time.Time // what waits for the rate limit can be sent on
		for {
			select {
			case <-queued:
			case <-later:
			case <-sending.Done():
				return
			}
			var limited *spool.LimitedError
			later = nil
			// what could not be sent is sent at the end, or by the next run
			if err := queue.Flush(sending); errors.As(err, &limited) {
				later = time.After(limited.After)
			}
		}
	})
	status, err := run.Run(ctx, config)
	stop()
	sender.Wait()
	last, cancel := context.WithTimeout(ctx, lastFlush)
	defer cancel()
	if failed := queue.Flush(last); failed != nil {
		err = errors.Join(err, fmt.Errorf("%d records wait in %s: %w", queue.Pending(), queue.Dir(), failed))
	}
	return status, err
}
