package stream

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"attestd/server/limit"
)

// Mode determines who may listen to the stream.
type Mode int

const (
	Open          Mode = iota // anyone; without a credential, to all companies
	Authenticated             // callers with a credential, to their company
	Off
)

var modes = []string{"open", "authenticated", "off"}

func (m Mode) String() string { return modes[m] }

// ParseMode parses open, authenticated or off.
func ParseMode(s string) (Mode, error) {
	at := slices.Index(modes, s)
	if at < 0 {
		return 0, fmt.Errorf("want open, authenticated or off, not %q", s)
	}
	return Mode(at), nil
}

// Refusal is a response to a request that does not become a client.
type Refusal struct {
	Status  int
	Message string
	Header  http.Header
}

func (r *Refusal) Error() string { return r.Message }

// ErrCredentialEnded means that a credential was deleted or revoked, or has expired.
var ErrCredentialEnded = errors.New("stream: the credential is gone")

// Subscriber is a caller who asks for the stream.
type Subscriber struct {
	Chain  int64        // of the company whose records it receives; 0 for all companies
	Holder limit.Holder // accounts of its place

	// The presented credential, if any.

	// identifies the API key, or the client of the token, for End; "" for none
	Credential string
	Expires    time.Time // zero for never
	// returns nil while the credential is valid, ErrCredentialEnded when it is not, and another
	// error if that is unknown; see Serve. nil without a credential
	Check func() error

	// For a request from an index on; nil for new records only.
	Backlog Backlog
	From    int64 // index of the first record
}
