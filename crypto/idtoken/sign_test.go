package idtoken_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"testing"

	"attestd/internal/must"
)

var hashes = map[string]crypto.Hash{"256": crypto.SHA256, "384": crypto.SHA384, "512": crypto.SHA512}

// signature signs with a key, also in a way that no library would.
func signature(t testing.TB, kind, alg, input string) []byte {
	t.Helper()
	signer := pair[kind]()
	if k, is := signer.(ed25519.PrivateKey); is {
		return ed25519.Sign(k, []byte(input))
	}
	hash := hashes[alg[len(alg)-3:]]
	h := hash.New()
	h.Write([]byte(input))
	digest := h.Sum(nil)
	switch k := signer.(type) {
	case *ecdsa.PrivateKey:
		r, s, err := ecdsa.Sign(rand.Reader, k, digest)
		must.OK(t, err)
		size := (k.Params().BitSize + 7) / 8
		out := make([]byte, 2*size)
		r.FillBytes(out[:size])
		s.FillBytes(out[size:])
		return out
	case *rsa.PrivateKey:
		var out []byte
		var err error
		if alg[:2] == "PS" {
			out, err = rsa.SignPSS(rand.Reader, k, hash, digest, &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash})
		} else {
			out, err = rsa.SignPKCS1v15(nil, k, hash, digest)
		}
		must.OK(t, err)
		return out
	}
	t.Fatalf("no key %s", kind)
	return nil
}
