// Package toolcall makes the records of an agent's tool calls: what was asked, and what came of it.
// It is pure, so that whoever sees the same event twice, be it a server or a process beside the
// agent, makes the very same bytes and the same key of it.
//
// A record's actionType is the Kind of its event, and its payload is one JSON object, in this order
// and without what is absent:
//
//	{"source":"claude-code","tool":"Bash","server":"…","callId":"…","sessionId":"…","agentType":"…",
//	 "traceparent":"…","input":…,"output":…,"error":…,"reason":…,"durationMs":12}
//
// Input, output, error and reason are values of the agent's. Each goes through the same three
// steps:
//
//   - It is made well-formed, so that the canonical form (RFC 8785) can carry it: a lone surrogate
//     or a byte that is no UTF-8 becomes U+FFFD, and a number that no double holds becomes a string
//     of its digits. What is no JSON, names a member twice or nests deeper than 64 is recorded as
//     its text, a string.
//   - Secrets in it are masked: what the patterns of this package find, and all strings and numbers
//     below names such as password, is written as [masked]. Masking is a net with holes: it knows
//     forms of secrets, not secrets.
//   - It is bounded: a value of more bytes than the limit becomes
//     {"sha256":"…","bytes":N,"head":"…"}, and one that the policy reduces becomes
//     {"sha256":"…","bytes":N}. Both are those of the canonical form of the value, well-formed and
//     masked; so a hash is no way to guess what was masked. The head is the beginning of its text.
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

	"attestd/crypto/jcs"
)

// Kind is what has happened; it is the actionType of the record.
type Kind string

// The kinds of events. All but the first two and the last are outcomes.
const (
	Requested Kind = "tool.requested"
	// it was answered and is not over: it needs input, or has become a task
	Pending      Kind = "tool.pending"
	Completed    Kind = "tool.completed"
	Failed       Kind = "tool.failed" // it came to an error
	Denied       Kind = "tool.denied" // it was not carried out
	Ended        Kind = "tool.ended"  // it is over, and how is not known for certain
	SessionEnded Kind = "session.ended"
)

// Event is one event in the life of a tool call, or of a session. Source and Kind are needed, all
// else may be absent.
type Event struct {
	Kind      Kind
	Source    string // what reported it, such as claude-code or mcp
	Tool      string
	Server    string // the MCP server that has the tool
	CallID    string // names the call within its session
	SessionID string
	// of the last turn of a session that has ended, which may be taken up and end again; it is only
	// in the key
	TurnID     string
	AgentType  string          // the kind of subagent that called
	Trace      string          // W3C traceparent
	Input      json.RawMessage // as it came; what is no JSON is recorded as text
	Output     json.RawMessage
	Error      string
	Reason     string
	DurationMS int64 // recorded where it is more than 0
}

// Policy says how much of an event goes into its record. The zero Policy records all within the
// default limit, and masks secrets.
type Policy struct {
	HashInput  bool // only the hash of the input
	HashOutput bool // only the hashes of the output and of the error
	// the most bytes of the input, the output, the error and the reason, each; 0 is DefaultLimit
	Limit int

	// Secret makes keys that nobody foretells who does not know it: keys that go out as
	// Idempotency-Key need it, or whoever may write to the same log could take them beforehand.
	// Without it a key follows from the event alone.
	Secret []byte
}

// ParseRedaction reads which parts of a call are reduced to hashes: input, output, or both with a
// comma between; "" is none.
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

// DefaultLimit is the most bytes of a value that is recorded whole.
const DefaultLimit = 16 << 10

// Record is what is attested of an event.
type Record struct {
	ActionType string
	Payload    json.RawMessage // a JSON object that the canonical form can carry

	// Key is the idempotency key: source, agent, session, call, and the kind, which is tool.outcome
	// for all outcomes, for a call has but one. It is "" for the event of a call that has no ID,
	// which cannot be told from another one like it.
	Key string
}

// OtherKey is the key of a record whose Key is taken by another event of the same kind: a call ID
// came twice. It follows from the content, too.
func (r Record) OtherKey() string { return digest(r.Key, string(r.Payload)) }

// Record makes the record of an event in the name of the agent. It is the same for the same
// arguments. Time and memory are linear in the event's size.
func (p Policy) Record(agent string, e Event) Record {
	payload := appendText([]byte(`{"source":`), name(e.Source))
	member := func(name string, value []byte) {
		if value != nil {
			payload = append(append(append(payload, `,"`...), name...), `":`...)
			payload = append(payload, value...)
		}
	}
	member("tool", optional(e.Tool))
	member("server", optional(e.Server))
	member("callId", optional(e.CallID))
	member("sessionId", optional(e.SessionID))
	member("agentType", optional(e.AgentType))
	member("traceparent", optional(e.Trace))
	member("input", p.value(e.Input, p.HashInput))
	member("output", p.value(e.Output, p.HashOutput))
	member("error", p.text(e.Error, p.HashOutput))
	member("reason", p.text(e.Reason, false))
	if e.DurationMS > 0 && e.DurationMS < 1<<53 {
		member("durationMs", strconv.AppendInt(nil, e.DurationMS, 10))
	}
	return Record{string(e.Kind), append(payload, '}'), e.Key(agent, p.Secret)}
}

// maxName is the most bytes of a name or ID in a payload. Longer ones are cut, which the key does
// not see.
const maxName = 256

func name(s string) string { return mask(cut(s, maxName)) }

func optional(s string) []byte {
	if s == "" {
		return nil
	}
	return appendText(nil, name(s))
}

// cut returns the beginning of s, at most n bytes of it and no part of a character.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xC0 == 0x80 {
		n--
	}
	return s[:n]
}

// appendText appends s as a JSON string; what is no UTF-8 becomes U+FFFD.
func appendText(dst []byte, s string) []byte { return jcs.AppendString(dst, s) }

// maxKey is the most bytes of an idempotency key.
const maxKey = 255

// Key is the idempotency key of the event's record. Under a secret that is a MAC of its parts. Else
// its parts are joined where they can be told apart in the result, and their digest stands for them
// where they cannot.
func (e Event) Key(agent string, secret []byte) string {
	last := string(e.Kind)
	switch {
	case e.Kind == SessionEnded && e.SessionID == "", e.Kind != SessionEnded && e.CallID == "":
		return ""
	case e.Kind != SessionEnded && e.Kind != Requested:
		last = "tool.outcome"
	}
	// an event has at most one of the two
	parts := []string{e.Source, agent, e.SessionID, e.CallID + e.TurnID, last}
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

// isOdd says of all but A-Z a-z 0-9 . _ - that it is.
func isOdd(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("._-", r)
}

// digest is the SHA-256 of the parts, each behind its length, in hex.
func digest(parts ...string) string {
	h := sha256.New()
	writeParts(h, parts)
	return hex.EncodeToString(h.Sum(nil))
}

// writeParts writes the parts so that each can be told from the others.
func writeParts(w io.Writer, parts []string) {
	for _, part := range parts {
		fmt.Fprintf(w, "%d:%s", len(part), part)
	}
}
