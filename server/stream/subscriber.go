package stream

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"attestd/server/limit"
)

// Mode says who may listen to the stream.
type Mode int

const (
	Open          Mode = iota // anyone; without a credential, to every company
	Authenticated             // whoever has a credential, to its company
	Off
)

var modes = []string{"open", "authenticated", "off"}

func (m Mode) String() string { return modes[m] }

// ParseMode reads open, authenticated or off.
func ParseMode(s string) (Mode, error) {
	at := slices.Index(modes, s)
	if at < 0 {
		return 0, fmt.Errorf("want open, authenticated or off, not %q", s)
	}
	return Mode(at), nil
}

// Refusal is an answer to a request that does not become a client.
type Refusal struct {
	Status  int
	Message string
	Header  http.Header
}

func (r *Refusal) Error() string { return r.Message }

// ErrGone says that a credential was deleted, was revoked or has expired.
var ErrGone = errors.New("stream: the credential is gone")

// Subscriber is who asks to follow the stream.
type Subscriber struct {
	Chain  int64        // of the company whose records it gets; 0: those of all companies
	Holder limit.Holder // on whose account it has its place

	// Of the credential that it presents, if it does.
	// Names what End ends the stream by: the key, or the client that the token is of; "" for none
	Credential string
	Expires    time.Time // zero for never
	// nil while it is good, ErrGone when it is not, and another error where that cannot be said
	// now; see Serve. nil with no credential
	Check func() error

	// Where it has asked for records from an index on; nil for those alone that are committed from
	// now on.
	Backlog Backlog
	From    int64 // the index
}
