package cred

// Codes of Error, in the order of the checks. A token that fails several checks gets the code of
// the first.
const (
	// not three strict base64url parts of strict JSON, too long, or a header member that is not
	// allowed
	CodeMalformedToken    = "MALFORMED_TOKEN"
	CodeAlgorithmMismatch = "ALGORITHM_MISMATCH" // alg is not EdDSA
	CodeWrongTokenType    = "WRONG_TOKEN_TYPE"   // typ is another kind's
	// not signed by the key of this company that kid names, or kid names none, or one that had
	// ended before iat
	CodeSignatureInvalid = "SIGNATURE_INVALID"
	CodeTokenExpired     = "TOKEN_EXPIRED"       // exp <= now
	CodeTokenNotYetValid = "TOKEN_NOT_YET_VALID" // nbf > now
	CodeAudienceMismatch = "AUDIENCE_MISMATCH"   // aud is not exactly the one of this kind
	CodeInvalidIssuer    = "INVALID_ISSUER"      // iss is not the CA of the trust domain
	// sub is not a SPIFFE ID that this kind may carry
	CodeInvalidSubject = "INVALID_SUBJECT"
	// a claim is missing, of another type, or contradicts another
	CodeMalformedClaims    = "MALFORMED_CLAIMS"
	CodeUnsupportedVersion = "UNSUPPORTED_VERSION" // v is not 1
	CodeChainIncoherent    = "CHAIN_INCOHERENT"    // the last of delegationChain is not sub
	CodeScopeDenied        = "SCOPE_DENIED"        // no scope covers the tool
	CodePassportRevoked    = "PASSPORT_REVOKED"    // said by the caller, who knows
	CodeVerificationError  = "VERIFICATION_ERROR"  // anything unexpected; said by the caller
)

// Codes returns all codes in the order of the checks.
func Codes() []string {
	return []string{
		CodeMalformedToken, CodeAlgorithmMismatch, CodeWrongTokenType, CodeSignatureInvalid, CodeTokenExpired,
		CodeTokenNotYetValid, CodeAudienceMismatch, CodeInvalidIssuer, CodeInvalidSubject, CodeMalformedClaims,
		CodeUnsupportedVersion, CodeChainIncoherent, CodeScopeDenied, CodePassportRevoked, CodeVerificationError,
	}
}

// Error is the reason why a token is refused. Message never contains any part of the token, so it
// can be sent and logged.
type Error struct {
	Code    string // one of Codes
	Message string
}

func (e *Error) Error() string { return e.Message }

func refuse(code, message string) *Error { return &Error{Code: code, Message: message} }
