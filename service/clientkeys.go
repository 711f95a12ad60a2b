package service

import (
	"encoding/json"
	"errors"
	"fmt"

	"attestd/crypto/assertion"
	"attestd/crypto/idtoken"
	"attestd/crypto/jcs"
	"attestd/crypto/jose"
	"attestd/crypto/strictjson"
)

// maxClientKeys is how many keys an OAuth client may have: a present one and the next, for a few
// machines.
const maxClientKeys = 8

// ParseClientKeys reads the JWK set (RFC 7517 §5) of an OAuth client and returns the one form in
// which it is stored. A kid is taken as it is; where it is there, no two keys have the same.
func ParseClientKeys(jwks []byte) (stored string, err error) {
	keys, err := readClientKeys(jwks)
	if err != nil {
		return "", refuse(Invalid, "Invalid field: jwks "+err.Error())
	}
	text, err := json.Marshal(map[string]any{"keys": keys})
	if err == nil {
		text, err = jcs.Append(nil, text, 8)
	}
	return string(text), err
}

// readClientKeys returns the members of each key that are stored.
func readClientKeys(jwks []byte) (keys []map[string]json.RawMessage, err error) {
	var list []byte
	if err := strictjson.EachMember(jwks, MaxDepth, func(name, value []byte) {
		if string(name) == "keys" {
			list = value
		}
	}); err != nil {
		return nil, errors.New("is not a JSON object without duplicate members")
	}
	var texts []json.RawMessage
	if err := json.Unmarshal(list, &texts); err != nil || len(texts) == 0 || len(texts) > maxClientKeys {
		return nil, fmt.Errorf("must have keys, 1 to %d of them", maxClientKeys)
	}
	names := make(map[string]bool)
	for i, text := range texts {
		jwk, thumbprint, err := parseClientKey(text)
		if err != nil {
			return nil, fmt.Errorf("has a key, number %d, that %w", i, err)
		}
		given := []byte("null")
		// parseClientKey has read it, so there is no error
		_ = strictjson.EachMember(text, MaxDepth, func(name, value []byte) {
			if string(name) == "kid" {
				given = value
			}
		})
		kid, ok := strictjson.AsString(given)
		if string(given) != "null" && (!ok || kid == "" || len(kid) > 128) {
			return nil, fmt.Errorf("has a key, number %d, whose kid is not a text of 1 to 128 bytes", i)
		}
		if names[kid] && kid != "" || names[thumbprint] {
			return nil, fmt.Errorf("has key number %d twice, or two keys with one kid", i)
		}
		names[kid], names[thumbprint] = true, true
		members := make(map[string]json.RawMessage)
		if err := json.Unmarshal([]byte(jwk), &members); err != nil {
			return nil, err
		}
		if kid != "" {
			members["kid"] = jcs.AppendString(nil, kid)
		}
		keys = append(keys, members)
	}
	return keys, nil
}

// parseClientKey reads one key: of the kinds that agents have, or of RSA.
func parseClientKey(text []byte) (jwk, thumbprint string, err error) {
	if idtoken.IsRSA(text) {
		return idtoken.ParseRSA(text, assertion.ClientAlgorithms)
	}
	key, err := jose.ParseKey(text)
	if err != nil {
		return "", "", err
	}
	return key.JWK(), key.Thumbprint, nil
}
