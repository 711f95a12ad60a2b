package statement

// Codes of Error, in the order of the checks; the last one is that of endorsements.
const (
	CodeMalformed        = "STATEMENT_MALFORMED"
	CodeKeyUnknown       = "STATEMENT_KEY_UNKNOWN" // said by the caller, who knows the keys
	CodeSignatureInvalid = "STATEMENT_SIGNATURE_INVALID"
	CodeMismatch         = "STATEMENT_MISMATCH"
	CodeTime             = "STATEMENT_TIME"
	CodeReused           = "STATEMENT_REUSED" // said by the caller, who knows the records

	CodeEndorsementInvalid = "ENDORSEMENT_INVALID"
)

// Error is the reason why a statement or an endorsement is refused. Message contains no part of it,
// so it can be sent and logged.
type Error struct {
	Code    string
	Message string
}

func (e *Error) Error() string { return e.Message }

func refuse(code, message string) *Error { return &Error{Code: code, Message: message} }
