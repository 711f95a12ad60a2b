package service

import (
	"context"
	"time"

	"attestd/chain"
	"attestd/store"
	"attestd/store/names"
)

// The kinds of sessions. Those of statements can be proven complete; the others are the records in
// whose payload a caller names one session, of which nothing shows that one is missing.
const (
	SessionOfStatements = "statement"
	SessionOfHooks      = names.Hooks
	SessionOfMCP        = names.MCP
	SessionOfRun        = names.Run
	SessionOfTelemetry  = names.Telemetry
)

// SessionKinds are all kinds of sessions.
var SessionKinds = []string{SessionOfStatements, SessionOfHooks, SessionOfMCP, SessionOfRun, SessionOfTelemetry}

// kindOf is the kind of a session in a store, where Key is the kind of those without statements.
func kindOf(of store.Session) string {
	if of.IsSigned() {
		return SessionOfStatements
	}
	return of.Key
}

// maxSessionID is the maximum size in bytes of the source of a session.
const maxSessionID = 256

// SeriesOfNamed names the records of a session without statements. ok is false for one of
// statements, whose places are never free again.
func SeriesOfNamed(of store.Session) (series chain.Series, ok bool) {
	if of.IsSigned() {
		return chain.Series{}, false
	}
	return of.Series(), true
}

// noteTime bounds how long the answer to an append waits for its sessions to be listed.
const noteTime = 5 * time.Second

// recordSessions makes sure that the sessions of appended records without statements are listed. It
// comes after the append, so that nothing is stored of what was refused. The records are durable
// whatever becomes of this: the next one of its session lists a session that this left out.
func (a *Attestations) recordSessions(ctx context.Context, by store.Caller, sessions []names.Session) {
	if len(sessions) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTime)
	defer cancel()
	_ = a.Store.Sessions.Note(ctx, by, sessions...)
}
