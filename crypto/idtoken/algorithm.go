package idtoken

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	_ "crypto/sha256" // hashes of the algorithms
	_ "crypto/sha512"
	"math/big"

	"attestd/crypto/jose"
)

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
