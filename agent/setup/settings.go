// Package setup sets up the recording of a coding agent: the hooks in its settings, and its
// registration on the server.
package setup

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"attestd/chain/action/hookevent"
	"attestd/crypto/strictjson"
	"attestd/internal/lazyregexp"
)

// Hooks are the hooks of a coding agent that report its tool calls to attestd.
type Hooks struct {
	Source     hookevent.Source
	URL        string // of the server
	Agent      string // whose calls are recorded
	Redact     string // input, output or both; see action.ParseRedaction
	Passport   bool   // a tool requires a passport
	FailClosed bool   // refuse a call that cannot be recorded

	// Command is the program whose hook command runs for each event. If it is "", the agent sends
	// events to the server by HTTP.
	Command string
	// System is where the agent runs, as runtime.GOOS names it. Some have another shell on Windows.
	System string
}

const (
	hookPath = "/v1/hooks/claude-code"
	timeout  = 5 // seconds that an agent waits for an answer
)

// hook is an entry of the settings.
type hook struct {
	Type           string            `json:"type"`
	URL            string            `json:"url,omitempty"`
	Command        string            `json:"command,omitempty"`
	CommandWindows string            `json:"commandWindows,omitempty"`
	Timeout        int               `json:"timeout"`
	OnFailure      string            `json:"onFailure,omitempty"`
	Headers        map[string]string `json:"headers,omitempty"`
	AllowedEnvVars []string          `json:"allowedEnvVars,omitempty"`
}

// group returns attestd's entry for an event. It contains no secret, only the name of the variable
// that the agent expands.
func (h Hooks) group(event string) []byte {
	kind := kindOf(h.Source)
	of := hook{
		Type: "http", URL: h.address(), Timeout: timeout * kind.unit,
		Headers: map[string]string{"Authorization": "Bearer $ATTESTD_KEY"}, AllowedEnvVars: []string{"ATTESTD_KEY"},
	}
	if h.Command != "" {
		of = hook{Type: "command", Timeout: timeout * kind.unit}
		run := command{words: h.words()}
		// The hook must not be the only one who can refuse: it may be gone, or hang.
		run.refuses = h.Refuses() && event == kind.Events[0]
		if of.Command = run.in(kind.shellOf(h.System)); kind.shellOf(h.System) == anyWindows {
			of.CommandWindows = of.Command
		}
	}
	if h.Refuses() && event == kind.Events[0] && kind.OnFailure {
		of.OnFailure = onFailureBlock
	}
	return marshal(struct {
		Matcher string `json:"matcher"`
		Hooks   []hook `json:"hooks"`
	}{kind.matcher, []hook{of}})
}

// onFailureBlock has Claude Code refuse a call when its hook cannot be started, hangs or fails.
const onFailureBlock = "block"

// Refuses reports whether the hooks refuse a call that cannot be recorded.
func (h Hooks) Refuses() bool { return h.FailClosed || h.Passport }

// Lacks says what the agent does all the same when these hooks ask for a refusal and cannot answer;
// "" for nothing.
func (h Hooks) Lacks(version Version) string {
	kind := kindOf(h.Source)
	hangs := fmt.Sprintf("has no setting for a hook that does not answer in %d s: it goes on with the call. attestd hook answers in 4 s, unless its program hangs before that", timeout)
	switch {
	case !h.Refuses() || kind.OnFailure && version.AtLeast(OnFailureBlocks):
		return ""
	case kind.OnFailure && h.Command == "":
		return "" // such hooks were chosen because the version is known to refuse
	case kind.OnFailure && version == "":
		hangs = "of an unknown version may be older than " + string(OnFailureBlocks) + ", and then " + hangs
	case kind.OnFailure:
		hangs = string(version) + " is older than " + string(OnFailureBlocks) + ", and " + hangs
	}
	return kind.Title + " " + hangs
}

func (h Hooks) address() string {
	query := url.Values{"agent": {h.Agent}}
	if h.Passport {
		query.Set("require", "passport")
	}
	if h.Redact != "" {
		query.Set("redact", h.Redact)
	}
	if h.FailClosed {
		query.Set("fail", "closed")
	}
	return strings.TrimRight(h.URL, "/") + hookPath + "?" + query.Encode()
}

// words are the program and the arguments of the hook.
func (h Hooks) words() []string {
	words := []string{h.Command, "hook"}
	// Claude Code is the default of --from.
	if source := kindOf(h.Source).Source; source != hookevent.ClaudeCode {
		words = append(words, "--from", string(source))
	}
	words = append(words, "--agent", h.Agent, "--url", h.URL)
	if h.Passport {
		words = append(words, "--require", "passport")
	}
	if h.Redact != "" {
		words = append(words, "--redact", h.Redact)
	}
	if h.FailClosed {
		words = append(words, "--fail", "closed")
	}
	return words
}

// marshal encodes a value as JSON without HTML escapes. The value MUST be encodable.
func marshal(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err)
	}
	return bytes.TrimSpace(b.Bytes())
}

// Settings returns settings with the hooks only.
func (h Hooks) Settings() []byte {
	settings, err := h.Merge(nil)
	if err != nil {
		panic(err)
	}
	return settings
}

// Merge adds the hooks to settings, which may be empty, and replaces earlier hooks of attestd.
// Other members keep their order and spelling; only white space may change. Settings that are not
// one JSON object, or have hooks of an unknown form, are an error.
func (h Hooks) Merge(settings []byte) ([]byte, error) {
	if len(bytes.TrimSpace(settings)) == 0 {
		settings = []byte("{}")
	}
	all, hooks, err := parseHooks(settings)
	if err != nil {
		return nil, err
	}
	for _, event := range kindOf(h.Source).Events {
		groups, err := without(hooks.get(event, "[]"))
		if err != nil {
			return nil, fmt.Errorf("hooks: %s: %w", event, err)
		}
		hooks.set(event, array(append(groups, h.group(event))))
	}
	all.set("hooks", hooks.bytes())
	return indented(all)
}

// parseHooks returns the members of settings and those of their hooks, which may be absent.
func parseHooks(settings []byte) (all, hooks object, err error) {
	if all, err = parse(settings); err != nil {
		return all, hooks, err
	}
	if hooks, err = parse(all.get("hooks", "{}")); err != nil {
		return all, hooks, fmt.Errorf("hooks: %w", err)
	}
	return all, hooks, nil
}

// Remove removes attestd's hooks from settings, and then the lists and members that are empty.
// found reports whether there were any; settings without them are returned unchanged.
func Remove(settings []byte) (rest []byte, found bool, err error) {
	all, hooks, err := parseHooks(settings)
	if err != nil {
		return nil, false, err
	}
	for _, m := range slices.Clone(hooks.members) {
		if len(m.value) == 0 || m.value[0] != '[' {
			continue // not a list of hooks
		}
		groups, err := without(m.value)
		if err != nil {
			return nil, false, fmt.Errorf("hooks: %s: %w", m.name, err)
		}
		switch has, err := parseGroups(m.value); {
		case err != nil:
			return nil, false, err
		case bytes.Equal(array(has), array(groups)):
			continue
		case len(groups) == 0:
			hooks.remove(m.name)
		default:
			hooks.set(m.name, array(groups))
		}
		found = true
	}
	if !found {
		return settings, false, nil
	}
	if len(hooks.members) == 0 {
		all.remove("hooks")
	} else {
		all.set("hooks", hooks.bytes())
	}
	rest, err = indented(all)
	return rest, true, err
}

func parseGroups(text []byte) (groups [][]byte, err error) {
	err = strictjson.EachElement(text, maxDepth, func(group []byte) { groups = append(groups, group) })
	return groups, err
}

func indented(o object) ([]byte, error) {
	var b bytes.Buffer
	if err := json.Indent(&b, o.bytes(), "", "  "); err != nil {
		return nil, err
	}
	return append(b.Bytes(), '\n'), nil
}

// without returns the groups of an event without attestd's hooks, and without groups that had
// nothing else.
func without(groups []byte) (rest [][]byte, err error) {
	each := strictjson.EachElement(groups, maxDepth, func(group []byte) {
		if err != nil {
			return
		}
		var g object
		if g, err = parse(group); err != nil {
			return
		}
		var others [][]byte
		ours := 0
		if bad := strictjson.EachElement(g.get("hooks", "[]"), maxDepth, func(hook []byte) {
			if isOurs(hook) {
				ours++
			} else {
				others = append(others, hook)
			}
		}); bad != nil {
			err = bad
			return
		}
		switch {
		case ours == 0:
			rest = append(rest, group)
		case len(others) > 0:
			g.set("hooks", array(others))
			rest = append(rest, g.bytes())
		}
	})
	return rest, errors.Join(each, err)
}

// ourCommand matches the hook command of attestd under any name of the program.
var ourCommand = lazyregexp.New(`attestd(-agent)?(\.exe)?['"]? hook( |$)| hook (--from [a-z-]+ )?--agent \S+ --url `)

// isOurs reports whether this package has written a hook.
func isOurs(text []byte) bool {
	_, is := asOurs(text)
	return is
}

func asOurs(text []byte) (h hook, is bool) {
	if json.Unmarshal(text, &h) != nil {
		return h, false
	}
	address, err := url.Parse(h.URL)
	return h, err == nil && strings.HasSuffix(address.Path, hookPath) || ourCommand().MatchString(shownCommand(h.Command))
}
