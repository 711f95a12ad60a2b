package action

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
	"attestd/crypto/strictjson"
)

// Event is one event of a tool call or of a session. Source and Type are required.
type Event struct {
	Type      Type
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
	Folder     string          // in which the agent works; a decision contains it, and no record
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
	// Decided records an input of up to MaxDecided bytes: a decision is made on what is recorded
	Decided bool

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

// DefaultLimit is the maximum size in bytes of a value that is recorded in full.
const DefaultLimit = 16 << 10

// MaxDecided is the maximum size in bytes of the arguments that policies see.
const MaxDecided = 64 << 10

// Record is the attested form of an event.
type Record struct {
	ActionType string
	Payload    json.RawMessage // a JSON object that has a canonical form

	// Key is the idempotency key, made of source, agent, session, call or subagent, and type. The
	// type is tool.outcome for all outcomes, because a call has only one. Key is "" for a call
	// without an ID, whose events cannot be distinguished.
	Key string
}

// OtherKey is the key of a record if its call ID is reused and an event of the same type has its
// Key. It also depends on the content.
func (r Record) OtherKey() string { return digest(r.Key, string(r.Payload)) }

// Record makes an agent's record of an event. Equal arguments give equal records. Time and memory
// are linear in the event's size.
func (p Policy) Record(agent string, e Event) Record {
	payload := appendText([]byte(`{"source":`), RecordedName(e.Source))
	member := func(name string, value []byte) { payload = appendMember(payload, name, value) }
	member("tool", optional(RecordedName(e.Tool)))
	member("server", optional(RecordedName(e.Server)))
	member("callId", optional(RecordedID(e.CallID)))
	member("sessionId", optional(RecordedID(e.SessionID)))
	member("agentType", optional(RecordedName(e.AgentType)))
	member("subagentId", optional(RecordedID(e.SubagentID)))
	member("traceparent", optional(RecordedID(e.Trace)))
	ofInput := p
	if p.Decided {
		ofInput.Limit = MaxDecided
	}
	// the input of an oversized event is a hash already
	member("input", ofInput.value(e.Input, p.HashInput && e.Type != HookOversized))
	member("output", p.value(e.Output, p.HashOutput))
	member("error", p.text(e.Error, p.HashOutput))
	member("reason", p.text(e.Reason, false))
	if e.DurationMS > 0 && e.DurationMS < 1<<53 {
		member("durationMs", strconv.AppendInt(nil, e.DurationMS, 10))
	}
	return Record{string(e.Type), append(payload, '}'), e.Key(agent, p.Secret)}
}

// IsOf reports whether an action is a record of the call or session of e that the key of e may
// represent: the same event, or for an outcome any outcome.
func (e Event) IsOf(actionType string, payload []byte) bool {
	var has struct{ Source, CallID, SessionID, SubagentID string }
	if json.Unmarshal(payload, &has) != nil || has.Source != RecordedName(e.Source) || has.SessionID != RecordedID(e.SessionID) {
		return false
	}
	is := Type(actionType)
	switch {
	case e.namesSubagent():
		return is == e.Type && has.SubagentID == RecordedID(e.SubagentID)
	case is != e.Type && !(is.endsCall() && e.Type.endsCall()):
		return false
	}
	return has.CallID == RecordedID(e.CallID)
}

// namesSubagent reports whether the key of the event is made of a subagent, and not of a call.
func (e Event) namesSubagent() bool {
	return e.Type == SubagentEnded || e.Type == ToolPending && e.SubagentID != ""
}

// Launch returns the event of the call that has launched the subagent of an event that ends one, as
// far as its key.
func (e Event) Launch() Event {
	return Event{Type: ToolPending, Source: e.Source, SessionID: e.SessionID, SubagentID: e.SubagentID}
}

// Stop returns the event that ends the subagent of a launch in the same turn, as far as its key.
func (e Event) Stop() Event {
	return Event{Type: SubagentEnded, Source: e.Source, SessionID: e.SessionID, SubagentID: e.SubagentID, TurnID: e.TurnID}
}

// EndedBy returns the outcome of a call that has launched a subagent, when that has ended. The
// agent does not say how: output is the last message of the subagent, or nil.
func (e Event) EndedBy(output json.RawMessage) Event {
	e.Type, e.TurnID, e.Input, e.Output, e.DurationMS = ToolEnded, "", nil, output, 0
	return e
}

// maxName is the maximum size in bytes of a name or ID in a payload. A longer one is cut off in the
// payload, but not for the key.
const maxName = 256

// RecordedID returns the recorded form of an ID: its first 256 bytes, with secrets masked.
func RecordedID(s string) string { return mask.ID(cut(s, maxName)) }

// RecordedName returns the recorded form of the name of a tool. It is never masked: a name says
// what was done. The hash of a longer one distinguishes it from others that begin like it.
func RecordedName(s string) string {
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
	of, last := e.CallID, string(e.Type)
	switch {
	case e.namesSubagent():
		of = e.SubagentID
	case e.Type == SessionEnded, e.Type == HookOversized:
		of = e.TurnID
	case e.Type.endsCall():
		last = "tool.outcome"
	}
	if of == "" && (e.Type != SessionEnded || e.SessionID == "") {
		return ""
	}
	if e.End > 0 {
		last += "-" + strconv.Itoa(e.End)
	}
	parts := []string{e.Source, agent, e.SessionID, of, last}
	switch {
	case e.Type == SubagentEnded:
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

// maxHead is the maximum size in bytes of a recorded beginning.
const maxHead = 1 << 10

// value returns the recorded form of a JSON value, or nil for an absent one.
func (p Policy) value(raw json.RawMessage, hashed bool) []byte {
	if len(raw) == 0 {
		return nil
	}
	canonical, err := jcs.Append(nil, p.Mask.JSON(raw), mask.MaxDepth)
	if err != nil { // it is not JSON, or has no canonical form
		return p.text(string(raw), hashed)
	}
	return p.bound(canonical, hashed)
}

// text returns the recorded form of a text, or nil for an empty one.
func (p Policy) text(s string, hashed bool) []byte {
	if s == "" {
		return nil
	}
	return p.bound(appendText(nil, p.Mask.Text(s)), hashed)
}

// Member returns the recorded form of a JSON value, of which everything is masked if it is below
// the name of a secret. With hashed it is its hash and size.
func (p Policy) Member(raw json.RawMessage, secret, hashed bool) []byte {
	if !secret {
		return p.value(raw, hashed)
	}
	canonical, err := jcs.Append(nil, p.Mask.SecretJSON(raw), mask.MaxDepth)
	if err != nil {
		return appendText(nil, p.Mask.Replacement(string(raw)))
	}
	return p.bound(canonical, hashed)
}

// MemberText is Member for a text.
func (p Policy) MemberText(s string, secret, hashed bool) []byte {
	switch {
	case s == "":
		return []byte(`""`)
	case secret:
		return appendText(nil, p.Mask.SecretText(s))
	}
	return p.text(s, hashed)
}

// bound returns the canonical value, or its hash and size if it is too long or redacted.
func (p Policy) bound(canonical []byte, hashed bool) []byte {
	limit := p.Limit
	if limit == 0 {
		limit = DefaultLimit
	}
	if !hashed && len(canonical) <= limit {
		return canonical
	}
	sum := sha256.Sum256(canonical)
	short := []byte(`{"sha256":"` + hex.EncodeToString(sum[:]) + `","bytes":` + strconv.Itoa(len(canonical)))
	if !hashed {
		head, isText := strictjson.AsString(canonical)
		if !isText {
			head = string(canonical)
		}
		short = appendText(append(short, `,"head":`...), cut(head, min(maxHead, limit)))
	}
	return append(short, '}')
}

// IsShort reports whether a value is the form of one that was too long, or redacted, or of an event
// that was too large to be read. A value that looks like it counts as one: nobody can tell.
func IsShort(value []byte) bool {
	const longest = 8 << 10 // with a beginning of which each byte is escaped
	if len(value) > longest {
		return false
	}
	has := map[string]bool{}
	err := strictjson.EachMember(value, 1, func(name, _ []byte) { has[string(name)] = true })
	rest := len(has)
	for _, name := range []string{"sha256", "bytes", "head", "more"} {
		if has[name] {
			rest--
		}
	}
	return err == nil && has["sha256"] && has["bytes"] && rest == 0
}

// Message is a message between an MCP client and a server that is no call of a tool.
type Message struct {
	Server, SessionID string
	From              string // client or server: who sent it, or asked for what was answered
	Method            string
	Name              string // what was read: the URI of a resource, or the name of a prompt
	RequestID         string
	Count             int    // how many messages the record represents, if more than one
	Content           []byte // made by Policy.Hash
	Error             string
}

// Hash returns the recorded form of content that is not recorded itself: {"sha256":"…","bytes":N},
// of its canonical form after masking.
func (p Policy) Hash(content []byte) []byte { return p.value(content, true) }

// Message makes the record of a message. It has no key, because messages of a session may be equal.
//
//	{"source":"mcp","server":"…","sessionId":"…","from":"server","method":"sampling/createMessage",
//	 "name":"…","requestId":"…","messages":12,"content":{"sha256":"…","bytes":N},"error":…}
//
// Of several messages, sha256 is that of their hashes in hexadecimal, each with a line feed.
func (p Policy) Message(m Message) Record {
	payload := []byte(`{"source":"mcp"`)
	member := func(name string, value []byte) { payload = appendMember(payload, name, value) }
	member("server", optional(RecordedName(m.Server)))
	member("sessionId", optional(RecordedID(m.SessionID)))
	member("from", optional(m.From))
	member("method", optional(RecordedName(m.Method)))
	name := RecordedID(m.Name)
	if !strings.EqualFold(m.Method, "prompts/get") { // it is a URI
		name = RecordedName(p.Mask.URI(m.Name))
	}
	member("name", optional(name))
	member("requestId", optional(RecordedID(m.RequestID)))
	if m.Count > 1 {
		member("messages", strconv.AppendInt(nil, int64(m.Count), 10))
	}
	member("content", m.Content)
	member("error", p.text(m.Error, p.HashOutput))
	return Record{ActionType: string(MCPMessage), Payload: append(payload, '}')}
}
