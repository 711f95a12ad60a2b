package store

import (
	"errors"

	"attestd/chain"
	"attestd/store/db"
	"attestd/store/ledger"
)

// Sentinel errors, in addition to those of package db. All are returned wrapped; test with
// errors.Is.
var (
	ErrExists        = errors.New("exists already")
	ErrLastKey       = errors.New("the last API key of a company that is an admin's and does not expire cannot be deleted")
	ErrRevoked       = errors.New("revoked already")
	ErrBadEnrolment  = errors.New("the enrolment is another agent's, was spent or has ended")
	ErrBadInvitation = errors.New("the invitation is unknown, was used or has ended")
	ErrLastAdmin     = errors.New("nobody would be left who is an admin, enabled and has a passkey")
	ErrSubjectTaken  = errors.New("another person of the company signs in with this account")
	// a person changes rights, and no passkey has signed for a while
	ErrReauthenticate = errors.New("a passkey must sign again")
	// the company lets only people change rights
	ErrPersonRequired = errors.New("only a person who has signed in may do this")
	ErrNoFederation   = errors.New("the federation is gone")
	ErrNotAsIssued    = errors.New("the passport is not the one that was issued under this ID")
	ErrDisabled       = errors.New("the agent is disabled")
	// an operator has suspended the company
	ErrSuspended = chain.ErrClosedChain
	// a *chain.QuotaError or *RegistrationQuotaError
	ErrQuota     = chain.ErrQuota
	ErrTooMany   = errors.New("the company has as many as it may")
	ErrUsed      = errors.New("the proof was used before")
	ErrBadClient = errors.New("unknown client or wrong secret")
	ErrBound     = errors.New("the access token is bound to a key, of which there is no proof")
	// ErrTablesChanged means that a row of a company differs from its control log; see
	// TablesChangedError.
	ErrTablesChanged = errors.New("the tables differ from the control log")
)

// Those of package db that methods of this package return.
var (
	ErrNotFound    = db.ErrNotFound
	ErrUnavailable = db.ErrUnavailable
	ErrUnknown     = db.ErrUnknown
	ErrFileChanged = db.ErrFileChanged
	ErrDamaged     = db.ErrDamaged
	ErrClock       = db.ErrClock
	ErrRolledBack  = db.ErrRolledBack
	ErrInUse       = db.ErrInUse
	ErrForeign     = db.ErrForeign
	ErrNewer       = db.ErrNewer
	ErrCorrupt     = db.ErrCorrupt
	ErrRefused     = db.ErrRefused
	ErrMasterKey   = db.ErrMasterKey
)

// A company has two logs; see db.Log.
type (
	LogName = db.LogName
	Log     = db.Log
)

const (
	Actions = db.Actions
	Control = db.Control
)

// RunOptions are the parameters of Run.
type RunOptions = ledger.RunOptions
