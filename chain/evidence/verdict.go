package evidence

import "fmt"

// Code says which check failed.
type Code string

// The codes, in the order of the checks.
const (
	Malformed     Code = "MALFORMED"
	KeysUnproven  Code = "KEYS"
	BadRecord     Code = "RECORD"
	BadHexProof   Code = "HEX_PROOF"
	BadWitnesses  Code = "WITNESSES"
	BadLogProof   Code = "LOG_PROOF"
	BadDelegation Code = "DELEGATION"
	BadAuthority  Code = "AUTHORITY"
	BadPassport   Code = "PASSPORT"
	BadStatus     Code = "STATUS"
	BadNotProven  Code = "NOT_PROVEN"
	KeyUntrusted  Code = "KEY"
	PolicyUnmet   Code = "POLICY"
	NotFollowed   Code = "NEWER" // of CheckNewer
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
