// Package hookevent parses the events that coding agents send to their hooks, and formats the
// answers. It ignores unknown members and events, because agents add both with each version.
//
// It is pure: a server parses what agents send to it by HTTP, and attestd hook what it reads on the
// machine of an agent. Where agents keep their settings, and how hooks are installed there, is the
// matter of package agent/setup. What is recorded of an event is that of package action.
package hookevent

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"attestd/chain/action"
	"attestd/chain/decision"
	"attestd/crypto/jcs"
	"attestd/internal/printable"
)

// Source is an agent whose hook events can be parsed.
type Source string

// The agents. Codex sends the events of Claude Code except failures and batches: what it reports
// after a call mostly does not say whether that failed.
const (
	ClaudeCode Source = "claude-code"
	Gemini     Source = "gemini"
	Codex      Source = "codex"
)

// ParseSource parses the name of an agent.
func ParseSource(name string) (Source, error) {
	if s := Source(name); slices.Contains([]Source{ClaudeCode, Gemini, Codex}, s) {
		return s, nil
	}
	return "", fmt.Errorf("want claude-code, gemini or codex, not %q", name)
}

// ParseRequire parses what a hook requires for a call: a passport, a decision that allows it, both,
// or with "" nothing.
func ParseRequire(text string) (passport, decided bool, err error) {
	switch text {
	case "":
	case "passport":
		passport = true
	case "policy":
		decided = true
	case "passport,policy", "policy,passport":
		passport, decided = true, true
	default:
		return false, false, errors.New("must be passport, policy or passport,policy")
	}
	return passport, decided, nil
}

// Report is the content of one message to a hook.
type Report struct {
	Events []action.Event // the events to record
	Asks   bool           // the agent waits for permission to call the tool of the first event

	// Late says that most of the events have been reported before, in more detail. Only unreported
	// ones are recorded.
	Late bool

	// Unknown says that this package knows no such event of the agent. It may ask for permission.
	Unknown bool
}

// Parse parses a message to a hook, one JSON object. It rejects an object whose known members are
// duplicated or differ in case, because other parsers could read it differently.
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

// common are the known members of an event.
var common = []string{
	"hook_event_name", "cwd", "tool_name", "tool_use_id", "session_id", "agent_type", "tool_input", "tool_response", "tool_calls",
	"mcp_server", "mcp_context", "duration_ms", "prompt_id", "timestamp", "error", "reason",
	"agent_id", "turn_id", "last_assistant_message",
}

// Deny returns the answer that refuses a call. The model reads the reason.
func (s Source) Deny(reason string) []byte {
	// The agent also shows the reason to its user, on a terminal.
	quoted := string(jcs.AppendString(nil, printable.Text(reason)))
	if s == Gemini {
		return []byte(`{"decision":"deny","reason":` + quoted + `}`)
	}
	return []byte(`{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":` + quoted + `}}`)
}

// Proceed is the answer that leaves the decision to the agent and its user's rules. It does not say
// "allow", which would override those rules.
const Proceed = `{}`

// SystemMessage is Proceed with a message that the agent shows to its user.
func SystemMessage(message string) []byte {
	return append(jcs.AppendString([]byte(`{"systemMessage":`), message), '}')
}

// Denied returns the outcome of a requested call that is refused.
func Denied(asked action.Event, reason string) action.Event {
	asked.Type, asked.Input, asked.Reason = action.ToolDenied, nil, reason
	return asked
}

// Oversized returns the event for a message that is too large to be parsed: what came of it, and
// whether that was all.
func (s Source) Oversized(sha256 []byte, bytes int64, isAll bool) action.Event {
	sum := hex.EncodeToString(sha256)
	input := fmt.Appendf(nil, `{"sha256":"%s","bytes":%d}`, sum, bytes)
	if !isAll {
		input = fmt.Appendf(nil, `{"sha256":"%s","bytes":%d,"more":true}`, sum, bytes)
	}
	return action.Event{Type: action.HookOversized, Source: string(s), TurnID: sum, Input: input}
}

// NoPassport returns the reason for a refusal without a valid passport, written for the model.
func NoPassport(agent, tool string) string {
	return fmt.Sprintf("attestd: no valid passport of the agent %q covers tool:%s, so this call is refused and recorded. "+
		"Do not look for a way around it; ask the user, who can have a passport with that scope issued.", agent, tool)
}

// Refused returns the reason for a refusal by a decision, written for the model, and "" where the
// call is allowed, or nothing was decided.
func Refused(made *decision.Decision) string {
	if made == nil || made.Verdict == decision.Allow {
		return ""
	}
	by := "no policy of the company permits it"
	switch {
	case made.Verdict == decision.Ask && made.Approval != "":
		return Unapproved(made.Approval, pending, "")
	case made.Verdict == decision.Ask:
		by = "it needs an approval by a person, and has none"
	case made.Code == decision.Failed:
		by = "it could not be decided"
	case made.Code != decision.PolicyDenied:
		by = made.Code
	case len(made.By) > 0:
		by = "the policy " + strings.Join(made.By, ", ") + " forbids it"
	}
	return "attestd: this call is refused and recorded: " + by + ". Do not look for a way around it; ask the user."
}

// pending is the state of an approval that nobody has decided.
const pending = "pending"

// Unapproved returns the reason for a refusal of a call whose approval is in a state other than
// approved, written for the model. why is that of the person; "" for none.
func Unapproved(approvalID, state, why string) string {
	if state == pending {
		return "attestd: approval " + approvalID + " is pending, repeat the call: it needs an approval by a person, and is refused until then. " +
			"Repeat it unchanged once the user says that it is approved."
	}
	text := "attestd: this call is refused and recorded: the approval " + approvalID + " is " + state
	if why != "" {
		text += ": " + why
	}
	return text + ". Do not look for a way around it; ask the user."
}

// object has the values of the known members of a JSON object, as slices of the message.
type object map[string][]byte

// parseObject parses the named members of an object and ignores others. It accepts malformed text,
// which agents do send; package action replaces it.
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
				return fmt.Errorf("the member %.40q differs from %s only in case", name, member)
			case o[name] != nil:
				return fmt.Errorf("duplicate member %s", name)
			}
			// a slice of body, which the decoder reads in place
			o[name] = value[:len(value):len(value)]
		}
		return nil
	})
	return o, err
}

// eachValue calls read until it has read all values of an object or array. bracket is the opening
// one.
func eachValue(text []byte, bracket jsontext.Kind, read func(*jsontext.Decoder) error) error {
	dec := jsontext.NewDecoder(bytes.NewBuffer(text), jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
	if dec.PeekKind() != bracket {
		return map[jsontext.Kind]error{'{': errNoObject, '[': errNoArray}[bracket]
	}
	_, err := dec.ReadToken()
	for err == nil && dec.PeekKind() != bracket+2 { // the closing bracket in ASCII
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
	// The error reports malformed text, which is replaced.
	text, _ := jsontext.AppendUnquote(nil, quoted)
	return string(text)
}

// text returns the text of a string member, "" for null, and the JSON of another value.
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

// inner returns the text of a member of the object that is the member name; "" if it is absent.
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

// MaxCalls is the maximum number of calls in an event.
const MaxCalls = 5000

// calls returns the elements of tool_calls that are objects.
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

// call returns an event with the members that all events of a call have.
func (o object) call(source Source) action.Event {
	return action.Event{
		Source: string(source), Tool: o.text("tool_name"), CallID: o.text("tool_use_id"),
		SessionID: o.text("session_id"), Folder: o.text("cwd"), AgentType: o.text("agent_type"),
	}
}
