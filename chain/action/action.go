// Package action finds calls of tools that were refused and ran all the same. It is pure: records
// in, findings out. The checkers in JavaScript and Python do what it does; chain/action/cases.json
// holds all of them.
//
// # Calls
//
// A record is one of a call if its actionType is below, and its payload is a JSON object in which
// source and callId are strings, and sessionId is one or is not there. Package toolcall makes such
// records of what hooks and MCP proxies report.
//
//	tool.requested                           a request
//	tool.denied                              a refusal
//	tool.completed, tool.failed, tool.ended  an outcome: the tool ran
//
// Other names that begin with tool are of no call: tool.pending, of a call that has no outcome yet,
// and what package toolcall has beside calls. A subagent that was launched in the background has
// its outcome when it stops.
//
// Records are of one call if they have the same agentId, source, sessionId and callId. A callId
// that is empty, that has 256 bytes or more, so that it may have been cut off, or in which a secret
// was masked, names no call. Nor does a record without one: Gemini CLI gives its calls no IDs.
//
// # Finding
//
// A call disobeyed a refusal when the records of it so far have a refusal and an outcome, and no
// more requests than refusals. So the order of its records does not matter: what waited in a spool
// comes late. A request beyond those that were refused is another attempt, to which the outcome
// belongs: the ID was used again, or another open request had it already.
//
// A decision beside a request, of which package toolcall has none, would be a refusal too where its
// verdict is not allow: [Read] is the place for it.
package action

import (
	"strings"

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

// IsOf returns what an actionType says of a call.
func IsOf(actionType string) Kind {
	switch actionType {
	case "tool.requested":
		return Request
	case "tool.denied":
		return Refusal
	case "tool.completed", "tool.failed", "tool.ended":
		return Outcome
	}
	return None
}

const (
	maxID    = 256        // bytes at which package toolcall cuts an ID off
	masked   = "[masked]" // what stands there in place of a secret
	maxDepth = 170        // of a payload: a record nests at most 160 deep
)

// Read returns what a record of actions says of a call. payload is the caller's value in it. ok is
// false for a record of no call.
func Read(agentID, actionType string, payload []byte) (c Call, ok bool) {
	if c.Kind = IsOf(actionType); c.Kind == None {
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
	return c, err == nil && ok && hasSource && c.ID != "" && len(c.ID) < maxID && !strings.Contains(c.ID, masked)
}
