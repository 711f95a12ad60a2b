package action

import (
	"strings"

	"attestd/chain/action/mask"
	"attestd/chain/decision"
	"attestd/crypto/jcs"
	"attestd/crypto/strictjson"
)

// Kind is what a record says of a call.
type Kind int

// The kinds. None is no record of a call.
const (
	None Kind = iota
	Request
	Refusal
	Outcome
	RefusedRequest // a request that its decision refuses
)

// Refuses reports whether a call was refused.
func (k Kind) Refuses() bool { return k == Refusal || k == RefusedRequest }

// Call is what a record says of one call.
type Call struct {
	Kind      Kind
	Agent     string
	Source    string // what reported it, such as claude-code or mcp
	SessionID string // "" without
	ID        string // callId
	Tool      string // "" where the record does not say
}

// Key names the call: equal for all records of one, and for no others. It is the RFC 8785 form of
// [agentId, source, sessionId, callId].
func (c *Call) Key() string {
	key := jcs.AppendString([]byte{'['}, c.Agent)
	for _, part := range []string{c.Source, c.SessionID, c.ID} {
		key = jcs.AppendString(append(key, ','), part)
	}
	return string(append(key, ']'))
}

// kind returns what an action of the type says of a call.
func (t Type) kind() Kind {
	switch t {
	case ToolRequested:
		return Request
	case ToolDenied:
		return Refusal
	case ToolCompleted, ToolFailed, ToolEnded, Telemetry:
		return Outcome
	}
	return None
}

// maxDepth is the maximum nesting depth of a payload: a record nests at most 160 deep.
const maxDepth = 170

// Read returns what a record of actions says of a call. payload is the caller's value in it, and d
// the decision, nil without one. ok is false for a record of no call.
func Read(agentID, actionType string, payload []byte, d *decision.Decision) (c Call, ok bool) {
	if c.Kind = Type(actionType).kind(); c.Kind == None {
		return c, false
	}
	if c.Kind == Request && d.Refuses() {
		c.Kind = RefusedRequest
	}
	c.Agent = agentID
	ok = true
	text := func(value []byte) string {
		s, isText := strictjson.AsString(value)
		ok = ok && isText
		return s
	}
	hasSource := false
	var name string
	var attributes, status []byte
	err := strictjson.EachMember(payload, maxDepth, func(member, value []byte) {
		switch string(member) {
		case "source":
			c.Source, hasSource = text(value), true
		case "sessionId":
			c.SessionID = text(value)
		case "callId":
			c.ID = text(value)
		case "tool":
			c.Tool, _ = strictjson.AsString(value)
		case "name":
			name, _ = strictjson.AsString(value)
		case "attributes":
			attributes = value
		case "status":
			status = value
		}
	})
	if Type(actionType) == Telemetry {
		agent := hooksOf(name)
		ok = ok && (says(attributes, "success", "true") || agent == "" && says(status, "code", "ok"))
		if agent != "" {
			c.Source = agent
		}
	}
	return c, err == nil && ok && hasSource && c.ID != "" && len(c.ID) < maxName && !strings.Contains(c.ID, mask.InID)
}

// hooksOf returns the source of the hooks of the coding agent that telemetry of this name is of; ""
// for no coding agent that has both.
func hooksOf(name string) string {
	switch {
	case strings.HasPrefix(name, "claude_code."):
		return "claude-code"
	case strings.HasPrefix(name, "codex."):
		return "codex"
	}
	return ""
}

// says reports whether an object has a member of this text, or of the true or false that it names.
func says(object []byte, member, text string) (is bool) {
	err := strictjson.EachMember(object, maxDepth, func(name, value []byte) {
		if string(name) == member {
			said, isText := strictjson.AsString(value)
			is = said == text && isText || string(value) == text
		}
	})
	return is && err == nil
}

// Disobeyed is a call that was refused and ran all the same.
type Disobeyed struct {
	Refused int64  `json:"refused"` // index of the last record that refused it
	Done    int64  `json:"done"`    // index of the first outcome
	Tool    string `json:"tool"`    // "" where no record says it
}

// State is the state of one call after the records read so far. The zero State is that of a call
// without records.
type State struct {
	Requests   int64 // that no decision refused
	Refusals   int64 // refusals less the requests that a decision refused: negative where few came
	IsRefused  bool
	Refused    int64 // index of the last refusal, where IsRefused
	Done       int64 // index of the first outcome, where HasOutcome
	HasOutcome bool
	Tool       string
	Found      bool // it has disobeyed
}

// Add adds the next record of the call. It returns true once: with the record that shows that the
// call disobeyed.
func (s *State) Add(index int64, c *Call) bool {
	switch c.Kind {
	case Request:
		s.Requests++
	case Refusal:
		s.Refusals++
	case RefusedRequest:
		s.Refusals--
	case Outcome:
		if !s.HasOutcome {
			s.Done, s.HasOutcome = index, true
		}
	}
	if c.Kind.Refuses() {
		s.IsRefused, s.Refused = true, index
	}
	if s.Tool == "" {
		s.Tool = c.Tool
	}
	if s.Found || !s.IsRefused || !s.HasOutcome || s.Requests > max(0, s.Refusals) {
		return false
	}
	s.Found = true
	return true
}

// Disobeyed is the finding of a call that has disobeyed.
func (s *State) Disobeyed() Disobeyed { return Disobeyed{s.Refused, s.Done, s.Tool} }

// MaxCalls is how many calls a Tracker remembers: those whose first record came last.
const MaxCalls = 10_000

// Tracker finds the calls that disobeyed a refusal among the records that it is given. Its memory
// is bounded: of MaxCalls calls. A bounded.Map would remove arbitrary ones, so that two checkers of
// the same records would disagree. The zero Tracker is ready to use.
type Tracker struct {
	calls map[string]*State
	order []string // keys, in the order of their first records, from next on
	next  int
}

// Add adds the next record. ok is true for the one that shows that a call disobeyed, once a call.
func (t *Tracker) Add(index int64, c *Call) (d Disobeyed, ok bool) {
	if t.calls == nil {
		t.calls = make(map[string]*State)
	}
	key := c.Key()
	s := t.calls[key]
	if s == nil {
		if len(t.calls) == MaxCalls {
			t.forgetFirst()
		}
		s = new(State)
		t.calls[key] = s
		t.order = append(t.order, key)
	}
	if !s.Add(index, c) {
		return d, false
	}
	return s.Disobeyed(), true
}

// forgetFirst forgets the call whose first record came first.
func (t *Tracker) forgetFirst() {
	delete(t.calls, t.order[t.next])
	t.order[t.next] = ""
	if t.next++; t.next == MaxCalls { // so that order does not grow
		t.order = append(t.order[:0], t.order[t.next:]...)
		t.next = 0
	}
}
