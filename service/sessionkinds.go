package service

import (
	"context"
	"crypto/sha256"
	"path"
	"strings"
	"time"

	"attestd/chain"
	"attestd/crypto/strictjson"
	"attestd/store"
)

// The kinds of sessions. Those of statements can be proven complete; the others are the records in
// whose payload a caller names one session, of which nothing shows that one is missing.
const (
	SessionOfStatements = "statement"
	SessionOfHooks      = "hook"
	SessionOfMCP        = "mcp"
	SessionOfRun        = "run"
	SessionOfTelemetry  = "telemetry"
)

// SessionKinds are all kinds of sessions.
var SessionKinds = []string{SessionOfStatements, SessionOfHooks, SessionOfMCP, SessionOfRun, SessionOfTelemetry}

// kindOf is the kind of a session in a store, where Key is the kind of those without statements. No
// thumbprint is one.
func kindOf(of store.Session) string {
	switch of.Key {
	case SessionOfHooks, SessionOfMCP, SessionOfRun, SessionOfTelemetry:
		return of.Key
	}
	return SessionOfStatements
}

// maxSessionID is the maximum size in bytes of the ID of a session without statements. It is that
// of an ID in a payload of package toolcall.
const maxSessionID = 256

// sessionNamed returns the session that an attestation without a statement's session names in its
// payload, as packages toolcall and run make it. ok is false where it names none, or one that no
// path of the API could have.
func sessionNamed(a *Attestation) (of store.Session, ok bool) {
	member := "sessionId"
	switch {
	case strings.HasPrefix(a.ActionType, "otel."):
		of.Key = SessionOfTelemetry
	case strings.HasPrefix(a.ActionType, "tool."), a.ActionType == "session.ended":
		of.Key = SessionOfHooks
	case a.ActionType == "run.started", a.ActionType == "run.ended", a.ActionType == "git.commit":
		of.Key, member = SessionOfRun, "runId"
	default:
		return of, false
	}
	var source string
	// What is no object names none.
	_ = strictjson.EachMember(a.Payload, MaxDepth, func(name, value []byte) {
		switch string(name) {
		case member:
			of.ID, _ = strictjson.AsString(value)
		case "source":
			source, _ = strictjson.AsString(value)
		}
	})
	if of.Key == SessionOfHooks && source == "mcp" {
		of.Key = SessionOfMCP
	}
	of.AgentID = a.AgentID
	at := "/" + a.AgentID + "/" + of.ID
	ok = of.ID != "" && len(of.ID) <= maxSessionID && path.Clean(at) == at && !strings.Contains(at, "\x00")
	return of, ok
}

// seriesOf names the records of a session without statements. Its parts are quoted, so that no two
// sessions have one name.
func seriesOf(of store.Session) chain.Series {
	h := sha256.New()
	for _, part := range []string{"session", of.Key, of.AgentID, of.ID} {
		part := sha256.Sum256([]byte(part))
		h.Write(part[:])
	}
	return chain.Series(h.Sum(nil))
}

// SeriesOfNamed names the records of a session without statements. ok is false for one of
// statements, whose places are never free again.
func SeriesOfNamed(of store.Session) (series chain.Series, ok bool) {
	if kindOf(of) == SessionOfStatements {
		return chain.Series{}, false
	}
	return seriesOf(of), true
}

// noteTime bounds how long the answer to an append waits for its sessions to be listed.
const noteTime = 5 * time.Second

// noteNamed makes sure that the sessions of appended records without statements are listed. It
// comes after the append, so that nothing is stored of what was refused. The records are durable
// whatever becomes of this: the next one of its session lists a session that this left out.
func (a *Attestations) noteNamed(ctx context.Context, by store.Caller, sessions []store.Session) {
	if len(sessions) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTime)
	defer cancel()
	_ = a.Store.Sessions.Note(ctx, by, sessions...)
}
