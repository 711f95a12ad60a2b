// Package names says under which names the table idempotency_key has a record of the actions, and
// in which session agent_session lists it, as they follow from the record alone. Package store and
// package ledger, which write these rows and compare them with the records, share it. It has no
// SQL.
//
// # Statements
//
// A statement has two names, which stay taken for ever. That of its jti is the first 16 bytes of
// the jti and 16 of SHA-256("statement jti\n" kid "\n" jti), so that those which begin with a time,
// as those of attestd's clients do, are adjacent on disk. That of its place in its session is the
// number seq of the [chain.Series] SHA-256("statement sid\n" kid "\n" sid). The request of both is
// the SHA-256 of the signed part of the compact JWS: another signature over the same claims is no
// other statement.
//
// # Sessions without statements
//
// A record whose payload names a session has the name of its index in a series that is made of the
// kind of the session, the agent and the session's ID. The request is the series.
//
// # Idempotency keys
//
// What a caller calls a request is in no record. What it has asked for is, unless it has sent a
// token of a delegation: see [Request].
package names

import (
	"crypto/sha256"
	"fmt"
	"path"
	"strings"
	"time"

	"attestd/chain"
	"attestd/crypto/statement"
	"attestd/crypto/strictjson"
)

// The kinds of sessions without statements, which replace a key's thumbprint.
const (
	Hooks     = "hook"
	MCP       = "mcp"
	Run       = "run"
	Telemetry = "telemetry"
)

// Session is what the row of a session says. Key is the thumbprint of the key that has signed its
// statements, or the kind of a session without any.
type Session struct{ AgentID, Key, ID string }

// IsSigned reports whether the session is one of statements. No thumbprint is the name of a kind.
func (s Session) IsSigned() bool {
	switch s.Key {
	case Hooks, MCP, Run, Telemetry:
		return false
	}
	return true
}

// Series names the records of the session, by seq or, without statements, by index. The parts of
// the latter are hashed, so that no two sessions have one name.
func (s Session) Series() chain.Series {
	if s.IsSigned() {
		return sha256.Sum256([]byte("statement sid\n" + s.Key + "\n" + s.ID))
	}
	h := sha256.New()
	for _, part := range []string{"session", s.Key, s.AgentID, s.ID} {
		part := sha256.Sum256([]byte(part))
		h.Write(part[:])
	}
	return chain.Series(h.Sum(nil))
}

// Statement returns the names of a statement, which stay taken for ever: that of its jti, and that
// of its place in its session.
func Statement(s *statement.Statement) []chain.Key {
	// no record of it is older: a statement from further ahead is refused
	k := chain.Key{Name: statementName(s.KeyID, s.ID), Request: sha256.Sum256([]byte(s.Signed())), Unique: true,
		Since: time.Unix(s.IssuedAt, 0).Add(-statement.MaxAhead)}
	keys := []chain.Key{k}
	if s.Session != "" {
		k.Name = Session{Key: s.KeyID, ID: s.Session}.Series().At(s.Seq)
		keys = append(keys, k)
	}
	return keys
}

func statementName(kid, id string) (name chain.Hash) {
	copy(name[:16], id)
	sum := former(kid, id)
	copy(name[16:], sum[:16])
	return name
}

// former is the name of a jti as the first programs with statements have stored it.
func former(kid, id string) chain.Hash {
	return sha256.Sum256([]byte("statement jti\n" + kid + "\n" + id))
}

// Key is the name of an idempotency key: its first half is the key's own beginning, its second that
// of the key's SHA-256. So keys that begin with a time are adjacent on disk, and a commit that
// stores many of them writes few pages.
func Key(key string) (name chain.Hash) {
	copy(name[:16], key)
	sum := sha256.Sum256([]byte(key))
	copy(name[16:], sum[:16])
	return name
}

// Request is what a key is bound to: all that POST /v1/attest is asked for. canonical is the
// payload of the record in the form of RFC 8785, delegation the token that was sent with it, person
// the subject for whom the caller acts by its own credential; "" for none. An item of a batch is
// bound to the same, so that what was tried alone can be sent again with others. What is done for a
// person is another request than the same for another person.
func Request(canonical []byte, delegation, person string) (request chain.Hash) {
	h := sha256.New()
	h.Write([]byte("POST /v1/attest\n"))
	h.Write(canonical)
	h.Write([]byte("\n" + delegation)) // the canonical form has no line feed
	if person != "" {
		h.Write([]byte("\n" + person))
	}
	h.Sum(request[:0])
	return request
}

// maxID is the maximum size in bytes of the ID of a session without statements. It is that of an ID
// in a payload of package action.
const maxID = 256

// depth is how deep a stored payload nests at most.
const depth = 128 + 1

// Named returns the session that an action names in its payload, as packages action and run make
// it. ok is false where it names none, or one that no path of the API could have.
func Named(agentID, actionType string, payload []byte) (of Session, ok bool) {
	member := "sessionId"
	switch {
	case strings.HasPrefix(actionType, "otel."):
		of.Key = Telemetry
	case strings.HasPrefix(actionType, "tool."), actionType == "session.ended":
		of.Key = Hooks
	case actionType == "run.started", actionType == "run.ended", actionType == "git.commit":
		of.Key, member = Run, "runId"
	default:
		return of, false
	}
	var source string
	// What is no object names none.
	_ = strictjson.EachMember(payload, depth, func(name, value []byte) {
		switch string(name) {
		case member:
			of.ID, _ = strictjson.AsString(value)
		case "source":
			source, _ = strictjson.AsString(value)
		}
	})
	if of.Key == Hooks && source == "mcp" {
		of.Key = MCP
	}
	of.AgentID = agentID
	at := "/" + agentID + "/" + of.ID
	ok = of.ID != "" && len(of.ID) <= maxID && path.Clean(at) == at && !strings.Contains(at, "\x00")
	return of, ok
}

// Names are what a record is found by.
type Names struct {
	Statement []chain.Key // for good; none where it has no statement
	Former    chain.Hash  // may replace the first of them in an older database
	InSession *chain.Key  // in a session without statements; nil where it is in none
	Session   Session     // the zero one where it is in none
	IsSigned  bool        // Session is one of statements
}

// Of derives the names of a record of the actions that has its payload.
func Of(r *chain.Record) (n Names, err error) {
	var agentID, actionType, signed string
	var payload []byte
	if err := strictjson.EachMember(r.Payload, depth, func(name, value []byte) {
		switch string(name) {
		case "agentId":
			agentID, _ = strictjson.AsString(value)
		case "actionType":
			actionType, _ = strictjson.AsString(value)
		case "payload":
			payload = value
		case "statement":
			signed, _ = strictjson.AsString(value)
		}
	}); err != nil {
		return n, fmt.Errorf("payload of record %d: %w", r.Index, err)
	}
	if signed != "" {
		s, err := statement.Parse(signed)
		if err != nil {
			return n, fmt.Errorf("statement of record %d: %w", r.Index, err)
		}
		n.Statement, n.Former = Statement(s), former(s.KeyID, s.ID)
		if s.Session != "" {
			n.Session, n.IsSigned = Session{agentID, s.KeyID, s.Session}, true
			return n, nil
		}
	}
	if of, ok := Named(agentID, actionType, payload); ok {
		series := of.Series()
		n.Session = of
		n.InSession = &chain.Key{Name: series.At(r.Index), Request: chain.Hash(series), Unique: true}
	}
	return n, nil
}

// Takes reports whether a name is one of those of the record, with the request that it is stored
// with.
func (n *Names) Takes(name, request chain.Hash) bool {
	for i := range n.Statement {
		if k := &n.Statement[i]; k.Request == request && (k.Name == name || i == 0 && n.Former == name) {
			return true
		}
	}
	return n.InSession != nil && n.InSession.Name == name && n.InSession.Request == request
}
