// Package setup sets up the recording of a coding agent: the hooks in its settings, and its
// registration on the server.
package setup

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"attestd/chain/action/hookevent"
	"attestd/crypto/strictjson"
	"attestd/internal/atomicfile"
	"attestd/internal/lazyregexp"
)

// Hooks are the hooks of a coding agent that report its tool calls to attestd.
type Hooks struct {
	Source     hookevent.Source
	URL        string // of the server
	Agent      string // whose calls are recorded
	Redact     string // input, output or both; see action.ParseRedaction
	Passport   bool   // a tool requires a passport
	Decided    bool   // a tool requires a decision that allows it
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
	// the same before a call, which may wait for an approval: of a command hook, of an HTTP hook
	askTimeout     = 315
	askTimeoutHTTP = 60
	// askWaitHTTP is for how many seconds the server holds the answer to such an HTTP hook.
	askWaitHTTP = 55
)

// HookTimeout is for how long an agent waits for a hook whose command says nothing else.
const HookTimeout = timeout * time.Second

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
	asks := event == kind.Events[0]
	of := hook{
		Type: "http", URL: h.address(asks), Timeout: h.timeout(asks) * kind.unit,
		Headers: map[string]string{"Authorization": "Bearer $ATTESTD_KEY"}, AllowedEnvVars: []string{"ATTESTD_KEY"},
	}
	if h.Command != "" {
		of = hook{Type: "command", Timeout: h.timeout(asks) * kind.unit}
		run := command{words: h.words(asks)}
		// The hook must not be the only one who can refuse: it may be gone, or hang.
		run.refuses = h.Refuses() && asks
		if of.Command = run.in(kind.shellOf(h.System)); kind.shellOf(h.System) == anyWindows {
			of.CommandWindows = of.Command
		}
	}
	if h.Refuses() && asks && kind.OnFailure {
		of.OnFailure = onFailureBlock
	}
	return marshal(struct {
		Matcher string `json:"matcher"`
		Hooks   []hook `json:"hooks"`
	}{kind.matcher, []hook{of}})
}

// timeout returns for how many seconds the agent waits for the answer of a hook, of one that runs
// before a call or of another. It waits for approvals only where calls need a decision: for any
// other a longer time would delay each call while the server, or the hook, hangs.
func (h Hooks) timeout(asks bool) int {
	switch {
	case asks && h.Decided && h.Command != "":
		return askTimeout
	case asks && h.Decided:
		return askTimeoutHTTP
	}
	return timeout
}

// onFailureBlock has Claude Code refuse a call when its hook cannot be started, hangs or fails.
const onFailureBlock = "block"

// Refuses reports whether the hooks refuse a call that cannot be recorded.
func (h Hooks) Refuses() bool { return h.FailClosed || h.Passport || h.Decided }

// Lacks says what the agent does all the same when these hooks ask for a refusal and cannot answer;
// "" for nothing.
func (h Hooks) Lacks(version Version) string {
	kind := kindOf(h.Source)
	hangs := fmt.Sprintf("has no setting for a hook that does not answer in %d s: it goes on with the call. attestd hook answers before that, unless its program hangs", h.timeout(true))
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

func (h Hooks) address(asks bool) string {
	query := url.Values{"agent": {h.Agent}}
	if required := h.required(); required != "" {
		query.Set("require", required)
	}
	if h.Redact != "" {
		query.Set("redact", h.Redact)
	}
	if h.FailClosed {
		query.Set("fail", "closed")
	}
	if asks && h.Decided {
		query.Set("askWait", strconv.Itoa(askWaitHTTP))
	}
	return strings.TrimRight(h.URL, "/") + hookPath + "?" + query.Encode()
}

// required is what --require says; "" for nothing.
func (h Hooks) required() string {
	switch {
	case h.Passport && h.Decided:
		return "passport,policy"
	case h.Passport:
		return "passport"
	case h.Decided:
		return "policy"
	}
	return ""
}

// words are the program and the arguments of a hook. asks is whether it runs before a call.
func (h Hooks) words(asks bool) []string {
	words := []string{h.Command, "hook"}
	// Claude Code is the default of --from.
	if source := kindOf(h.Source).Source; source != hookevent.ClaudeCode {
		words = append(words, "--from", string(source))
	}
	words = append(words, "--agent", h.Agent, "--url", h.URL)
	if required := h.required(); required != "" {
		words = append(words, "--require", required)
	}
	if h.Redact != "" {
		words = append(words, "--redact", h.Redact)
	}
	if h.FailClosed {
		words = append(words, "--fail", "closed")
	}
	if asks && h.Decided {
		words = append(words, "--timeout", strconv.Itoa(askTimeout)+"s")
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
		var remaining [][]byte
		removed := 0
		if bad := strictjson.EachElement(g.get("hooks", "[]"), maxDepth, func(hook []byte) {
			if isOwnHook(hook) {
				removed++
			} else {
				remaining = append(remaining, hook)
			}
		}); bad != nil {
			err = bad
			return
		}
		switch {
		case removed == 0:
			rest = append(rest, group)
		case len(remaining) > 0:
			g.set("hooks", array(remaining))
			rest = append(rest, g.bytes())
		}
	})
	return rest, errors.Join(each, err)
}

// attestdCommand matches the hook command of attestd under any name of the program.
var attestdCommand = lazyregexp.New(`attestd(-agent)?(\.exe)?['"]? hook( |$)| hook (--from [a-z-]+ )?--agent \S+ --url `)

// isOwnHook reports whether this package has written a hook.
func isOwnHook(text []byte) bool {
	_, is := parseOwnHook(text)
	return is
}

func parseOwnHook(text []byte) (h hook, is bool) {
	if json.Unmarshal(text, &h) != nil {
		return h, false
	}
	address, err := url.Parse(h.URL)
	return h, err == nil && strings.HasSuffix(address.Path, hookPath) || attestdCommand().MatchString(shownCommand(h.Command))
}

// Write merges the hooks into a settings file and creates a missing one. It does not change a file
// that already has the hooks or cannot be parsed.
func (h Hooks) Write(file string) (changed bool, err error) {
	path, mode := followed(file)
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	merged, err := h.Merge(old)
	if err != nil {
		return false, fmt.Errorf("%s was not changed: %w", file, err)
	}
	if bytes.Equal(merged, old) {
		return false, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return false, err
	}
	return true, atomicfile.Replace(path, merged, mode)
}

// RemoveFrom removes attestd's hooks from a settings file. It deletes a file that has nothing else,
// and then its folder if that is empty.
func RemoveFrom(file string) (found bool, err error) {
	path, mode := followed(file)
	old, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	rest, found, err := Remove(old)
	if err != nil {
		return false, fmt.Errorf("%s was not changed: %w", file, err)
	}
	if !found {
		return false, nil
	}
	if string(rest) == "{}\n" && path == filepath.Clean(file) {
		err := os.Remove(path)
		_ = os.Remove(filepath.Dir(path)) // fails unless the folder is empty
		return true, err
	}
	return true, atomicfile.Replace(path, rest, mode)
}

// followed resolves a symbolic link, so that a write does not replace the link, and returns the
// file's mode.
func followed(file string) (path string, mode fs.FileMode) {
	path, mode = filepath.Clean(file), 0o644
	if real, err := filepath.EvalSymlinks(file); err == nil {
		if info, err := os.Lstat(file); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			path = real
		}
	}
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
	}
	return path, mode
}

// WritePrivate writes a file that only its owner can read, in a folder with the same restriction.
func WritePrivate(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return atomicfile.Replace(path, []byte(text), 0o600)
}

// maxDepth is the maximum nesting depth of settings.
const maxDepth = 64

// object is a JSON object that preserves the order and spelling of its members.
type object struct{ members []member }

type member struct {
	name  string
	value []byte
}

func parse(text []byte) (o object, err error) {
	err = strictjson.EachMember(text, maxDepth, func(name, value []byte) { o.members = append(o.members, member{string(name), value}) })
	if errors.Is(err, strictjson.ErrKind) {
		err = errors.New("not a JSON object")
	}
	return o, err
}

func (o *object) get(name, absent string) []byte {
	for _, m := range o.members {
		if m.name == name {
			return m.value
		}
	}
	return []byte(absent)
}

func (o *object) set(name string, value []byte) {
	for i := range o.members {
		if o.members[i].name == name {
			o.members[i].value = value
			return
		}
	}
	o.members = append(o.members, member{name, value})
}

func (o *object) remove(name string) {
	o.members = slices.DeleteFunc(o.members, func(m member) bool { return m.name == name })
}

func (o *object) bytes() []byte {
	text := []byte{'{'}
	for i, m := range o.members {
		if i > 0 {
			text = append(text, ',')
		}
		text = append(append(append(text, marshal(m.name)...), ':'), m.value...)
	}
	return append(text, '}')
}

func array(elements [][]byte) []byte {
	return append(append([]byte{'['}, bytes.Join(elements, []byte(","))...), ']')
}
