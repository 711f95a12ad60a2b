package idtoken

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	_ "crypto/sha256" // hashes of the algorithms
	_ "crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"math/big"
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
	alg    string // "" if absent
	public crypto.PublicKey
}

// ParseKeySet reads a key set. Keys that are for encryption, symmetric, of another kind, weak or
// malformed are left out; a set with a private key, with which anybody could sign, or of which no
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
		return nil, errors.New("has a private key: anyone who reads it can sign as the issuer, so replace that key")
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

// publicKey reads the members of a key alone: a chain of certificates proves nothing.
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

// algorithm is what verifies the signatures of an alg (RFC 7518 §3.1, RFC 8037 §3.1).
type algorithm struct {
	family string // rsa, pss, ec or ed25519
	hash   crypto.Hash
	bits   int // of the curve
}

// algorithms are all that are accepted: asymmetric ones, never none or an HMAC.
var algorithms = map[string]algorithm{
	"RS256": {"rsa", crypto.SHA256, 0}, "RS384": {"rsa", crypto.SHA384, 0}, "RS512": {"rsa", crypto.SHA512, 0},
	"PS256": {"pss", crypto.SHA256, 0}, "PS384": {"pss", crypto.SHA384, 0}, "PS512": {"pss", crypto.SHA512, 0},
	"ES256": {"ec", crypto.SHA256, 256}, "ES384": {"ec", crypto.SHA384, 384}, "ES512": {"ec", crypto.SHA512, 521},
	"EdDSA": {"ed25519", 0, 0}, "Ed25519": {"ed25519", 0, 0}, // two names of one (RFC 9864)
}

func isAlgorithm(alg string) bool {
	_, is := algorithms[alg]
	return is
}

// isStrong refuses keys for which others can sign, and those that cost too much.
func isStrong(public crypto.PublicKey) bool {
	switch public := public.(type) {
	case *rsa.PublicKey:
		bits := public.N.BitLen()
		return bits >= minModulus && bits <= maxModulus && public.N.Bit(0) == 1 && public.E >= 3 && public.E%2 == 1
	case *ecdsa.PublicKey:
		return true // on its curve, or it would not have been read
	case ed25519.PublicKey:
		_, err := jose.NewKey(public) // which refuses points of small order
		return err == nil
	}
	return false
}

// verifies reports whether a key may verify an alg: of its kind, and the one that it names.
func (k key) verifies(alg string) bool {
	a, is := algorithms[alg]
	if !is || k.alg != "" && algorithms[k.alg] != a {
		return false
	}
	switch public := k.public.(type) {
	case *rsa.PublicKey:
		return a.family == "rsa" || a.family == "pss"
	case *ecdsa.PublicKey:
		return a.family == "ec" && public.Curve.Params().BitSize == a.bits
	case ed25519.PublicKey:
		return a.family == "ed25519"
	}
	return false
}

// verify checks a signature with a key that verifies its alg.
func (k key) verify(t jose.Token) bool {
	a := algorithms[t.Header.Algorithm]
	if a.family == "ed25519" {
		public, is := k.public.(ed25519.PublicKey)
		return is && ed25519.Verify(public, []byte(t.Signed), t.Signature)
	}
	h := a.hash.New()
	h.Write([]byte(t.Signed))
	digest := h.Sum(nil)
	switch public := k.public.(type) {
	case *rsa.PublicKey:
		if a.family == "pss" { // RFC 7518 §3.5: the salt is as long as the hash
			return rsa.VerifyPSS(public, a.hash, digest, t.Signature, &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash}) == nil
		}
		return rsa.VerifyPKCS1v15(public, a.hash, digest, t.Signature) == nil
	case *ecdsa.PublicKey: // RFC 7518 §3.4: R then S, each as long as the curve's order
		size := (a.bits + 7) / 8
		if len(t.Signature) != 2*size {
			return false
		}
		r, s := new(big.Int).SetBytes(t.Signature[:size]), new(big.Int).SetBytes(t.Signature[size:])
		return ecdsa.Verify(public, digest, r, s)
	}
	return false
}

// IsRSA reports whether a JWK says that it is of RSA.
func IsRSA(jwk []byte) (is bool) {
	_ = strictjson.EachMember(jwk, maxDepth, func(name, value []byte) {
		kty, _ := strictjson.AsString(value)
		is = is || string(name) == "kty" && kty == "RSA"
	})
	return is
}

// ParseRSA reads the JWK of a public RSA key for signatures by some algorithms (RFC 7518 §6.3.1),
// and returns the one form in which it is stored, with its thumbprint (RFC 7638). Its alg is stored
// where it has one, since it says which of the algorithms it is for. The errors read well after the
// word jwk and contain nothing of it.
func ParseRSA(jwk []byte, algorithms []string) (stored, thumbprint string, err error) {
	members := make(map[string][]byte, 8)
	if strictjson.EachMember(jwk, maxDepth, func(name, value []byte) { members[string(name)] = value }) != nil {
		return "", "", errors.New("is not a JSON object without duplicate members")
	}
	for name := range members {
		if slices.Contains([]string{"crv", "x", "y", "k"}, name) {
			return "", "", errors.New("has members of another kind of key")
		}
	}
	alg, ok := strictjson.AsString(members["alg"])
	ok = members["alg"] == nil || ok && slices.Contains(algorithms, alg) && isRSA(alg)
	k, usable, private := parseKey(jwk)
	switch {
	case private:
		return "", "", errors.New("has members of a private or secret key; send the public key alone, and replace " +
			"this key if anybody else may have seen it")
	case !ok:
		return "", "", errors.New("alg is not one that is taken of an RSA key")
	case !usable:
		return "", "", fmt.Errorf("must have n and e of an RSA key with %d to %d bits, and be for signatures", minModulus, maxModulus)
	}
	public := k.public.(*rsa.PublicKey)
	n := base64.RawURLEncoding.EncodeToString(public.N.Bytes())
	e := base64.RawURLEncoding.EncodeToString(big.NewInt(int64(public.E)).Bytes())
	if text, _ := strictjson.AsString(members["n"]); text != n {
		return "", "", errors.New("n must be in base64url without padding, and without leading zeros")
	}
	if text, _ := strictjson.AsString(members["e"]); text != e {
		return "", "", errors.New("e must be in base64url without padding, and without leading zeros")
	}
	sum, err := (&josev4.JSONWebKey{Key: public}).Thumbprint(crypto.SHA256)
	if err != nil {
		return "", "", errors.New("has no thumbprint")
	}
	stored = fmt.Sprintf(`{"e":"%s","kty":"RSA","n":"%s"}`, e, n)
	if alg != "" {
		stored = fmt.Sprintf(`{"alg":"%s",%s`, alg, stored[1:])
	}
	return stored, base64.RawURLEncoding.EncodeToString(sum), nil
}

func isRSA(alg string) bool {
	family := algorithms[alg].family
	return family == "rsa" || family == "pss"
}

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
