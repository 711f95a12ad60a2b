package cmd

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/cobra"

	"attestd/agent/mcpproxy"
	"attestd/agent/toolcall"
)

func mcpCommand() *cobra.Command {
	var agent, fail, server, redact, state string
	var passport passportFlags
	cmd := &cobra.Command{
		Use:   "mcp [flags] -- COMMAND [ARGUMENT…]",
		Short: "Run an MCP server and attest each call of its tools",
		Long: `Run an MCP server that speaks over standard input and output, stand between it and its client, and attest each tools/call and its outcome.
Put it in front of the server's command in the client's settings. Messages go on unchanged in every revision of the protocol; signals and
the exit status are handed on, standard error is left alone, no port is opened. ATTESTD_KEY is not handed on to the server.

A call goes on once its record is synced in the spool on this machine (--fail open), or acknowledged by attestd (--fail closed: without attestd the
call is refused, and the agent reads why). Records in the spool are sent on when attestd is there, also those of earlier runs.

With --passport a tool is called only while the passport is valid and has the scope tool:NAME, tool:* or *. The file is read again when it
changes. Its signature is checked here, with the company's key from attestd; whether it is revoked is asked at most every 30 s, and
what was answered last counts while attestd is away (with --fail closed, nothing does).

` + connectionHelp,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			closed, err := parseFail(fail)
			if err != nil {
				return err
			}
			policy, err := toolcall.ParseRedaction(redact)
			if err != nil {
				return usagef("--redact: %v", err)
			}
			if err := passport.check(); err != nil {
				return err
			}
			c, err := connect(cmd)
			if err != nil {
				return err
			}
			defer c.Close()
			queue, err := openQueue(cmd, state)
			if err != nil {
				return err
			}
			warn := func(text string) { say("attestd: %s\n", text) }
			config := mcpproxy.Config{Agent: agent, Server: server, Policy: policy, FailClosed: closed, Warn: warn}
			if config.Server == "" {
				config.Server = filepath.Base(args[0])
			}
			if err := passport.gate(cmd, filepath.Dir(queue.Dir()), &config); err != nil {
				return err
			}
			if config.Agent == "" {
				config.Agent = "mcp"
			}
			recorder := mcpproxy.NewSpooled(c, queue, warn)
			config.Recorder = recorder
			return serveMCP(config, recorder, args)
		},
	}
	cmd.Flags().SetInterspersed(false) // what follows the command is the command's
	urlFlag(cmd)
	agentFlag(cmd, &agent, "")
	cmd.Flags().StringVar(&fail, "fail", "open", "`open` lets calls go on while attestd is away, closed refuses them")
	cmd.Flags().StringVar(&server, "server", "", "`name` of the server in the records (default: that of the command)")
	cmd.Flags().StringVar(&state, "state", "", "`folder` of the records that are not sent yet (default: one for each address and credential, in the user's state folder)")
	cmd.Flags().StringVar(&redact, "redact", "", "record only the hash of `input,output` or one of them")
	passport.add(cmd)
	return cmd
}

// proxyGCPercent makes the garbage collector keep the heap of a proxy, a megabyte or two, from
// doubling before each collection.
const proxyGCPercent = 25

// serveMCP runs the server and returns its exit status as an error, unless that is 0.
func serveMCP(config mcpproxy.Config, recorder *mcpproxy.Spooled, args []string) error {
	debug.SetGCPercent(proxyGCPercent)
	// The session ends when the server does. A signal is the server's to heed.
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, handedOn...)
	defer signal.Stop(signals)
	// with a listener, writing to a client that is gone is an error, and not the end of this
	// process
	gone := make(chan os.Signal, 1)
	signal.Notify(gone, syscall.SIGPIPE)
	defer signal.Stop(gone)

	sending, stop := context.WithCancel(context.Background())
	var sender sync.WaitGroup
	sender.Go(func() { recorder.Send(sending) })
	defer sender.Wait()
	defer stop()

	server := exec.Command(args[0], args[1:]...)
	server.Stderr = os.Stderr
	server.Env = withoutCredential(os.Environ())
	status, err := mcpproxy.New(config).Serve(context.Background(), server, os.Stdin, os.Stdout, signals)
	switch {
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return exitError{127, err} // as a shell says it
	case errors.Is(err, fs.ErrPermission):
		return exitError{126, err}
	case err == nil && status != 0:
		return exitError{status, nil}
	}
	return err
}

// withoutCredential is an environment for a command that is no part of this program.
func withoutCredential(environment []string) (rest []string) {
	for _, variable := range environment {
		if !strings.HasPrefix(variable, "ATTESTD_KEY=") {
			rest = append(rest, variable)
		}
	}
	return rest
}
