package evidence

import (
	"fmt"

	"attestd/chain/action"
)

// Code says which check failed.
type Code string

// The codes, in the order of the checks.
const (
	Malformed     Code = "MALFORMED"
	KeysUnproven  Code = "KEYS"
	BadRecord     Code = "RECORD"
	Pruned        Code = "PRUNED" // signed, and the hash cannot be recomputed
	BadHexProof   Code = "HEX_PROOF"
	BadWitnesses  Code = "WITNESSES"
	BadLogProof   Code = "LOG_PROOF"
	BadDelegation Code = "DELEGATION"
	BadStatement  Code = "STATEMENT"
	BadAuthority  Code = "AUTHORITY"
	BadPassport   Code = "PASSPORT"
	BadStatus     Code = "STATUS"
	BadNotProven  Code = "NOT_PROVEN"
	KeyUntrusted  Code = "KEY"
	PolicyUnmet   Code = "POLICY"
	NotFollowed   Code = "NEWER" // of Trust.Newer
)

// Outcome is the result of a check.
type Outcome string

// The outcomes.
const (
	Holds          Outcome = "holds"
	Fails          Outcome = "fails"
	SelfConsistent Outcome = "self-consistent"
)

// Verdict is the result of a check with its details: sentences for people, codes for programs.
type Verdict struct {
	Outcome   Outcome  `json:"verdict"`
	Code      Code     `json:"code,omitempty"`
	Reason    string   `json:"reason,omitempty"`
	Checked   []string `json:"checked"`
	NotProven []string `json:"notProven"` // empty for a file that fails

	Summary []Line `json:"-"` // who did what, for people; nil for a file that fails

	// nil for a file that fails, and for a record without a statement
	Statement *Statement `json:"statement,omitempty"`
	Session   *Session   `json:"session,omitempty"` // of a session's file
	// to whom the delegation of the record was given, where that is not its agent; of a session, of
	// the first such record; nil for none
	NotActor *string `json:"notActor,omitempty"`
	// the first 100 calls of a report that were refused and ran all the same
	Disobeyed []action.Disobeyed `json:"disobeyed,omitempty"`
}

// Statement says which key of the agent signed.
type Statement struct {
	KeyID      string     `json:"kid"`
	EnrolledAt string     `json:"enrolledAt"` // by the service's clock
	EnrolledBy EnrolledBy `json:"enrolledBy"`
	// it is the key that the person knows, or follows from it
	Pinned   bool   `json:"pinned"`
	Issuer   string `json:"iss"` // SPIFFE ID of the agent
	Audience string `json:"aud"` // SPIFFE ID of the company
	// origin of the log that it was made for; "" in version 1, and of a session by its last
	// statement
	Log string `json:"log"`
	// when the key came into other hands, where the record is not older, or one of the session's
	Since string `json:"since,omitempty"`
	// nil outside a session, and in a session's file
	Session *Place `json:"session,omitempty"`
}

// EnrolledBy says who enrolled a key.
type EnrolledBy struct {
	// credential, enrolment (a token for one key) or key (the one before it)
	Kind string `json:"kind"`
	// fingerprint of the credential or token; thumbprint of the key before it
	Name string `json:"name"`
}

// Place is the place of a record in its session.
type Place struct {
	Session string `json:"sid"`
	Seq     int64  `json:"seq"`
}

// failure is the first check that failed.
type failure struct {
	code   Code
	reason string
}

func (f *failure) Error() string { return f.reason }

func fail(code Code, format string, args ...any) error {
	return &failure{code, fmt.Sprintf(format, args...)}
}
