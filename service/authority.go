package service

import (
	"slices"

	"attestd/store"
)

// Authority is what the control log says of whether an action was allowed when it happened. It is
// about the time of the action's record; a control record of the same millisecond counts as
// earlier, and CannotSay names it.
type Authority struct {
	Index     int64          `json:"index"`
	Timestamp string         `json:"timestamp"`
	Control   AuthorityLog   `json:"control"`
	Agent     AgentAuthority `json:"agent"`
	// of the agent, that were valid then; at most maxAuthorityPassports
	Passports  []PassportEntry    `json:"passports"`
	Passport   *PassportAuthority `json:"passport,omitempty"`
	Delegation *DelegationEntry   `json:"delegation"`
	Statement  *StatementEntry    `json:"statement,omitempty"` // of the agent; nil without one
	SigningKey KeyAuthority       `json:"signingKey"`
	CannotSay  []string           `json:"cannotSay"`
}

// AuthorityLog is the control log as it was read: its first Size records.
type AuthorityLog struct {
	LogID  string `json:"logId"`
	Origin string `json:"origin"`
	Size   int64  `json:"size"`
}

// ControlEntry is the place of a change in the control log.
type ControlEntry struct {
	Index     int64               `json:"index"`
	Timestamp string              `json:"timestamp"`
	Action    store.ControlAction `json:"actionType"`
	// fingerprint of the credential; nil for the command line and a company's registration
	By *string `json:"by"`
}

// AgentAuthority is what the control log says of an agent: its first registration, the last change
// up to the action, the first after it.
type AgentAuthority struct {
	AgentID    string        `json:"agentId"`
	State      string        `json:"state"` // registered, disabled, notRegistered, or unknown
	Registered *ControlEntry `json:"registered"`
	Last       *ControlEntry `json:"last"`
	Next       *ControlEntry `json:"next"`
}

// PassportEntry is a passport with its places in the control log.
type PassportEntry struct {
	JTI       string        `json:"jti"`
	Scopes    []string      `json:"scopes"`
	IssuedAt  string        `json:"issuedAt"`
	ExpiresAt string        `json:"expiresAt"`
	Issued    *ControlEntry `json:"issued"`
	Revoked   *ControlEntry `json:"revoked"` // whenever it was
}

// PassportAuthority is what the control log says of a passport that was asked for.
type PassportAuthority struct {
	JTI string `json:"jti"`
	// issued, revoked, expired, issuedLater, neverIssued, or unknown
	State   string        `json:"state"`
	Issued  *ControlEntry `json:"issued"`
	Revoked *ControlEntry `json:"revoked"`
}

// DelegationEntry is the delegation of a record, with what is known of the company's own agents in
// it.
type DelegationEntry struct {
	Chain  []string         `json:"delegationChain"`
	Agents []AgentAuthority `json:"agents"`
	// whether the agent of the record is the current actor, the last of the chain; true of a chain
	// of the subject alone, in which nobody acts
	ByActor bool `json:"byActor"`
}

// StatementEntry is the key with which the agent has signed the action.
type StatementEntry struct {
	KID      string        `json:"kid"`
	Enrolled *ControlEntry `json:"enrolled"`
	Revoked  *ControlEntry `json:"revoked"` // whenever it was
}

// KeyAuthority is the key that signed the record, and the change that brought it; nil for a
// company's first.
type KeyAuthority struct {
	KID     string        `json:"kid"`
	Rotated *ControlEntry `json:"rotated"`
}

const maxAuthorityPassports = 100

// places are the indices of all control records that the answer names, ascending: those that bear
// on the action, and those of the passport that was asked for.
func (a *Authority) places() (bearing, ofPassport []int64) {
	entries := []*ControlEntry{a.SigningKey.Rotated}
	agents := []AgentAuthority{a.Agent}
	if a.Delegation != nil {
		agents = append(agents, a.Delegation.Agents...)
	}
	for _, of := range agents {
		entries = append(entries, of.Registered, of.Last, of.Next)
	}
	for _, p := range a.Passports {
		entries = append(entries, p.Issued, p.Revoked)
	}
	if a.Passport != nil {
		ofPassport = placesOf(a.Passport.Issued, a.Passport.Revoked)
	}
	return placesOf(entries...), ofPassport
}

func placesOf(entries ...*ControlEntry) (indices []int64) {
	for _, e := range entries {
		if e != nil {
			indices = append(indices, e.Index)
		}
	}
	slices.Sort(indices)
	return slices.Compact(indices)
}
