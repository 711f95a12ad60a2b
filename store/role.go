package store

import (
	"database/sql"
	"slices"
	"time"
)

// Role is what a credential allows. A caller without a role has the empty one.
type Role string

const (
	// reads chains, proofs, agents and the status of passports; changes nothing and is given no
	// secret
	Reader Role = "reader"
	Writer Role = "writer" // appends records too
	Admin  Role = "admin"  // everything

	// ActsAsAgent is the role of an agent that has signed in with a key of its own: it acts in its
	// own name, and does nothing else. Enrolling is what an enrolment token allows: it enrols one
	// key of its agent. Neither covers another role, and no API key or OAuth client has one of
	// them.
	ActsAsAgent Role = "agent"
	Enrolling   Role = "enrolling"
)

// Covers reports whether r may do what needs a role: each role may do what the ones before it may.
// An unknown needed role is covered by none.
func (r Role) Covers(needed Role) bool {
	order := []Role{"", Reader, Writer, Admin}
	at := slices.Index(order, needed)
	return at >= 0 && slices.Index(order, r) >= at
}

// Grant is what a credential is made for.
type Grant struct {
	Role    Role
	Expires time.Time // zero for never
}

// expired says whether the credential is as good as deleted.
func (g Grant) expired(now time.Time) bool { return !g.Expires.IsZero() && !now.Before(g.Expires) }

// expiry is when a grant ends, as it is stored: zero for never.
func expiry(stored sql.NullInt64) time.Time {
	if !stored.Valid {
		return time.Time{}
	}
	return time.UnixMilli(stored.Int64)
}
