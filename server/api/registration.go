package api

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net/http"
	"slices"

	"attestd/crypto/keys"
	"attestd/server/httpapi"
)

// RegistrationMode determines who may register a company.
type RegistrationMode int

const (
	RegistrationOpen RegistrationMode = iota // anyone
	// callers on this machine without a proxy
	RegistrationLoopback
	RegistrationToken  // callers with the operator's token
	RegistrationClosed // no registration
)

var registrationModes = []string{"open", "loopback", "token", "closed"}

func (m RegistrationMode) String() string { return registrationModes[m] }

// ParseRegistration parses open, loopback, token or closed.
func ParseRegistration(s string) (RegistrationMode, error) {
	at := slices.Index(registrationModes, s)
	if at < 0 {
		return 0, fmt.Errorf("want open, loopback, token or closed, not %q", s)
	}
	return RegistrationMode(at), nil
}

// Registration determines who may register a company; Token is for RegistrationToken.
type Registration struct {
	Mode  RegistrationMode
	Token string
}

// Fingerprint identifies the token without revealing it, like those of credentials. It returns ""
// if no token is needed.
func (r Registration) Fingerprint() string {
	if r.Mode != RegistrationToken || r.Token == "" {
		return ""
	}
	return keys.Fingerprint(sha256.Sum256([]byte(r.Token)))
}

// MayRegister admits only callers who may register a company.
func (s *Companies) MayRegister(c *httpapi.Call) error {
	switch r := s.Registration(); {
	case r.Mode == RegistrationOpen:
		return nil
	case r.Mode == RegistrationLoopback && httpapi.IsLocal(c.Request):
		return nil
	case r.Mode == RegistrationLoopback:
		return registrationClosed("companies are registered from the server's own machine, without a proxy")
	case r.Mode == RegistrationToken && r.Token != "":
		// Compare hashes, so that the time does not reveal the token's length.
		got, want := sha256.Sum256([]byte(c.Bearer)), sha256.Sum256([]byte(r.Token))
		if !c.ByDPoP && subtle.ConstantTimeCompare(got[:], want[:]) == 1 {
			return nil
		}
		return httpapi.Unauthorized()
	default:
		return registrationClosed("this server registers no companies")
	}
}

func registrationClosed(why string) error {
	return &httpapi.Error{Status: http.StatusForbidden, Code: "REGISTRATION_CLOSED", Message: "Forbidden: " + why}
}
