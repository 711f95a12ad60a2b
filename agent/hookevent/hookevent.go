// Package hookevent reads what coding agents send to their hooks, and writes what they take for an answer. Members and events that it does not
// know are left alone: agents add both with each version.
package hookevent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"attestd/agent/toolcall"
	"attestd/crypto/jcs"
	"attestd/printable"
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

	// Late says that most of the events have been reported before, and better: only what was not is to be recorded.
	Late bool
}

// Parse reads what a hook was sent, one JSON object. An error says that it is none.
func (s Source) Parse(body []byte) (Report, error) {
	o, err := parseObject(body)
	if err != nil {
		return Report{}, err
	}
	if s == Gemini {
		return o.gemini(), nil
	}
	return o.claudeCode(s), nil
}

// Deny is the answer that keeps the agent from calling the tool that it asks about; the model reads the reason.
func (s Source) Deny(reason string) []byte {
	quoted := string(jcs.AppendString(nil, printable.Text(reason))) // which the agent shows its user
	if s == Gemini {
		return []byte(`{"decision":"deny","reason":` + quoted + `}`)
	}
	return []byte(`{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":` + quoted + `}}`)
}

// Proceed is the answer that leaves everything to the agent and the rules of its user. It never allows: that would override them.
const Proceed = `{}`

// Denied is the outcome of a call that was asked for and refused.
func Denied(asked toolcall.Event, reason string) toolcall.Event {
	asked.Kind, asked.Input, asked.Reason = toolcall.Denied, nil, reason
	return asked
}

// NoPassport is why a tool is refused that no valid passport of the agent covers, in words for the model that wanted to call it.
func NoPassport(agent, tool string) string {
	return fmt.Sprintf("attestd: no valid passport of the agent %q covers tool:%s, so this call is refused and recorded. "+
		"Do not look for a way around it; ask the user, who can have a passport with that scope issued.", agent, tool)
}

// object is a JSON object as it was sent: each member's value, verbatim.
type object map[string][]byte

// parseObject reads an object. It takes text that is not well-formed, which agents do send: see toolcall for what becomes of it.
func parseObject(body []byte) (object, error) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(body), jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
	if dec.PeekKind() != '{' {
		return nil, errors.New("no JSON object")
	}
	o := object{}
	_, err := dec.ReadToken()
	for err == nil && dec.PeekKind() != '}' {
		var name, value jsontext.Value
		if name, err = dec.ReadValue(); err == nil {
			key := unquote(name)
			value, err = dec.ReadValue()
			o[key] = bytes.Clone(value)
		}
	}
	if err == nil {
		_, err = dec.ReadToken()
	}
	if err == nil && len(bytes.TrimSpace(body[dec.InputOffset():])) > 0 {
		err = errors.New("data after the JSON object")
	}
	return o, err
}

func unquote(quoted []byte) string {
	text, _ := jsontext.AppendUnquote(nil, quoted) // its error is text that is not well-formed, which it replaces
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

func (o object) object(name string) object {
	inner, err := parseObject(o[name])
	if err != nil {
		return nil
	}
	return inner
}

func (o object) milliseconds(name string) int64 {
	var n float64
	if json.Unmarshal(o[name], &n) != nil || n < 0 || n > 1<<52 {
		return 0
	}
	return int64(n)
}

// objects are the elements of an array that are objects.
func (o object) objects(name string) (list []object) {
	var elements []json.RawMessage
	if json.Unmarshal(o[name], &elements) != nil {
		return nil
	}
	for _, e := range elements {
		if inner, err := parseObject(e); err == nil {
			list = append(list, inner)
		}
	}
	return list
}

// call is what all events of a call have in common.
func (o object) call(source Source) toolcall.Event {
	return toolcall.Event{
		Source: string(source), Tool: o.text("tool_name"), CallID: o.text("tool_use_id"), SessionID: o.text("session_id"), AgentType: o.text("agent_type"),
	}
}
