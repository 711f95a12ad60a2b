package action

import (
	"strings"

	"attestd/chain/action/mask"
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
)

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
	case ToolCompleted, ToolFailed, ToolEnded:
		return Outcome
	}
	return None
}

// maxDepth is the maximum nesting depth of a payload: a record nests at most 160 deep.
const maxDepth = 170

// Read returns what a record of actions says of a call. payload is the caller's value in it. ok is
// false for a record of no call.
func Read(agentID, actionType string, payload []byte) (c Call, ok bool) {
	if c.Kind = Type(actionType).kind(); c.Kind == None {
		return c, false
	}
	c.Agent = agentID
	ok = true
	text := func(value []byte) string {
		s, isText := strictjson.AsString(value)
		ok = ok && isText
		return s
	}
	hasSource := false
	err := strictjson.EachMember(payload, maxDepth, func(name, value []byte) {
		switch string(name) {
		case "source":
			c.Source, hasSource = text(value), true
		case "sessionId":
			c.SessionID = text(value)
		case "callId":
			c.ID = text(value)
		case "tool":
			c.Tool, _ = strictjson.AsString(value)
		}
	})
	return c, err == nil && ok && hasSource && c.ID != "" && len(c.ID) < maxName && !strings.Contains(c.ID, mask.InID)
}
