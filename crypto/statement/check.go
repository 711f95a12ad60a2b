package statement

import (
	"time"

	"attestd/crypto/jose"
)

// Expected is what the action of a statement is, as the checker knows it.
type Expected struct {
	Issuer     string // SPIFFE ID of the agent
	Audience   string // SPIFFE ID of the company
	Log        string // origin of the company's log of actions
	ActionHash string // see HashAction

	// of the record's delegation; both are "" without one
	TokenID        string // its tokenId, the jti of the token
	DelegationHash string // see cred.Delegation.Hash
}

// Check goes on where Parse ended: [Statement.Verify], [Statement.Match], then
// [Statement.CheckTime]. key is the one that KeyID names.
func (s *Statement) Check(key *jose.Key, want Expected, now time.Time) error {
	if err := s.Verify(key); err != nil {
		return err
	}
	if err := s.Match(want); err != nil {
		return err
	}
	return s.CheckTime(now)
}

// CheckVersion requires that s is of a version that its key may make: least is 2 for a key that was
// enrolled since there are statements with log, else 1. Its error is an *Error with CodeMalformed.
func (s *Statement) CheckVersion(least int) error {
	if s.Version() < least {
		return malformed("must have log, the origin of the company's log of actions: its key was enrolled since statements have it")
	}
	return nil
}

// Verify requires that s is signed with key, the one that KeyID names. Its error is an *Error with
// CodeSignatureInvalid.
func (s *Statement) Verify(key *jose.Key) error {
	if key.Thumbprint != s.KeyID || key.Verify(s.token) != nil {
		return refuse(CodeSignatureInvalid, "statement signature is not of these claims with the key that kid names, and with its algorithm")
	}
	return nil
}

// Match requires that s is about an action. Its error is an *Error with CodeMismatch. Of version 1,
// log is not compared, and of the delegation only its ID is.
func (s *Statement) Match(want Expected) error {
	isFirst := s.Version() == 1
	switch {
	case s.Issuer != want.Issuer:
		return refuse(CodeMismatch, "statement iss is not the SPIFFE ID of the agent")
	case s.Audience != want.Audience:
		return refuse(CodeMismatch, "statement aud is not the SPIFFE ID of the company")
	case s.Log != want.Log && !isFirst:
		return refuse(CodeMismatch, "statement log is not the origin of the company's log of actions")
	case s.ActionHash != want.ActionHash:
		return refuse(CodeMismatch, "statement action_hash is not the SHA-256 of the RFC 8785 form of the action's "+
			"actionType, agentId, companyId and payload")
	case s.Delegation != want.TokenID && isFirst:
		return refuse(CodeMismatch, "statement delegation is not the jti of the delegation token, or one of the two is missing")
	case s.Delegation != want.DelegationHash && !isFirst:
		return refuse(CodeMismatch, "statement delegation is not the SHA-256 of the record's delegation, or one of the two is missing")
	}
	return nil
}

// CheckTime requires that s was made recently, as seen by a clock. Its error is an *Error with
// CodeTime.
func (s *Statement) CheckTime(now time.Time) error {
	switch made := time.Unix(s.IssuedAt, 0); {
	case made.After(now.Add(MaxAhead)):
		return refuse(CodeTime, "statement iat is more than 60 s ahead")
	case made.Before(now.Add(-MaxAge)):
		return refuse(CodeTime, "statement iat is more than 30 days ago")
	}
	return nil
}
