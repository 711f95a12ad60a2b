package store

import (
	"time"

	"attestd/crypto/cred/details"
)

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
	JKT   string
	Scope Scope // of the access token that was presented
	// authorization details of that: what it is exchanged for, or gives, has none that are wider
	Details details.Details
	Expires time.Time // when the credential does; zero for never
	// when its holder does, who can get another until then: the client or the agent's key of an
	// access token. Of all else as Expires; zero for never
	HolderExpires time.Time
	At            time.Time // when the request was whole
	// acts for the operator, who may also change a company that is suspended
	Operator bool

	// ID of the person who calls, or ""; Credential is then person: and the ID
	Person string
	// of the person's session: its ID, how it began and when, the passkey that has signed last, and
	// when. All are zero of a person who has not signed in yet, and the last two are where no
	// passkey has signed in the session
	Session, SignedIn, Passkey  string
	SignedInAt, Reauthenticated time.Time
}

// ReauthenticationLifetime is how long a passkey's assertion counts for changes of rights.
const ReauthenticationLifetime = 5 * time.Minute

// Fresh returns ErrReauthenticate for a person whose passkey has not signed for a while. An
// assertion from the future counts for nothing.
func (by Caller) Fresh() error {
	if by.Person != "" && (by.At.Sub(by.Reauthenticated) > ReauthenticationLifetime || by.At.Before(by.Reauthenticated.Add(-time.Minute))) {
		return ErrReauthenticate
	}
	return nil
}
