package cmd

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"attestd/agent/hook"
	"attestd/agent/hookevent"
	"attestd/agent/toolcall"
	"attestd/sdk/attestd"
	"attestd/sdk/attestd/private"
	"attestd/sdk/attestd/spool"
)

const (
	// hookPatience is for one answer of the server. Agents give a hook five seconds or more, as
	// `attestd init` writes it.
	hookPatience = 2 * time.Second
	// maxEvent bounds what is read of an event, in bytes.
	maxEvent = 64 << 20
	// exitBlocked is what Claude Code, Gemini CLI and Codex take for: do not call the tool, and let
	// the model read standard error.
	exitBlocked = 2
)

func hookCommand() *cobra.Command {
	var agent, from, redact, require, fail, state string
	cmd := &cobra.Command{
		Use:   "hook",
		Short: "Attest an event of a coding agent, as its command hook",
		Long: `Attest an event of a coding agent. It is for the settings of the agent, which gives the event as JSON on standard input; "attestd init"
writes those of Claude Code (with --command), Gemini CLI and Codex. Nothing of the environment is recorded.

What the server cannot be given now is kept on disk and sent with a later event. A call goes on without the server (--fail open), or is refused (--fail closed).
With --require passport it is refused unless a valid passport of the agent has the scope tool:NAME, tool:* or *; the refusal is recorded.

Exit status 2 refuses the call, with the reason on standard error and on standard output; 1 says that an event could not be recorded, and lets the agent go on.

` + connectionHelp,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			h, err := newHook(from, redact, require, fail)
			if err != nil {
				return err
			}
			if h.Agent = agent; agent == "" {
				h.Agent = string(h.Source)
			}
			answer, err := serveHook(cmd, h, state)
			if _, lost := cmd.OutOrStdout().Write(append(answer.Output, '\n')); lost != nil {
				err = errors.Join(err, lost)
			}
			if answer.Denied == "" {
				return err
			}
			if err != nil {
				say("attestd: %v\n", err)
			}
			say("%s\n", answer.Denied)
			return exitError{exitBlocked, nil}
		},
	}
	urlFlag(cmd)
	agentFlag(cmd, &agent, "")
	cmd.Flags().StringVar(&from, "from", string(hookevent.ClaudeCode), "the `agent` whose hook this is: claude-code, gemini or codex")
	cmd.Flags().StringVar(&redact, "redact", "", "record only the hash of `input,output` or one of them")
	cmd.Flags().StringVar(&require, "require", "", "`passport`: refuse tools that no valid passport of the agent covers")
	cmd.Flags().StringVar(&fail, "fail", "open", "`open` lets calls go on while the server is away, closed refuses them")
	cmd.Flags().StringVar(&state, "state", "", "`folder` of the records that are not sent yet (default: one for each address and credential, in the user's state folder)")
	return cmd
}

// newHook reads the settings of a hook. Each mistake in them is one of typing.
func newHook(from, redact, require, fail string) (h hook.Hook, err error) {
	if h.Source, err = hookevent.ParseSource(from); err != nil {
		return h, usagef("--from: %v", err)
	}
	if h.Policy, err = toolcall.ParseRedaction(redact); err != nil {
		return h, usagef("--redact: %v", err)
	}
	if h.Passport, err = parseRequire(require); err != nil {
		return h, err
	}
	h.Closed, err = parseFail(fail)
	return h, err
}

// parseFail reads what becomes of a call that cannot be recorded: it is refused when closed.
func parseFail(text string) (closed bool, err error) {
	if text != "open" && text != "closed" {
		return false, usagef("--fail: want open or closed, not %q", text)
	}
	return text == "closed", nil
}

// parseRequire reads what a tool needs: a passport, or nothing.
func parseRequire(text string) (passport bool, err error) {
	if text != "" && text != "passport" {
		return false, usagef("--require: want passport, not %q", text)
	}
	return text == "passport", nil
}

// serveHook answers the event on standard input. Without a server or a credential that is settled,
// what must be recorded is refused.
func serveHook(cmd *cobra.Command, h hook.Hook, state string) (hook.Answer, error) {
	err := connectHook(cmd, &h, state)
	body, unread := io.ReadAll(io.LimitReader(cmd.InOrStdin(), maxEvent+1))
	if unread == nil && len(body) > maxEvent {
		unread = fmt.Errorf("the event is longer than %d bytes", maxEvent)
	}
	if err = errors.Join(err, unread); err == nil {
		defer h.Client.Close()
		return h.Answer(cmd.Context(), body)
	}
	return h.Unrecorded(body, err)
}

func connectHook(cmd *cobra.Command, h *hook.Hook, state string) error {
	config, err := connection(cmd)
	if err != nil {
		return err
	}
	config.Timeout, config.Retry = hookPatience, &attestd.Retry{}
	if h.Client, err = attestd.New(config); err != nil {
		return err
	}
	place, err := placeFor(cmd, state)
	if err != nil {
		return err
	}
	if h.Spool, err = spool.Open(filepath.Join(place, "spool"), h.Client); err != nil {
		return err
	}
	h.Spool.FreshKeys = true
	h.Policy.Secret, err = private.Secret(filepath.Join(place, "hook-secret"))
	return err
}
