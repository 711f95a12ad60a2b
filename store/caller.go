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

// Caller is who asks, and when. Methods that touch a tenant's data demand it, so that none can
// forget whose data it is.
type Caller struct {
	Company *Company
	// fingerprint of the API key or OAuth client that was presented, never a secret; "" where none
	// was used
	Credential string
	Role       Role   // of that credential
	Client     string // ID of the OAuth client that it is, or whose token was presented, or ""
	Agent      string // as which alone the caller may act; "" for any
	Key        string // thumbprint of the key with which the agent has signed in, or ""
	// name of the federation by which the agent has signed in without a key of its own, or "", and
	// when that was made
	Federation, FederatedSince string
	// canonical DelegationInfo of the person for whom the agent has signed in, or ""
	Delegation string
	// thumbprint of the key without whose DPoP proofs it counts for nothing, or ""
	JKT     string
	Scope   Scope     // of the access token that was presented
	Expires time.Time // when the credential does; zero for never
	// when its holder does, who can get another until then: the client or the agent's key of an
	// access token. Of all else as Expires; zero for never
	HolderExpires time.Time
	At            time.Time // when the request was whole
	// acts for the operator, who may also change a company that is suspended
	Operator bool
}
