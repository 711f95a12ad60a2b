package idtoken

import (
	"crypto"
	"errors"
	"fmt"
	"slices"
	"sync"

	josev4 "github.com/go-jose/go-jose/v4"

	"attestd/crypto/jose"
	"attestd/crypto/strictjson"
)

const (
	// MaxKeySet is how many bytes a key set may have.
	MaxKeySet = 64 << 10

	maxKeys    = 100
	minModulus = 2048 // bits
	maxModulus = 8192 // bits: what a signature costs us is bounded by it
	maxExpText = 6    // characters of e: four bytes
)

// KeySet is the key set of an issuer or an OAuth client (RFC 7517 §5): the keys of it that can
// verify a signature. It is immutable and safe for concurrent use.
type KeySet struct {
	keys        []key
	thumbprints func() []string // of the keys (RFC 7638), at the first need
}

// key is a public key of a set.
type key struct {
	id     string // kid; "" without one
	alg    string // "" where it is not said
	public crypto.PublicKey
}

// ParseKeySet reads a key set. Keys that are for encryption, symmetric, of another kind, weak or
// malformed are left out; a set with a private key, from which everybody could sign, or of which no
// key is left, is refused. Its errors read well after the words key set and contain nothing of it.
func ParseKeySet(document []byte) (*KeySet, error) {
	if len(document) > MaxKeySet {
		return nil, fmt.Errorf("is longer than %d bytes", MaxKeySet)
	}
	var list []byte
	err := strictjson.EachMember(document, maxDepth, func(name, value []byte) {
		if string(name) == "keys" {
			list = value
		}
	})
	if err != nil {
		return nil, errors.New("is not a JSON object without duplicate members")
	}
	set, count, private := &KeySet{}, 0, false
	set.thumbprints = sync.OnceValue(set.thumbprintsOfAll)
	err = strictjson.EachElement(list, maxDepth, func(value []byte) {
		if count++; count > maxKeys {
			return
		}
		k, is, secret := parseKey(value)
		private = private || secret
		if is {
			set.keys = append(set.keys, k)
		}
	})
	switch {
	case err != nil:
		return nil, errors.New("has no list of keys as its member keys")
	case count > maxKeys:
		return nil, fmt.Errorf("has more than %d keys", maxKeys)
	case private:
		return nil, errors.New("has a private key: whoever reads it can sign as the issuer, so replace that key")
	case len(set.keys) == 0:
		return nil, errors.New("has no key that can be used: RSA of 2048 bits or more, P-256, P-384, P-521 or Ed25519, for signatures")
	}
	return set, nil
}

// parseKey reads one JWK. It says whether it can be used, and whether it has private members.
func parseKey(jwk []byte) (k key, usable, private bool) {
	members := make(map[string][]byte, 8)
	if strictjson.EachMember(jwk, maxDepth, func(name, value []byte) { members[string(name)] = value }) != nil {
		return k, false, false
	}
	kty, _ := strictjson.AsString(members["kty"])
	for _, name := range []string{"d", "p", "q", "dp", "dq", "qi", "oth"} {
		if _, is := members[name]; is {
			return k, false, true
		}
	}
	if use, ok := strictjson.AsString(members["use"]); members["use"] != nil && (!ok || use != "sig") {
		return k, false, false
	}
	if ops, ok := strictjson.AsStrings(members["key_ops"]); members["key_ops"] != nil && (!ok || !slices.Contains(ops, "verify")) {
		return k, false, false
	}
	var ok bool
	if k.id, ok = strictjson.AsString(members["kid"]); members["kid"] != nil && !ok {
		return k, false, false
	}
	if k.alg, ok = strictjson.AsString(members["alg"]); members["alg"] != nil && (!ok || !isAlgorithm(k.alg)) {
		return k, false, false
	}
	k.public, ok = publicKey(kty, members)
	return k, ok, false
}

// publicMembers are those that make a public key, of each kty.
var publicMembers = map[string][]string{"RSA": {"n", "e"}, "EC": {"crv", "x", "y"}, "OKP": {"crv", "x"}}

// publicKey reads the members of a key alone: a chain of certificates beside them proves nothing.
func publicKey(kty string, members map[string][]byte) (crypto.PublicKey, bool) {
	names, known := publicMembers[kty]
	if !known || len(members["e"]) > maxExpText+2 {
		return nil, false
	}
	text := `{"kty":"` + kty + `"`
	for _, name := range names {
		if _, ok := strictjson.AsString(members[name]); !ok {
			return nil, false
		}
		text += `,"` + name + `":` + string(members[name])
	}
	var read josev4.JSONWebKey
	if read.UnmarshalJSON([]byte(text+"}")) != nil || !read.Valid() {
		return nil, false
	}
	return read.Key, isStrong(read.Key)
}

// find returns the only key of the set that fits a header.
func (s *KeySet) find(h jose.Header) (found key, err error) {
	known, fits := false, 0
	for _, k := range s.keys {
		if h.KeyID != "" && k.id != h.KeyID {
			continue
		}
		known = true
		if k.verifies(h.Algorithm) {
			found = k
			fits++
		}
	}
	switch {
	case !known:
		return key{}, unsigned("is signed with a key that is not in the issuer's key set")
	case fits == 0:
		return key{}, unsigned("has an alg that is not that of the issuer's key")
	case fits > 1 && h.KeyID == "":
		return key{}, unsigned("must have a kid: the issuer has several keys")
	case fits > 1:
		return key{}, unsigned("has a kid that several keys of the issuer have")
	}
	return found, nil
}

// Len is the number of keys that can be used.
func (s *KeySet) Len() int { return len(s.keys) }

func (s *KeySet) verifyOnly(t jose.Token) error {
	k, err := s.find(t.Header)
	if err != nil {
		return err
	}
	if !k.verify(t) {
		return unsigned("is not signed with the issuer's key")
	}
	return nil
}
