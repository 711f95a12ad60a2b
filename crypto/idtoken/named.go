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

// Names reports whether a header with this kid may mean a key of the set; see [KeySet.Verify].
func (s *KeySet) Names(kid string) bool {
	return slices.ContainsFunc(s.keys, func(k key) bool { return k.isNamed(kid) })
}

// Verify reports whether a token is signed by a key of the set, with one of some algorithms. kid
// names the key, by its own kid or its thumbprint (RFC 7638); without one each key is tried, but of
// more than eight that fit none is.
func (s *KeySet) Verify(t jose.Token, algorithms []string) bool {
	if !slices.Contains(algorithms, t.Header.Algorithm) {
		return false
	}
	var fit []key
	for _, k := range s.keys {
		if k.verifies(t.Header.Algorithm) && k.isNamed(t.Header.KeyID) {
			fit = append(fit, k)
		}
	}
	return len(fit) <= maxTried && slices.ContainsFunc(fit, func(k key) bool { return k.verify(t) })
}

func (k key) isNamed(kid string) bool {
	if kid == "" || kid == k.id {
		return true
	}
	if !jose.IsThumbprint(kid) {
		return false
	}
	sum, err := (&josev4.JSONWebKey{Key: k.public}).Thumbprint(crypto.SHA256)
	return err == nil && kid == base64.RawURLEncoding.EncodeToString(sum)
}
