package setup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"

	"attestd/agent/hookevent"
	"attestd/crypto/strictjson"
	"attestd/sdk/attestd"
)

// checkTool is the tool that a check says was called. No agent has one of this name.
const checkTool = "attestd_check"

// Check drives the hooks that stand in settings as the agent does: with the event before a call of
// a tool and, unless that is refused, the one after.
type Check struct {
	Kind    Kind
	URL     string            // of the server that the hooks must report to
	Session string            // by which the records of the check are found
	Env     map[string]string // what the agent has beside the environment of this process
}

// Answer is what a hook has answered.
type Answer struct {
	Event  string
	Denied string // why the call is refused, "" where it goes on
}

// Run reports the events to the hooks in settings.
func (c Check) Run(ctx context.Context, settings []byte) (answers []Answer, err error) {
	all, err := parse(settings)
	if err != nil {
		return nil, err
	}
	hooks, err := parse(all.get("hooks", "{}"))
	if err != nil {
		return nil, fmt.Errorf("hooks: %w", err)
	}
	installed := map[string]hook{}
	for _, event := range c.Kind.Events {
		found, err := ours(hooks.get(event, "[]"))
		if err != nil {
			return nil, fmt.Errorf("hooks: %s: %w", event, err)
		}
		if len(found) != 1 {
			return nil, fmt.Errorf("%d hooks of attestd for %s, want 1: attestd init %s --write puts them there", len(found), event, c.Kind.Source)
		}
		if err := c.trusted(found[0]); err != nil {
			return nil, fmt.Errorf("the hook of %s: %w", event, err)
		}
		installed[event] = found[0]
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

// ours are the hooks of ours among the groups of an event.
func ours(groups []byte) (found []hook, err error) {
	list, err := parseGroups(groups)
	for _, group := range list {
		g, bad := parse(group)
		if bad != nil {
			return nil, bad
		}
		bad = strictjson.EachElement(g.get("hooks", "[]"), maxDepth, func(text []byte) {
			if h, is := asOurs(text); is {
				found = append(found, h)
			}
		})
		err = errors.Join(err, bad)
	}
	return found, err
}

// event is what the agent sends of a call.
func (c Check) event(name string) []byte {
	event := map[string]any{"session_id": c.Session, "hook_event_name": name, "tool_name": checkTool, "tool_input": map[string]string{"note": "attestd init --check"}}
	if c.Kind.Source != hookevent.Gemini { // whose calls have no IDs
		event["tool_use_id"] = c.Session
	}
	if name != c.Kind.Events[0] {
		event["tool_response"] = map[string]string{"note": "no tool was called"}
	}
	return marshal(event)
}

// drive gives a hook an event and reads its answer.
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
	return "", fmt.Errorf("it answers what no hook of attestd does: %.200q", answer)
}

// post asks as the agent does, with the variables that the hook allows in its headers.
func (c Check) post(ctx context.Context, h hook, event []byte) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, h.URL, bytes.NewReader(event))
	if err != nil {
		return nil, errors.New("its address cannot be read")
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
		err = fmt.Errorf("the server answers %d: %.200q", answer.StatusCode, text)
	}
	return text, err
}

// hookDenies is the exit status of a command hook that refuses a call.
const hookDenies = 2

// command runs the hook as the agent does, in a shell.
func (c Check) command(ctx context.Context, h hook, event []byte) (answer []byte, denied string, err error) {
	shell := []string{"sh", "-c"}
	if runtime.GOOS == "windows" {
		shell = []string{"cmd", "/C"}
	}
	cmd := exec.CommandContext(ctx, shell[0], append(shell[1:], h.Command)...)
	var said bytes.Buffer
	cmd.Stdin, cmd.Stderr, cmd.WaitDelay = bytes.NewReader(event), &said, time.Second
	answer, err = cmd.Output()
	if exited := (*exec.ExitError)(nil); errors.As(err, &exited) && exited.ExitCode() == hookDenies {
		return answer, strings.TrimSpace(said.String()), nil
	}
	if err != nil {
		err = fmt.Errorf("%w: %s", err, strings.TrimSpace(said.String()))
	}
	return answer, "", err
}

// Records are those of the check among what was recorded since the log had that many.
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

// NeedsKey says whether hooks of ours in settings take the key from the agent's environment.
func NeedsKey(settings []byte) bool { return bytes.Contains(settings, []byte(hookPath)) }
