package idtoken

import (
	"crypto"
	"encoding/base64"
	"slices"

	josev4 "github.com/go-jose/go-jose/v4"

	"attestd/crypto/jose"
)

// maxTried is how many keys are tried for one token, which bounds what it costs us.
const maxTried = 8

// Verify reports whether a token is signed by a key of the set, with one of some algorithms. kid
// names the key, by its own kid or its thumbprint (RFC 7638); without one each key is tried, but of
// more than eight that fit none is.
func (s *KeySet) Verify(t jose.Token, algorithms []string) bool {
	if !slices.Contains(algorithms, t.Header.Algorithm) {
		return false
	}
	var fit []key
	for i, k := range s.keys {
		if k.verifies(t.Header.Algorithm) && s.isNamed(i, t.Header.KeyID) {
			fit = append(fit, k)
		}
	}
	return len(fit) <= maxTried && slices.ContainsFunc(fit, func(k key) bool { return k.verify(t) })
}

// isNamed reports whether a kid, or its absence, may mean the key with an index.
func (s *KeySet) isNamed(i int, kid string) bool {
	return kid == "" || kid == s.keys[i].id || jose.IsThumbprint(kid) && kid == s.thumbprints()[i]
}

func (s *KeySet) thumbprintsOfAll() []string {
	all := make([]string, len(s.keys))
	for i, k := range s.keys {
		if sum, err := (&josev4.JSONWebKey{Key: k.public}).Thumbprint(crypto.SHA256); err == nil {
			all[i] = base64.RawURLEncoding.EncodeToString(sum)
		}
	}
	return all
}
