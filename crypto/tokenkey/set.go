package tokenkey

import (
	"fmt"
	"sync"
	"time"
)

// Set is a set of public keys as verifiers fetch it. It is immutable and safe for concurrent use.
type Set struct {
	Changed time.Time // when it has last changed; zero for never

	jwks, bundle func() []byte
}

// NewSet returns a set. Each of its texts is made when it is first asked for.
func NewSet(keys []*Public, changed time.Time) *Set {
	return &Set{changed, sync.OnceValue(func() []byte { return jwkSet(keys) }), sync.OnceValue(func() []byte { return bundle(keys, changed) })}
}

// JWKS is the JWK set (RFC 7517 §5). It MUST NOT be modified.
func (s *Set) JWKS() []byte { return s.jwks() }

// Bundle is the SPIFFE bundle (SPIFFE Trust Domain and Bundle §4): the keys whose algorithms a
// JWT-SVID may have, with the time of the last change as its sequence. It MUST NOT be modified.
func (s *Set) Bundle() []byte { return s.bundle() }

func jwkSet(keys []*Public) []byte { return append(appendKeys(nil, keys, "sig"), '}') }

// refreshHint is how often whoever follows a bundle asks for it, in seconds.
const refreshHint = 300

func bundle(keys []*Public, changed time.Time) []byte {
	var signing []*Public
	for _, k := range keys {
		if k.Algorithm != EdDSA {
			signing = append(signing, k)
		}
	}
	sequence := int64(0)
	if !changed.IsZero() {
		sequence = changed.UnixMilli()
	}
	return fmt.Appendf(appendKeys(nil, signing, "jwt-svid"), `,"spiffe_sequence":%d,"spiffe_refresh_hint":%d}`, sequence, refreshHint)
}

func appendKeys(text []byte, keys []*Public, use string) []byte {
	text = append(text, `{"keys":[`...)
	for i, k := range keys {
		if i > 0 {
			text = append(text, ',')
		}
		text = append(text, k.Published(use)...)
	}
	return append(text, ']')
}
