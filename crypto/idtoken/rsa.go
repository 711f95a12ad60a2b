package idtoken

import (
	"crypto"
	"crypto/rsa"
	"encoding/base64"
	"errors"
	"fmt"
	"math/big"
	"slices"

	josev4 "github.com/go-jose/go-jose/v4"

	"attestd/crypto/strictjson"
)

// IsRSA reports whether a JWK says that it is of RSA.
func IsRSA(jwk []byte) (is bool) {
	_ = strictjson.EachMember(jwk, maxDepth, func(name, value []byte) {
		kty, _ := strictjson.AsString(value)
		is = is || string(name) == "kty" && kty == "RSA"
	})
	return is
}

// ParseRSA reads the JWK of a public RSA key for signatures by some algorithms (RFC 7518 §6.3.1),
// and returns the one form in which it is stored, with its thumbprint (RFC 7638). Its alg is kept
// where it has one, since it says which of the algorithms it is for. The errors read well after
// the word jwk and contain nothing of it.
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
