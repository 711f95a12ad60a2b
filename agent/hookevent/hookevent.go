// Package hookevent reads what coding agents send to their hooks, and writes what they take for an
// answer. Members and events that it does not know are left alone: agents add both with each
// version.
package hookevent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"attestd/agent/toolcall"
	"attestd/crypto/jcs"
	"attestd/internal/printable"
)

// Source is an agent whose hooks are understood.
type Source string

// The agents. Codex sends what Claude Code sends, but for failures and batches.
const (
	ClaudeCode Source = "claude-code"
	Gemini     Source = "gemini"
	Codex      Source = "codex"
)

// ParseSource reads the name of an agent.
func ParseSource(name string) (Source, error) {
	if s := Source(name); slices.Contains([]Source{ClaudeCode, Gemini, Codex}, s) {
		return s, nil
	}
	return "", fmt.Errorf("want claude-code, gemini or codex, not %q", name)
}

// Report is what a hook has reported.
type Report struct {
	Events []toolcall.Event // none where nothing is to be recorded
	Asks   bool             // the agent waits for whether it may call the tool of the first event

	// Late says that most of the events have been reported before, and better: only what was not is
	// to be recorded.
	Late bool
}

// Parse reads what a hook was sent, one JSON object. An error says that it is none, or that readers
// may understand it in several ways: a member that is read here comes twice, or in another case.
func (s Source) Parse(body []byte) (Report, error) {
	o, err := parseObject(body, common...)
	if err != nil {
		return Report{}, err
	}
	if s == Gemini {
		return o.gemini()
	}
	return o.claudeCode(s)
}

// common are the members of an event that are read.
var common = []string{
	"hook_event_name", "tool_name", "tool_use_id", "session_id", "agent_type", "tool_input", "tool_response", "tool_calls",
	"mcp_server", "mcp_context", "duration_ms", "prompt_id", "timestamp", "error", "reason",
}

// Deny is the answer that keeps the agent from calling the tool that it asks about; the model reads
// the reason.
func (s Source) Deny(reason string) []byte {
	// which the agent shows its user
	quoted := string(jcs.AppendString(nil, printable.Text(reason)))
	if s == Gemini {
		return []byte(`{"decision":"deny","reason":` + quoted + `}`)
	}
	return []byte(`{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":` + quoted + `}}`)
}

// Proceed is the answer that leaves everything to the agent and the rules of its user. It never
// allows: that would override them.
const Proceed = `{}`

// Denied is the outcome of a call that was asked for and refused.
func Denied(asked toolcall.Event, reason string) toolcall.Event {
	asked.Kind, asked.Input, asked.Reason = toolcall.Denied, nil, reason
	return asked
}

// NoPassport is why a tool is refused that no valid passport of the agent covers, in words for the
// model that wanted to call it.
func NoPassport(agent, tool string) string {
	return fmt.Sprintf("attestd: no valid passport of the agent %q covers tool:%s, so this call is refused and recorded. "+
		"Do not look for a way around it; ask the user, who can have a passport with that scope issued.", agent, tool)
}

// object is a JSON object as it was sent: the value of each member that is read, verbatim and as a
// part of what was sent.
type object map[string][]byte

// parseObject reads the named members of an object; others are left alone. It takes text that is
// not well-formed, which agents do send: see toolcall for what becomes of it.
func parseObject(body []byte, members ...string) (object, error) {
	o := object{}
	err := eachValue(body, '{', func(dec *jsontext.Decoder) error {
		quoted, err := dec.ReadValue()
		if err != nil {
			return err
		}
		name := unquote(quoted)
		value, err := dec.ReadValue()
		if err != nil {
			return err
		}
		for _, member := range members {
			switch {
			case !strings.EqualFold(name, member):
				continue
			case name != member:
				return fmt.Errorf("the member %.40q differs from %s in its case alone", name, member)
			case o[name] != nil:
				return fmt.Errorf("the member %s comes twice", name)
			}
			// a part of body, which the decoder reads in place
			o[name] = value[:len(value):len(value)]
		}
		return nil
	})
	return o, err
}

// eachValue calls read for what stands in a container of the kind that begins with a bracket, until
// it has read all of it.
func eachValue(text []byte, bracket jsontext.Kind, read func(*jsontext.Decoder) error) error {
	dec := jsontext.NewDecoder(bytes.NewBuffer(text), jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
	if dec.PeekKind() != bracket {
		return map[jsontext.Kind]error{'{': errNoObject, '[': errNoArray}[bracket]
	}
	_, err := dec.ReadToken()
	for err == nil && dec.PeekKind() != bracket+2 { // of { and [ in ASCII, the closing one
		err = read(dec)
	}
	if err == nil {
		_, err = dec.ReadToken()
	}
	if err == nil && len(bytes.TrimSpace(text[dec.InputOffset():])) > 0 {
		err = errors.New("data after the JSON object")
	}
	return err
}

var (
	errNoObject = errors.New("no JSON object")
	errNoArray  = errors.New("no JSON array")
)

func unquote(quoted []byte) string {
	// its error is text that is not well-formed, which it replaces
	text, _ := jsontext.AppendUnquote(nil, quoted)
	return string(text)
}

// text is what a member that is a string says, and the JSON of one that is anything else but null.
func (o object) text(name string) string {
	switch value := o[name]; {
	case len(value) == 0 || value[0] == 'n':
		return ""
	case value[0] == '"':
		return unquote(value)
	default:
		return string(value)
	}
}

// inner is the text of a member of an object that is a member itself; "" where there is none.
func (o object) inner(name, member string) (string, error) {
	inner, err := parseObject(o[name], member)
	if errors.Is(err, errNoObject) {
		return "", nil
	}
	return inner.text(member), err
}

func (o object) milliseconds(name string) int64 {
	var n float64
	if json.Unmarshal(o[name], &n) != nil || n < 0 || n > 1<<52 {
		return 0
	}
	return int64(n)
}

// MaxCalls is how many calls an event may tell of.
const MaxCalls = 5000

// calls are the elements of tool_calls that are objects.
func (o object) calls() (list []object, err error) {
	n := 0
	err = eachValue(o["tool_calls"], '[', func(dec *jsontext.Decoder) error {
		value, err := dec.ReadValue()
		if err != nil {
			return err
		}
		if n++; n > MaxCalls {
			return fmt.Errorf("more than %d calls", MaxCalls)
		}
		call, err := parseObject(value, "tool_name", "tool_use_id", "tool_input", "tool_response")
		if errors.Is(err, errNoObject) {
			return nil
		}
		list = append(list, call)
		return err
	})
	if errors.Is(err, errNoArray) {
		return nil, nil
	}
	return list, err
}

// call is what all events of a call have in common.
func (o object) call(source Source) toolcall.Event {
	return toolcall.Event{
		Source: string(source), Tool: o.text("tool_name"), CallID: o.text("tool_use_id"), SessionID: o.text("session_id"), AgentType: o.text("agent_type"),
	}
}
