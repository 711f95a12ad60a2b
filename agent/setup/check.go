package setup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"attestd/chain/action/hookevent"
	"attestd/crypto/strictjson"
	"attestd/sdk/attestd"
)

// checkTool is the tool name in the events of a check. No agent has a tool of this name.
const checkTool = "attestd_check"

// Check runs the hooks in settings as the agent does: with the event before a tool call and, unless
// that is refused, the event after it.
type Check struct {
	Kind    Kind
	URL     string            // the server that the hooks must report to
	Session string            // the session ID of the check, which identifies its records
	Env     map[string]string // the agent's environment beyond that of this process
	// Programs are the paths of the programs that the hooks may run.
	Programs []string
	System   string // as of Hooks
}

// Answer is the answer of a hook.
type Answer struct {
	Event  string
	Denied string // why the call is refused; "" when it is allowed
}

// Run sends the events to the hooks in settings.
func (c Check) Run(ctx context.Context, settings []byte) (answers []Answer, err error) {
	installed, err := c.installed(settings)
	if err != nil {
		return nil, err
	}
	for _, event := range c.Kind.Events[:2] {
		denied, err := c.drive(ctx, installed[event], c.event(event))
		if err != nil {
			return answers, fmt.Errorf("the hook of %s: %w", event, err)
		}
		answers = append(answers, Answer{event, denied})
		if denied != "" {
			break
		}
	}
	return answers, nil
}

// Guard is what becomes of a call whose hook has no program to run.
type Guard struct {
	Asked   bool // the hook asks for the refusal of calls that cannot be recorded
	Refused bool // the call is refused
	How     string
}

// WithoutProgram runs the command of the hook before a call as the agent does, with the name of a
// program that is not there. There is none to run for an HTTP hook.
func (c Check) WithoutProgram(ctx context.Context, settings []byte, version Version) (Guard, error) {
	installed, err := c.installed(settings)
	if err != nil {
		return Guard{}, err
	}
	h := installed[c.Kind.Events[0]]
	if h.Type == "http" {
		return Guard{Asked: h.OnFailure != "", Refused: h.OnFailure != "", How: "its hooks need no program"}, nil
	}
	in := c.Kind.shellOf(c.System)
	run, ok := parseCommand(h.Command, in)
	if !ok {
		return Guard{}, fmt.Errorf("init does not write such a command: %s", shownCommand(h.Command))
	}
	words := slices.Clone(run.words)
	words[0] += "-that-is-missing"
	broken := h
	broken.Command = command{words, run.refuses}.in(in)
	_, denied, err := c.command(ctx, broken, c.event(c.Kind.Events[0]))
	arguments := strings.Join(run.words[1:], " ")
	g := Guard{Asked: strings.Contains(arguments, " --fail closed") || strings.Contains(arguments, " --require ")}
	switch {
	case denied != "":
		g.Refused, g.How = true, "its command ends with 2"
	case h.OnFailure == onFailureBlock && version.AtLeast(OnFailureBlocks):
		g.Refused, g.How = true, "onFailure is block"
	case err == nil:
		g.How = "its command ends with 0"
	default:
		g.How = "its command ends with " + strings.SplitN(err.Error(), ":", 2)[0]
	}
	return g, nil
}

// installed returns the hook of attestd for each event, which are all of the form that init writes.
func (c Check) installed(settings []byte) (map[string]hook, error) {
	_, hooks, err := parseHooks(settings)
	if err != nil {
		return nil, err
	}
	installed := map[string]hook{}
	for _, event := range c.Kind.Events {
		found, err := ownHooks(hooks.get(event, "[]"))
		if err != nil {
			return nil, fmt.Errorf("hooks: %s: %w", event, err)
		}
		if len(found) != 1 {
			return nil, fmt.Errorf("%d hooks of attestd for %s, want 1: attestd init %s --write installs them", len(found), event, c.Kind.Source)
		}
		if err := c.trusted(found[0]); err != nil {
			return nil, fmt.Errorf("the hook of %s: %w", event, err)
		}
		installed[event] = found[0]
	}
	return installed, nil
}

// ownHooks returns attestd's hooks among the groups of an event.
func ownHooks(groups []byte) (found []hook, err error) {
	list, err := parseGroups(groups)
	for _, group := range list {
		g, bad := parse(group)
		if bad != nil {
			return nil, bad
		}
		bad = strictjson.EachElement(g.get("hooks", "[]"), maxDepth, func(text []byte) {
			if h, is := parseOwnHook(text); is {
				found = append(found, h)
			}
		})
		err = errors.Join(err, bad)
	}
	return found, err
}

// event returns the event that the agent sends for a call.
func (c Check) event(name string) []byte {
	event := map[string]any{
		"session_id": c.Session, "hook_event_name": name, "tool_name": checkTool,
		"tool_input": map[string]string{"note": "attestd init --check"},
	}
	if c.Kind.Source != hookevent.Gemini { // Gemini's calls have no IDs
		event["tool_use_id"] = c.Session
	}
	if name != c.Kind.Events[0] {
		event["tool_response"] = map[string]string{"note": "no tool was called"}
	}
	return marshal(event)
}

// drive sends an event to a hook and parses the answer.
func (c Check) drive(ctx context.Context, h hook, event []byte) (denied string, err error) {
	patience := time.Duration(h.Timeout) * time.Second / time.Duration(c.Kind.unit)
	if patience <= 0 {
		patience = timeout * time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var answer []byte
	if h.Type == "http" {
		answer, err = c.post(ctx, h, event)
	} else {
		answer, denied, err = c.command(ctx, h, event)
	}
	if err != nil || denied != "" {
		return denied, err
	}
	if string(bytes.TrimSpace(answer)) == hookevent.Proceed {
		return "", nil
	}
	if bytes.Contains(answer, []byte(`"deny"`)) {
		return string(bytes.TrimSpace(answer)), nil
	}
	return "", fmt.Errorf("not the answer of an attestd hook: %.200q", answer)
}

// post sends the event as the agent does, with the variables that the hook allows in its headers.
func (c Check) post(ctx context.Context, h hook, event []byte) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, h.URL, bytes.NewReader(event))
	if err != nil {
		return nil, errors.New("its URL is invalid")
	}
	request.Header.Set("Content-Type", "application/json")
	for name, value := range h.Headers {
		request.Header.Set(name, os.Expand(value, func(variable string) string {
			if !slices.Contains(h.AllowedEnvVars, variable) {
				return ""
			}
			if own := os.Getenv(variable); own != "" {
				return own
			}
			return c.Env[variable]
		}))
	}
	answer, err := (&http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}).Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 64<<10))
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("the server returned status %d: %.200q", answer.StatusCode, text)
	}
	return text, err
}

// hookDenies is the exit status of a command hook that refuses a call.
const hookDenies = 2

// command runs the hook as the agent does, in a shell.
func (c Check) command(ctx context.Context, h hook, event []byte) (answer []byte, denied string, err error) {
	cmd := exec.CommandContext(ctx, "sh", "-c", h.Command)
	switch c.Kind.shellOf(c.System) {
	case powerShell:
		cmd = exec.CommandContext(ctx, "powershell.exe", "-NoProfile", "-NonInteractive", "-Command", h.Command+"; if ($LASTEXITCODE -ne 0) { exit $LASTEXITCODE }")
	case anyWindows:
		cmd = exec.CommandContext(ctx, "cmd", "/C", h.Command)
	}
	var stderr bytes.Buffer
	cmd.Stdin, cmd.Stderr, cmd.WaitDelay = bytes.NewReader(event), &stderr, time.Second
	answer, err = cmd.Output()
	if exited := (*exec.ExitError)(nil); errors.As(err, &exited) && exited.ExitCode() == hookDenies {
		return answer, strings.TrimSpace(stderr.String()), nil
	}
	if err != nil {
		err = fmt.Errorf("%w: %s", err, strings.TrimSpace(stderr.String()))
	}
	return answer, "", err
}

// Records returns the records of the check, among those with index since or higher.
func (c Check) Records(ctx context.Context, service *attestd.Client, since int64) (found []attestd.Record, err error) {
	for r, err := range service.Records(ctx, attestd.Range{Log: attestd.Actions, From: since}) {
		if err != nil {
			return found, err
		}
		text, err := r.MarshalJSON()
		if err != nil {
			return found, err
		}
		if bytes.Contains(text, []byte(`"sessionId":"`+c.Session+`"`)) {
			found = append(found, r)
		}
	}
	return found, nil
}

// NeedsKey reports whether settings have HTTP hooks of attestd, which read the key from the agent's
// environment.
func NeedsKey(settings []byte) bool { return bytes.Contains(settings, []byte(hookPath)) }

// trusted refuses hooks that init has not written. Settings are part of a project, so anyone may
// have written them. A check runs only this program, and sends the credential only to its own
// server.
func (c Check) trusted(h hook) error {
	server := h.URL
	if h.Type != "http" {
		run, ok := parseCommand(h.Command, c.Kind.shellOf(c.System))
		if !ok || h.CommandWindows != "" && h.CommandWindows != h.Command {
			return fmt.Errorf("init does not write such a command, so it was not run: %s", shownCommand(h.Command))
		}
		words := run.words
		if err := c.checkProgram(words[0]); err != nil {
			return err
		}
		at := slices.Index(words, "--url")
		if len(words) < 2 || words[1] != "hook" || at < 0 || at == len(words)-1 {
			return fmt.Errorf("init does not write such a command, so it was not run: %s", shownCommand(h.Command))
		}
		server = words[at+1]
	} else if address, err := url.Parse(server); err == nil {
		address.RawQuery = ""
		server = strings.TrimSuffix(address.String(), hookPath)
	}
	there, err := attestd.New(attestd.Config{URL: server})
	if err != nil || there.URL() != c.URL {
		return fmt.Errorf("it reports to %s, but this check uses %s: set the server with --url", server, c.URL)
	}
	return nil
}

// checkProgram returns an error unless a name refers to one of the programs that the hooks may run.
func (c Check) checkProgram(name string) error {
	found, err := exec.LookPath(name)
	if err != nil {
		return fmt.Errorf("its program was not found: %w", err)
	}
	there, err := os.Stat(found)
	if err != nil {
		return err
	}
	for _, own := range c.Programs {
		if here, err := os.Stat(own); err == nil && os.SameFile(there, here) {
			return nil
		}
	}
	return fmt.Errorf("it runs %s, which is not this program (%s), so it was not run; use that program to check its own hooks", found, strings.Join(c.Programs, ", "))
}
