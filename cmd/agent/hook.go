package agent

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"attestd/agent/approval"
	"attestd/agent/hook"
	"attestd/agent/setup"
	"attestd/chain/action"
	"attestd/chain/action/hookevent"
	"attestd/cmd/cli"
	"attestd/internal/printable"
	"attestd/sdk/attestd"
	"attestd/sdk/attestd/private"
	"attestd/sdk/attestd/spool"
)

const (
	// hookTimeout is the time limit for one response of the server. Agents give a hook five seconds
	// or more in the settings that `attestd init` writes.
	hookTimeout = 2 * time.Second
	// maxEvent is the largest size of an event, in bytes.
	maxEvent = 64 << 20
	// maxHashed is how much of a larger event is read for its hash, in bytes.
	maxHashed = 256 << 20
	// exitBlocked tells Claude Code, Gemini CLI and Codex not to call the tool, and to show
	// standard error to the model.
	exitBlocked = 2
)

func hookCommand() *cobra.Command {
	var agent, from, redact, require, fail, state string
	var askWait, timeout time.Duration
	cmd := &cobra.Command{
		Use:   "hook",
		Short: "Attest an event of a coding agent, as its command hook",
		Long: `Attest an event of a coding agent. The agent runs this command as a hook and writes the event
as JSON to its standard input. "attestd init" writes the settings for Claude Code (with
--command), Gemini CLI and Codex. The environment is not recorded, and no variable sets what is
recorded, where, and what is refused: those flags are always typed.

If the server cannot be reached, the event is stored on disk and sent with a later one. The
tool call then continues (--fail open) or is refused (--fail closed). With --require passport
it is refused unless a valid passport of the agent has the scope tool:NAME, tool:* or *, and with
--require policy unless the server has decided that it is allowed; passport,policy requires both.
The refusal is recorded. A call that needs an approval waits for it (--ask-wait), but for 8 s less
than the agent waits for the hook (--timeout), and is refused then: the agent may repeat it when
it is approved. All of them also refuse an event that the agent named by --from does not
send.

Exit status 2 refuses the call, with the reason on standard error and standard output. Exit
status 1 means that an event could not be recorded; the agent continues. Other failures, a wrong
flag too, end with 2 under --fail closed and --require, and otherwise with 1. An answer
takes 4 s at most, and 4 s more than the wait for an approval.

A session of signed records is a session of the coding agent.

` + agentHelp,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			h, err := newHook(from, redact, require, fail)
			if err != nil {
				return err
			}
			if h.Agent = agent; agent == "" {
				h.Agent = string(h.Source)
			}
			if h.AskWait, err = hookWait(askWait, timeout); err != nil {
				return err
			}
			if guard, ok := cmd.OutOrStdout().(*hookGuard); ok {
				h.Extend = guard.extend
			}
			if names := ignoredVariables(cmd); len(names) > 0 {
				h.Alarms = append(h.Alarms, "attestd hook reads no variable for what it records and refuses; "+
					"these are ignored, so write the flags into its command: "+strings.Join(names, ", "))
				warnOf(errors.New(h.Alarms[0]))
			}
			answer, err := serveHook(cmd, h, state)
			if _, lost := cmd.OutOrStdout().Write(append(answer.Output, '\n')); lost != nil {
				err = errors.Join(err, lost)
			}
			if answer.Denied == "" {
				return err
			}
			if err != nil {
				cli.PrintError("attestd: %v\n", err)
			}
			cli.PrintError("%s\n", answer.Denied)
			return cli.ExitError{Status: exitBlocked}
		},
	}
	cli.URLFlag(cmd)
	cli.AgentFlag(cmd, &agent, "")
	cmd.Flags().StringVar(&from, "from", string(hookevent.ClaudeCode),
		"the `agent` that runs this hook: claude-code, gemini or codex")
	cmd.Flags().StringVar(&redact, "redact", "", "record only the hash of `input,output` or one of them")
	cmd.Flags().StringVar(&require, "require", "",
		"`what` a tool requires: passport, a valid passport of the agent for it; policy, a decision that allows it; or passport,policy")
	cmd.Flags().StringVar(&fail, "fail", "open",
		"when the server is unreachable, `open` allows calls and closed refuses them")
	askWaitFlag(cmd, &askWait)
	cmd.Flags().DurationVar(&timeout, "timeout", setup.HookTimeout, "for how long the agent waits for this hook, as its settings say")
	cmd.Flags().StringVar(&state, "state", "",
		"`folder` of unsent records (default: one for each address and credential, in the user's state folder)")
	// A project's settings may set variables for the hooks of its user. They may say how the server
	// is reached. The command alone says what is recorded, where, and what is refused.
	cli.TypeOnly(cmd, "url", "ca-file")
	return cmd
}

// askWaitFlag adds the flag for how long a call waits for its approval.
func askWaitFlag(cmd *cobra.Command, wait *time.Duration) {
	cmd.Flags().DurationVar(wait, "ask-wait", approval.DefaultWait, "for how long a call that needs an approval waits for it; 0 refuses it at once")
}

// hookWait returns for how long a hook waits for an approval. What it does before and after fits
// into the time that the agent gives it, also where that is short, as in settings of earlier
// versions: an agent may call the tool when it has no answer by then.
func hookWait(askWait, timeout time.Duration) (time.Duration, error) {
	if askWait < 0 || timeout < 0 {
		return 0, cli.Usagef("--ask-wait and --timeout must not be negative")
	}
	return max(0, min(askWait, timeout-2*hookDeadline)), nil
}

// ignoredVariables lists the variables that would set a flag which is always typed, and was not.
// Who set them believes that something else is recorded or refused than is.
func ignoredVariables(cmd *cobra.Command) (names []string) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Annotations[cli.TypedOnly] == nil || f.Changed {
			return
		}
		for _, name := range cli.EnvironmentNames(f.Name) {
			if os.Getenv(name) != "" {
				names = append(names, name+" (--"+f.Name+")")
			}
		}
	})
	return names
}

// newHook parses the flags of a hook. Every error is a usage error.
func newHook(from, redact, require, fail string) (h hook.Hook, err error) {
	if h.Source, err = hookevent.ParseSource(from); err != nil {
		return h, cli.Usagef("--from: %v", err)
	}
	if h.Policy, err = action.ParseRedaction(redact); err != nil {
		return h, cli.Usagef("--redact: %v", err)
	}
	if h.Passport, h.Decided, err = parseRequire(require); err != nil {
		return h, err
	}
	h.Policy.Decided = h.Decided
	h.FailClosed, err = parseFail(fail)
	return h, err
}

// parseFail parses --fail. closed refuses a call that cannot be recorded.
func parseFail(text string) (closed bool, err error) {
	if text != "open" && text != "closed" {
		return false, cli.Usagef("--fail must be open or closed, got %q", text)
	}
	return text == "closed", nil
}

// parseRequire parses --require.
func parseRequire(text string) (passport, decided bool, err error) {
	if passport, decided, err = hookevent.ParseRequire(text); err != nil {
		err = cli.Usagef("--require %v, got %q", err, text)
	}
	return passport, decided, err
}

// serveHook answers the event on standard input. Without a server or a credential, it refuses the
// calls that must be recorded.
func serveHook(cmd *cobra.Command, h hook.Hook, state string) (hook.Answer, error) {
	err := connectHook(cmd, &h, state)
	body, unread := io.ReadAll(io.LimitReader(cmd.InOrStdin(), maxEvent+1))
	if err = errors.Join(err, unread); err == nil {
		defer h.Client.Close()
		if len(body) > maxEvent {
			return oversized(cmd, h, body)
		}
		return h.Answer(cmd.Context(), body)
	}
	return h.Unrecorded(body, err)
}

// oversized answers an event that is larger than a hook reads. The rest of it is hashed and
// dropped.
func oversized(cmd *cobra.Command, h hook.Hook, begin []byte) (hook.Answer, error) {
	sum := sha256.New()
	_, _ = sum.Write(begin) // it never fails
	rest, err := io.CopyN(sum, cmd.InOrStdin(), maxHashed-int64(len(begin)))
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if err != nil {
		return h.Unrecorded(nil, err)
	}
	n := int64(len(begin)) + rest
	return h.Oversized(cmd.Context(), sum.Sum(nil), n, n < maxHashed)
}

func connectHook(cmd *cobra.Command, h *hook.Hook, state string) error {
	alarm := func(err error) {
		warnOf(err)
		h.Alarms = append(h.Alarms, err.Error())
	}
	at, err := findConnection(cmd, h.Agent, state, alarm)
	if err != nil {
		return err
	}
	at.Timeout, at.Retry = hookTimeout, &attestd.Retry{}
	if h.Client, err = attestd.New(at.Config); err != nil {
		return err
	}
	h.Identity = at.identity
	openHookFolder(h, at, alarm)
	if h.Passport && at.identity != nil {
		reader, err := cli.Connection(cmd) // an agent's token lists nothing
		if err != nil {
			return fmt.Errorf("--require passport needs an API key of the role reader: %w", err)
		}
		reader.Timeout, reader.Retry = hookTimeout, &attestd.Retry{}
		if h.Reader, err = attestd.New(reader); err != nil {
			return err
		}
	}
	return nil
}

// openHookFolder opens the folder of unsent records. While the server can be reached, an event is
// recorded without it too: on a full disk, or where another user may write to the folder.
func openHookFolder(h *hook.Hook, at agentConnection, alarm func(error)) {
	h.Policy.Secret = make([]byte, 32)
	_, _ = rand.Read(h.Policy.Secret) // it never fails
	if at.unusable != nil {
		h.WithoutSpool(at.unusable)
		return
	}
	queue, err := spool.Open(filepath.Join(at.folder, "spool"), h.Client)
	if err != nil {
		h.WithoutSpool(err)
		return
	}
	h.Policy.Mask = at.maskKey(alarm)
	queue.FreshKeys, queue.Patience = true, hook.Patience
	h.Spool, h.Ends, h.Subagents = queue, filepath.Join(at.folder, "ends"), filepath.Join(at.folder, "subagents")
	secret, err := private.Secret(filepath.Join(at.folder, "hook-secret"))
	if err != nil {
		h.WithoutSpool(err)
		return
	}
	h.Policy.Secret = secret
}

// A hook answers in hookDeadline after its start, whatever it waits for: agents wait five seconds
// or more, and most call the tool when there is no answer by then. hookWork is when it stops to
// wait for the server, so that there is time to store the event.
const (
	hookDeadline = 4 * time.Second
	hookWork     = 3 * time.Second
)

// hookGuard sees to it that a hook ends as --fail says, also where its command line cannot be
// parsed, and where something that it opens, locks or reads never answers. It writes the hook's
// standard output: what comes first is the answer, that of the hook or that of the guard.
type hookGuard struct {
	refuses bool // the command line asks for the refusal of what cannot be recorded
	out     io.Writer

	mu       sync.Mutex
	answered bool
	deadline *time.Timer // calls expire

	parent context.Context // of the hook's; it ends with a signal
}

// isHook reports whether a command line is one of `attestd hook`.
func isHook(args []string) bool {
	for _, arg := range args {
		if !strings.HasPrefix(arg, "-") {
			return arg == "hook"
		}
	}
	return false
}

// refusesUnrecorded reports whether a command line of hook, also one that cannot be parsed, asks
// for the refusal of a call that cannot be recorded. Whatever --fail has but open, and whatever
// --require has, counts as that, and so does the value after a misspelt flag.
func refusesUnrecorded(args []string) bool {
	for i, arg := range args {
		name, value, has := strings.Cut(arg, "=")
		if !has && i+1 < len(args) {
			value = args[i+1]
		}
		switch {
		case refusing(arg), has && refusing(value):
			return true
		case name == "--fail" && value != "open", name == "--require":
			return true
		}
	}
	return false
}

// refusing reports whether a text is a value of --fail or --require that has calls refused.
func refusing(value string) bool {
	passport, decided, err := hookevent.ParseRequire(value)
	return value == "closed" || err == nil && (passport || decided)
}

// GuardHook begins the time of a hook, and returns nil for another command. The context that it
// returns ends when the hook must have asked the server.
func GuardHook(ctx context.Context, args []string) (context.Context, *cli.Guard) {
	if !isHook(args) {
		return ctx, nil
	}
	g := &hookGuard{refuses: refusesUnrecorded(args), out: os.Stdout, parent: ctx}
	g.deadline = time.AfterFunc(hookDeadline, g.expire)
	ctx, cancel := context.WithTimeout(ctx, hookWork)
	context.AfterFunc(ctx, cancel)
	return ctx, &cli.Guard{Out: g, Status: g.statusOf}
}

// extend begins the time of a hook anew, that much longer, unless it is over. The call that waits
// is one that its decision refuses, so what ends the hook refuses it too.
func (g *hookGuard) extend(by time.Duration) (context.Context, context.CancelFunc) {
	if g.deadline.Stop() {
		g.mu.Lock()
		g.refuses = true
		g.mu.Unlock()
		g.deadline.Reset(by + hookDeadline)
	}
	return context.WithTimeout(g.parent, by+hookWork)
}

// Write writes the answer of the hook, unless the guard has answered.
func (g *hookGuard) Write(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.answered = true
	return g.out.Write(p)
}

// expire answers in place of a hook that has not, and ends the process.
func (g *hookGuard) expire() {
	g.mu.Lock() // for good: nothing is written after this
	if g.answered {
		g.mu.Unlock()
		return
	}
	why := "attestd: this event was not recorded within " + hookDeadline.String()
	if g.refuses {
		why += ", so the call is refused"
	}
	why += ". Something that attestd hook reads or locks does not answer: its standard input, or a file in its folders"
	cli.WriteStderr(printable.Text(why) + "\n")
	os.Exit(g.status())
}

// status is the exit status of a hook that has not answered: that of a refusal, or one with which
// agents go on.
func (g *hookGuard) status() int {
	if g.refuses {
		return exitBlocked
	}
	return cli.ExitFailed
}

// statusOf is the exit status of a hook that has ended with an error: the agent goes on with a call
// that the hook has answered.
func (g *hookGuard) statusOf() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.answered {
		return cli.ExitFailed
	}
	return g.status()
}
