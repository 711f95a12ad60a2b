// Package toolcall makes the records of an agent's tool calls: the request and its outcome. It is
// pure: a server and a process beside the agent make the same bytes and the same key from the same
// event.
//
// A record's actionType is the Kind of its event. Its payload is one JSON object with these
// members in this order; absent ones are left out:
//
//	{"source":"claude-code","tool":"Bash","server":"…","callId":"…","sessionId":"…","agentType":"…",
//	 "subagentId":"…","traceparent":"…","input":…,"output":…,"error":…,"reason":…,"durationMs":12}
//
// Input, output, error and reason come from the agent. Each goes through the same three steps:
//
//   - It is made well-formed, so that the canonical form (RFC 8785) can carry it: a lone surrogate
//     or a byte that is not UTF-8 becomes U+FFFD, and a number that no double can represent becomes
//     a string of its digits. A value that is not JSON, has a duplicate member or nests deeper than
//     64 is recorded as a string of its text.
//   - Its secrets are masked (package mask).
//   - It is bounded: a value over the limit becomes {"sha256":"…","bytes":N,"head":"…"}, and one
//     that the policy redacts becomes {"sha256":"…","bytes":N}. Hash and size are those of the
//     canonical form after masking, so a hash does not help to guess a masked secret. The head is
//     the beginning of its text.
//
// Names of tools, servers and subagents are recorded as they are. One of more than 256 bytes is cut
// off and ends in its hash.
package toolcall

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"attestd/chain/action/mask"
	"attestd/crypto/jcs"
)

// Kind is the kind of an event, and the actionType of its record.
type Kind string

// The kinds of events. Completed, Failed, Denied and Ended are outcomes.
const (
	Requested Kind = "tool.requested"
	// the response has no outcome yet: the call needs input, has become a task, or has launched a
	// subagent in the background
	Pending   Kind = "tool.pending"
	Completed Kind = "tool.completed"
	Failed    Kind = "tool.failed" // with an error
	Denied    Kind = "tool.denied" // the tool was not called
	Ended     Kind = "tool.ended"  // it is over, with an uncertain outcome
	// The names of what is no call begin like those of calls, because every version of the server
	// takes a record with such a name for one of its session.

	// the agent asks its user, or who decides for them, whether a tool may be called
	PermissionRequested Kind = "tool.permission-requested"
	SubagentEnded       Kind = "tool.subagent-ended"
	SessionEnded        Kind = "session.ended"
	// an event that is too large to be read: its input is the event's hash and size
	Oversized Kind = "hook.oversized"
)

// isOutcome reports whether the kind is the outcome of a call, of which a call has only one.
func (k Kind) isOutcome() bool {
	return k == Completed || k == Failed || k == Denied || k == Ended
}

// Event is one event of a tool call or of a session. Source and Kind are required.
type Event struct {
	Kind      Kind
	Source    string // what reported it, such as claude-code or mcp
	Tool      string
	Server    string // the MCP server that has the tool
	CallID    string // names the call within its session
	SessionID string
	// the turn in which a session or a subagent ended, which may be resumed and end again; only the
	// key contains it
	TurnID string
	// which end of the session it is, from 0 on, as far as the recorder knows; only the key
	// contains it
	End        int
	AgentType  string          // the kind of subagent that called, or that has ended
	SubagentID string          // the subagent that the call has launched, or that has ended
	Trace      string          // W3C traceparent
	Input      json.RawMessage // as received; recorded as text if it is not JSON
	Output     json.RawMessage
	Error      string
	Reason     string
	DurationMS int64 // recorded if it is positive
}

// Policy says how much of an event goes into its record. The zero Policy records all values within
// the default limit, with secrets masked.
type Policy struct {
	HashInput  bool // record only the hash of the input
	HashOutput bool // record only the hashes of the output and of the error
	// maximum size in bytes of the input, output, error and reason, each; 0 is DefaultLimit
	Limit int

	// Secret makes keys unpredictable. Keys that are sent as Idempotency-Key need it: otherwise
	// another writer of the same log could use them first. Without it a key follows from the event
	// alone.
	Secret []byte
	// Mask is the key of the digests in masks.
	Mask mask.Key
}

// ParseRedaction parses the parts of a call that are recorded as hashes: "input", "output", both
// joined by a comma, or "" for none.
func ParseRedaction(list string) (p Policy, err error) {
	if list == "" {
		return p, nil
	}
	for part := range strings.SplitSeq(list, ",") {
		switch part {
		case "input":
			p.HashInput = true
		case "output":
			p.HashOutput = true
		default:
			return Policy{}, fmt.Errorf("want input, output or input,output, not %q", list)
		}
	}
	return p, nil
}

// DefaultLimit is the maximum size in bytes of a value that is recorded whole.
const DefaultLimit = 16 << 10

// Record is the attested form of an event.
type Record struct {
	ActionType string
	Payload    json.RawMessage // a JSON object that has a canonical form

	// Key is the idempotency key, made of source, agent, session, call or subagent, and kind. The
	// kind is tool.outcome for all outcomes, because a call has only one. Key is "" for a call
	// without an ID, whose events cannot be distinguished.
	Key string
}

// OtherKey is the key of a record if its call ID is reused and an event of the same kind has its
// Key. It also depends on the content.
func (r Record) OtherKey() string { return digest(r.Key, string(r.Payload)) }

// Record makes an agent's record of an event. Equal arguments give equal records. Time and memory
// are linear in the event's size.
func (p Policy) Record(agent string, e Event) Record {
	payload := appendText([]byte(`{"source":`), ToolName(e.Source))
	member := func(name string, value []byte) { payload = appendMember(payload, name, value) }
	member("tool", optional(ToolName(e.Tool)))
	member("server", optional(ToolName(e.Server)))
	member("callId", optional(ID(e.CallID)))
	member("sessionId", optional(ID(e.SessionID)))
	member("agentType", optional(ToolName(e.AgentType)))
	member("subagentId", optional(ID(e.SubagentID)))
	member("traceparent", optional(ID(e.Trace)))
	member("input", p.value(e.Input, p.HashInput && e.Kind != Oversized)) // which is a hash already
	member("output", p.value(e.Output, p.HashOutput))
	member("error", p.text(e.Error, p.HashOutput))
	member("reason", p.text(e.Reason, false))
	if e.DurationMS > 0 && e.DurationMS < 1<<53 {
		member("durationMs", strconv.AppendInt(nil, e.DurationMS, 10))
	}
	return Record{string(e.Kind), append(payload, '}'), e.Key(agent, p.Secret)}
}

// IsOf reports whether an action is a record of the call or session of e that the key of e may
// stand for: the same event, or for an outcome any outcome.
func (e Event) IsOf(actionType string, payload []byte) bool {
	var has struct{ Source, CallID, SessionID, SubagentID string }
	if json.Unmarshal(payload, &has) != nil || has.Source != ToolName(e.Source) || has.SessionID != ID(e.SessionID) {
		return false
	}
	kind := Kind(actionType)
	switch {
	case e.namesSubagent():
		return kind == e.Kind && has.SubagentID == ID(e.SubagentID)
	case kind != e.Kind && !(kind.isOutcome() && e.Kind.isOutcome()):
		return false
	}
	return has.CallID == ID(e.CallID)
}

// namesSubagent reports whether the key of the event is made of a subagent, and not of a call.
func (e Event) namesSubagent() bool {
	return e.Kind == SubagentEnded || e.Kind == Pending && e.SubagentID != ""
}

// Launch returns the event of the call that has launched the subagent of an event that ends one, as
// far as its key.
func (e Event) Launch() Event {
	return Event{Kind: Pending, Source: e.Source, SessionID: e.SessionID, SubagentID: e.SubagentID}
}

// Stop returns the event that ends the subagent of a launch in the same turn, as far as its key.
func (e Event) Stop() Event {
	return Event{Kind: SubagentEnded, Source: e.Source, SessionID: e.SessionID, SubagentID: e.SubagentID, TurnID: e.TurnID}
}

// EndedBy returns the outcome of a call that has launched a subagent, when that has ended. The
// agent does not say how: output is the last that the subagent said, or nil.
func (e Event) EndedBy(output json.RawMessage) Event {
	e.Kind, e.TurnID, e.Input, e.Output, e.DurationMS = Ended, "", nil, output, 0
	return e
}

// maxName is the maximum size in bytes of a name or ID in a payload. A longer one is cut off in the
// payload, but not for the key.
const maxName = 256

// ID returns the recorded form of an ID: its first 256 bytes, with secrets masked.
func ID(s string) string {
	return mask.ID(cut(s, maxName))
}

// ToolName returns the recorded form of the name of a tool. It is never masked: a name says what
// was done. Of a longer one the hash tells it from others that begin like it.
func ToolName(s string) string {
	if len(s) <= maxName {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	end := "…sha256:" + hex.EncodeToString(sum[:])
	return cut(s, maxName-len(end)) + end
}

// appendMember appends a member to an object that has one; nil is an absent value.
func appendMember(object []byte, name string, value []byte) []byte {
	if value == nil {
		return object
	}
	object = append(append(append(object, `,"`...), name...), `":`...)
	return append(object, value...)
}

func optional(s string) []byte {
	if s == "" {
		return nil
	}
	return appendText(nil, s)
}

// cut returns at most the first n bytes of s and does not split a character.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xC0 == 0x80 {
		n--
	}
	return s[:n]
}

// appendText appends s as a JSON string; a byte that is not UTF-8 becomes U+FFFD.
func appendText(dst []byte, s string) []byte { return jcs.AppendString(dst, s) }

// maxKey is the maximum size in bytes of an idempotency key.
const maxKey = 255

// Key returns the idempotency key of the event's record. With a secret it is a MAC of its parts.
// Without, it is the joined parts, or their digest if the join would be ambiguous.
func (e Event) Key(agent string, secret []byte) string {
	of, last := e.CallID, string(e.Kind)
	switch {
	case e.namesSubagent():
		of = e.SubagentID
	case e.Kind == SessionEnded, e.Kind == Oversized:
		of = e.TurnID
	case e.Kind.isOutcome():
		last = "tool.outcome"
	}
	if of == "" && (e.Kind != SessionEnded || e.SessionID == "") {
		return ""
	}
	if e.End > 0 {
		last += "-" + strconv.Itoa(e.End)
	}
	parts := []string{e.Source, agent, e.SessionID, of, last}
	switch {
	case e.Kind == SubagentEnded:
		parts = append(parts, e.TurnID)
	case e.namesSubagent():
		parts = append(parts, "subagent")
	}
	if len(secret) > 0 {
		mac := hmac.New(sha256.New, secret)
		writeParts(mac, parts)
		return hex.EncodeToString(mac.Sum(nil))
	}
	if joined := strings.Join(parts, ":"); len(joined) <= maxKey && !strings.ContainsFunc(strings.Join(parts, ""), isOdd) {
		return joined
	}
	return digest(parts...)
}

// isOdd reports whether a character is none of A-Z a-z 0-9 . _ -
func isOdd(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("._-", r)
}

// digest returns the SHA-256 of the length-prefixed parts in hexadecimal.
func digest(parts ...string) string {
	h := sha256.New()
	writeParts(h, parts)
	return hex.EncodeToString(h.Sum(nil))
}

// writeParts writes the parts, each after its length, so that different lists never give the same
// bytes.
func writeParts(w io.Writer, parts []string) {
	for _, part := range parts {
		fmt.Fprintf(w, "%d:%s", len(part), part)
	}
}
