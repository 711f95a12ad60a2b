package agent

import (
	"cmp"
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
	"time"

	"github.com/spf13/cobra"

	"attestd/agent/mcpproxy"
	"attestd/chain/action"
	"attestd/cmd/cli"
)

// mcpFlags are the flags of `attestd mcp`.
type mcpFlags struct {
	agent, fail, require, server, redact, state, record string
	askWait                                             time.Duration
	passport                                            passportFlags
	remote                                              remoteFlags
}

// What `attestd mcp` records. No variable says it, because a project's settings set variables.
const (
	recordAll   = "all"
	recordCalls = "calls"
)

func mcpCommand() *cobra.Command { return new(mcpFlags).command() }

func (f *mcpFlags) command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "mcp [flags] -- COMMAND [ARGUMENT…]",
		Short: "Run an MCP server and attest each call of its tools",
		Long: `Run an MCP server that uses standard input and output, as a proxy between it and its client, and
attest each tools/call and its outcome. Put this command in front of the server's command in
the client's settings. The proxy forwards messages unchanged in every revision of the protocol,
forwards signals and the exit status, leaves standard error alone and opens no port. It does
not pass ATTESTD_KEY to the server.

` + remoteHelp + `

With --fail open, the proxy forwards a call when its record is synced to the spool on this
machine. With --fail closed, it waits until attestd has acknowledged the record. If attestd
is unreachable it refuses the call and tells the agent why. Records in the spool, also those
of earlier runs, are sent when attestd is reachable.

With --passport, a tool can be called only while the passport is valid and has the scope
tool:NAME, tool:* or *. The file is read again when it changes. The proxy verifies the
signature with the company's key from attestd, and asks at most every 30 s whether the
passport is revoked. While attestd is unreachable the last status counts, unless --fail
closed is set.

A call that needs an approval by a person waits for it (--ask-wait) and is refused then: once it is
approved, the same call again is allowed. Meanwhile the client gets progress, if it asks for that.

Other messages are recorded with hashes of their content, after they were forwarded: what the
client reads with resources/read and prompts/get, and what the server asks and says, such as
sampling, progress and log messages. --record calls leaves them out.

A session of signed records is one connection of a client.

` + agentHelp,
		Args: func(cmd *cobra.Command, args []string) error {
			if f.remote.upstream == "" {
				if err := cobra.MinimumNArgs(1)(cmd, args); err != nil {
					return err
				}
			}
			return f.remote.check(args)
		},
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	cmd.Flags().SetInterspersed(false) // flags after COMMAND belong to COMMAND
	cli.URLFlag(cmd)
	cli.AgentFlag(cmd, &f.agent, "")
	cmd.Flags().StringVar(&f.fail, "fail", "open",
		"when attestd is unreachable, `open` allows calls and closed refuses them")
	cmd.Flags().StringVar(&f.require, "require", "", "`what` a call requires: policy, a decision of attestd that allows it; passport, one by the passport of --passport; or passport,policy")
	cmd.Flags().StringVar(&f.record, "record", recordAll, "`all` messages, or calls of tools alone")
	_ = cmd.Flags().SetAnnotation("record", cli.TypedOnly, []string{"true"}) // the flag is there
	cmd.Flags().StringVar(&f.server, "server", "",
		"`name` of the server in the records (default: the name of the command, or the host of --upstream)")
	cmd.Flags().StringVar(&f.state, "state", "",
		"`folder` of unsent records (default: one for each address and credential, in the user's state folder)")
	cmd.Flags().StringVar(&f.redact, "redact", "", "record only the hash of `input,output` or one of them")
	askWaitFlag(cmd, &f.askWait)
	f.passport.add(cmd)
	f.remote.add(cmd)
	return cmd
}

// acceptsMCP returns why `attestd mcp` would not start with these arguments, the first of which is
// its name, and these variables.
func acceptsMCP(args []string, environment map[string]string) error {
	var f mcpFlags
	cmd := f.command()
	if err := cmd.ParseFlags(args[1:]); err != nil {
		return err
	}
	if err := cmd.ValidateArgs(cmd.Flags().Args()); err != nil {
		return err
	}
	_, err := f.remote.remote(func(name string) string { return environment[name] })
	return err
}

func (f *mcpFlags) run(cmd *cobra.Command, args []string) error {
	closed, err := parseFail(f.fail)
	if err != nil {
		return err
	}
	policy, err := action.ParseRedaction(f.redact)
	if err != nil {
		return cli.Usagef("--redact: %v", err)
	}
	needsPassport, decided, err := parseRequire(f.require)
	if err != nil {
		return err
	}
	if needsPassport && f.passport.file == "" {
		return cli.Usagef("--require passport needs --passport, the file with the agent's passport")
	}
	decided = decided || needsPassport
	if f.record != recordAll && f.record != recordCalls {
		return cli.Usagef("--record must be all or calls, got %q", f.record)
	}
	if f.askWait < 0 {
		return cli.Usagef("--ask-wait must not be negative")
	}
	if err := f.passport.check(); err != nil {
		return err
	}
	remote, err := f.remote.remote(os.Getenv)
	if err != nil {
		return err
	}
	if f.agent == "" {
		f.agent = cmp.Or(f.passport.agent(), "mcp")
	}
	at, c, err := connectAs(cmd, f.agent, f.state)
	if err != nil {
		return err
	}
	defer c.Close()
	queue, err := at.openSpool()
	if err != nil {
		return err
	}
	warn := func(text string) { cli.PrintError("attestd: %s\n", text) }
	policy.Mask, policy.Decided = at.maskKey(warnOf), decided
	config := mcpproxy.Config{Agent: f.agent, Server: f.server, Policy: policy, FailClosed: closed, Decided: decided, Warn: warn,
		Signed: at.identity != nil, CallsOnly: f.record == recordCalls, AskWait: f.askWait, Approvals: c}
	switch {
	case config.Server != "":
	case remote != nil:
		config.Server = remote.URL.Hostname()
	default:
		config.Server = filepath.Base(args[0])
	}
	if err := f.passport.gate(cmd.Context(), at, &config); err != nil {
		return err
	}
	recorder := mcpproxy.NewSpooled(c, queue, warn)
	// A session of signed records has its own place in the spool.
	begin := func(session string) (mcpproxy.Recorder, error) {
		if at.identity == nil {
			return recorder, nil
		}
		s, err := queue.Session(at.identity, session)
		if err != nil {
			return nil, err
		}
		return recorder.In(s), nil
	}
	sending, stop := context.WithCancel(context.Background())
	var sender sync.WaitGroup
	sender.Go(func() { recorder.Send(sending) })
	defer sender.Wait()
	defer stop()
	debug.SetGCPercent(proxyGCPercent)
	if f.remote.listen != "" {
		return f.remote.listenAndServe(cmd, config, remote, begin)
	}
	config.Session = mcpproxy.NewSession()
	if config.Recorder, err = begin(config.Session); err != nil {
		return err
	}
	if remote != nil {
		return mcpproxy.New(config).ServeRemote(cmd.Context(), remote, os.Stdin, os.Stdout)
	}
	return serveMCP(config, args)
}

// proxyGCPercent limits the growth of a proxy's heap, which is a megabyte or two, between
// collections.
const proxyGCPercent = 25

// serveMCP runs the server and returns its exit status as an error, unless that is 0.
func serveMCP(config mcpproxy.Config, args []string) error {
	// The session ends when the server does. Signals are forwarded to the server.
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, forwardedSignals...)
	defer signal.Stop(signals)
	// With a listener, a write to a closed client is an error; without one, it ends this process.
	gone := make(chan os.Signal, 1)
	signal.Notify(gone, syscall.SIGPIPE)
	defer signal.Stop(gone)

	server := exec.Command(args[0], args[1:]...)
	server.Stderr = os.Stderr
	server.Env = withoutCredential(os.Environ())
	status, err := mcpproxy.New(config).Serve(context.Background(), server, os.Stdin, os.Stdout, signals)
	switch {
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return cli.ExitError{Status: 127, Err: err} // as in a shell
	case errors.Is(err, fs.ErrPermission):
		return cli.ExitError{Status: 126, Err: err}
	case err == nil && status != 0:
		return cli.ExitError{Status: status}
	}
	return err
}

// withoutCredential returns the environment without the credential, for programs of others.
func withoutCredential(environment []string) (rest []string) {
	for _, variable := range environment {
		if !strings.HasPrefix(variable, "ATTESTD_KEY=") {
			rest = append(rest, variable)
		}
	}
	return rest
}
