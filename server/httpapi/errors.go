package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"attestd/chain"
	"attestd/crypto/cred/details"
	"attestd/server/limit"
	"attestd/server/stream"
	"attestd/service"
	"attestd/store"
)

// Error is an error response, with a cause that is only logged.
type Error struct {
	Status      int
	Message     string // "error"
	Code        string // "code", machine-readable; mostly ""
	Description string // "error_description", of the OAuth token endpoint alone
	Header      http.Header
	Body        any    // replaces the body made of the fields above
	At          string // location of the error in the body (RFC 6901), or ""
	Pointer     string // "pointer": the same, if the response contains it
	// "line" and "column" in a text that does not parse, from 1; 0 for neither
	Line, Column int
	cause        error // for the log
}

func (e *Error) Error() string { return e.Message }
func (e *Error) Unwrap() error { return e.cause }

func Fail(status int, message string) *Error {
	return &Error{Status: status, Message: message}
}

// With adds a header to the response.
func (e *Error) With(name, value string) *Error {
	if e.Header == nil {
		e.Header = http.Header{}
	}
	e.Header.Set(name, value)
	return e
}

// At adds the location of the error in the body, unless there is one.
func At(err error, pointer string) error {
	var refused *Error
	if errors.As(err, &refused) && refused.At == "" {
		refused.At = pointer
	}
	return err
}

func Unauthorized() *Error {
	return Fail(http.StatusUnauthorized, "Unauthorized").With("WWW-Authenticate", "Bearer")
}

// outsideRole is the response to a valid credential whose role is insufficient for the route.
func outsideRole(has, needs store.Role) *Error {
	message := fmt.Sprintf("Forbidden: this needs a credential of the role %s, and the one presented is of the role %s",
		needs, has)
	return &Error{Status: http.StatusForbidden, Code: "FORBIDDEN_ROLE", Message: message}
}

// forbiddenAgent is the answer to an agent that asks for another one.
func forbiddenAgent() *Error {
	return &Error{Status: http.StatusForbidden, Code: "FORBIDDEN_AGENT", Message: "Forbidden: the credential is of one agent, and acts for no other"}
}

// forPerson is the answer to an agent that acts for a person, and asks for what it would then do as
// itself: its own tokens, keys and passports.
func forPerson() *Error {
	return &Error{Status: http.StatusForbidden, Code: "FORBIDDEN_AGENT", Message: "Forbidden: the access token is for a person, and this is the agent's own"}
}

// personRequired is the answer to a credential that asks for what people do for themselves.
func personRequired() *Error {
	return &Error{Status: http.StatusForbidden, Code: "PERSON_REQUIRED", Message: "Forbidden: only a person who has signed in may do this"}
}

// errorBody is the JSON of every error.
type errorBody struct {
	Error       string `json:"error"`
	Code        string `json:"code,omitempty"`
	Description string `json:"error_description,omitempty"`
	Pointer     string `json:"pointer,omitempty"`
	Line        int    `json:"line,omitempty"`
	Column      int    `json:"column,omitempty"`
	RequestID   string `json:"requestId,omitempty"` // for 5xx, to be found in the log
}

// statuses maps the kinds of refusals of package service to statuses.
var statuses = map[service.Kind]int{
	service.Invalid:   http.StatusBadRequest,
	service.Untrusted: http.StatusUnauthorized,
	service.Forbidden: http.StatusForbidden,
	service.NotFound:  http.StatusNotFound,
	service.Conflict:  http.StatusConflict,
	service.Exists:    http.StatusPreconditionFailed,
	service.TooLarge:  http.StatusUnprocessableEntity,
	service.Gone:      http.StatusGone,

	service.Unavailable: http.StatusServiceUnavailable,
}

// Classify is the only place that assigns a status to an error. An unknown error is a 500 without
// details.
func Classify(err error) *Error {
	var known *Error
	var refused *service.Error
	var tooLarge *http.MaxBytesError
	var notStreamed *stream.Refusal
	var rolledBack *store.RolledBackError
	var cosigner *store.CosignerError
	var changed *store.TablesChangedError
	var damaged *service.DamagedError
	var relyingParty *store.RelyingPartyError
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &refused):
		answer := &Error{Status: statuses[refused.Kind], Message: refused.Message, Code: refused.Code,
			At: refused.Pointer, Line: refused.Line, Column: refused.Column}
		if refused.Code == details.Code {
			answer.Pointer = refused.Pointer
		}
		return answer
	case errors.As(err, &notStreamed):
		answer := &Error{Status: notStreamed.Status, Message: notStreamed.Message, Header: notStreamed.Header}
		if answer.Status == http.StatusServiceUnavailable {
			answer.Code = "NOT_DONE"
		}
		return answer
	case errors.As(err, &tooLarge):
		return Fail(http.StatusRequestEntityTooLarge, "Request body is larger than the limit of this server")
	case errors.As(err, &damaged):
		return DamagedRecord(damaged.Index, err)
	case errors.Is(err, limit.ErrFull):
		return Unavailable("NOT_DONE", "the request buffers are full; try again later", err).With("Retry-After", "1")
	case errors.Is(err, store.ErrReauthenticate):
		return &Error{Status: http.StatusForbidden, Code: "REAUTHENTICATE",
			Message: "Forbidden: a change of rights needs an assertion of a passkey of the last 5 minutes; reauthenticate and repeat the request"}
	case errors.Is(err, store.ErrPersonRequired):
		return personRequired()
	case errors.Is(err, store.ErrLastAdmin):
		return &Error{Status: http.StatusConflict, Code: "LAST_ADMIN",
			Message: "This is the last passkey of the last person who is an admin and not disabled; enrol another passkey, or another admin, first"}
	case errors.As(err, &relyingParty):
		return &Error{Status: http.StatusConflict, Code: "RELYING_PARTY", Message: "Conflict: " + relyingParty.Error()}
	case errors.Is(err, chain.ErrKeyReused):
		return &Error{Status: http.StatusUnprocessableEntity, Code: "IDEMPOTENCY_KEY_REUSED",
			Message: "This idempotency key was used for another request; take a new one for a new record"}
	case errors.Is(err, service.ErrCredentialEnds):
		return Fail(http.StatusUnauthorized, "Unauthorized: "+service.ErrCredentialEnds.Error()).With("WWW-Authenticate", "Bearer")
	case errors.Is(err, store.ErrSuspended):
		return suspended()
	case errors.Is(err, store.ErrQuota):
		return quotaExceeded(err)
	case errors.Is(err, store.ErrUnknown): // before the others, because it also wraps its reason
		return Unavailable("OUTCOME_UNKNOWN", "it is not known whether the request was carried out; "+
			"read the chain, or list what it would have made or changed, before you repeat it", err)
	case errors.Is(err, store.ErrFileChanged):
		return Unavailable("FILE_CHANGED", "the request was not carried out; the database file or its log was moved, replaced, "+
			"cut short or overwritten, and nothing is written before the server is restarted", err)
	case errors.Is(err, store.ErrDamaged):
		return Unavailable("DATABASE_DAMAGED", "the request was not carried out; a part of the database is damaged, "+
			"and nothing is written before the server is restarted with a database that is whole", err)
	case errors.Is(err, store.ErrClock):
		return Unavailable("CLOCK", "the request was not carried out; the server's clock is years ahead of its records, "+
			"and nothing is written before it is set right, or vouched for with serve --accept-clock", err)
	case errors.As(err, &changed):
		return Unavailable("TABLES_CHANGED", "the database holds something else than the control log says; changes and tokens of this company are refused "+
			"before an operator has acted, and reads and proofs go on", err)
	case errors.As(err, &cosigner):
		return Unavailable("ROLLED_BACK", "nothing was cosigned; this witness does not know any more what it has signed: "+
			cosigner.Reason()+
			"; it signs nothing before its operator has acted", err)
	case errors.As(err, &rolledBack):
		return rolledBackAnswer("", err)
	case errors.Is(err, store.ErrRolledBack):
		return Unavailable("ROLLED_BACK", "the request was not carried out; the database is older than what was published from it, "+
			"and nothing is written before an operator has acted", err)
	case errors.Is(err, store.ErrTokenKeysBusy):
		return Unavailable("NOT_DONE", "the company has no token keys yet, and those of many others are being made; try again later", err).With("Retry-After", "5")
	case errors.Is(err, store.ErrUnavailable), errors.Is(err, chain.ErrClosed), errors.Is(err, context.DeadlineExceeded):
		return Unavailable("NOT_DONE", "the request was not carried out; try again later", err).With("Retry-After", "1")
	default:
		return &Error{Status: http.StatusInternalServerError, Message: "Internal Server Error", cause: err}
	}
}

// rolledBackAnswer is that of a database that went back. why describes the log that shows it; "" is
// for those who may not know it.
func rolledBackAnswer(why string, cause error) *Error {
	message := "the request was not carried out; the database is older than it was, or has another history"
	if why != "" {
		message += ": " + why
	}
	return Unavailable("ROLLED_BACK", message+"; nothing is written before an operator has acted", cause)
}

func Unavailable(code, message string, cause error) *Error {
	return &Error{Status: http.StatusServiceUnavailable, Code: code, Message: "Service Unavailable: " + message,
		cause: cause}
}

func DamagedRecord(index int64, cause error) *Error {
	return &Error{Status: http.StatusInternalServerError, Code: "RECORD_DAMAGED", cause: cause,
		Message: fmt.Sprintf("Record %d of the log is missing or damaged on disk; GET /v1/verify says what is wrong", index)}
}
