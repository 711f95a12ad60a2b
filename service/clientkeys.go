package service

import (
	"encoding/json"
	"errors"
	"fmt"

	"attestd/crypto/jcs"
	"attestd/crypto/jose"
	"attestd/crypto/strictjson"
)

// maxClientKeys is how many keys an OAuth client may have: a present one and the next, for a few
// machines.
const maxClientKeys = 8

// clientKey is a public key of an OAuth client, with its name in the client's key set.
type clientKey struct {
	*jose.Key
	kid string // "" for none
}

// ParseClientKeys reads the JWK set (RFC 7517 §5) of an OAuth client and returns the one form in
// which it is stored. A kid is taken as it is; where it is there, no two keys have the same.
func ParseClientKeys(jwks []byte) (stored string, err error) {
	keys, err := readClientKeys(jwks)
	if err != nil {
		return "", refuse(Invalid, "Invalid field: jwks "+err.Error())
	}
	var set struct {
		Keys []map[string]json.RawMessage `json:"keys"`
	}
	for _, k := range keys {
		member := make(map[string]json.RawMessage)
		if err := json.Unmarshal([]byte(k.JWK()), &member); err != nil {
			return "", err
		}
		if k.kid != "" {
			member["kid"] = jcs.AppendString(nil, k.kid)
		}
		set.Keys = append(set.Keys, member)
	}
	text, err := json.Marshal(set)
	if err == nil {
		text, err = jcs.Append(nil, text, 8)
	}
	return string(text), err
}

func readClientKeys(jwks []byte) (keys []clientKey, err error) {
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
		k := clientKey{}
		if k.Key, err = jose.ParseKey(text); err != nil {
			return nil, fmt.Errorf("has a key, number %d, that %w", i, err)
		}
		kid := []byte("null")
		_ = strictjson.EachMember(text, MaxDepth, func(name, value []byte) { // ParseKey has read it
			if string(name) == "kid" {
				kid = value
			}
		})
		var ok bool
		if k.kid, ok = strictjson.AsString(kid); string(kid) != "null" && (!ok || k.kid == "" || len(k.kid) > 128) {
			return nil, fmt.Errorf("has a key, number %d, whose kid is not a text of 1 to 128 bytes", i)
		}
		if names[k.kid] && k.kid != "" || names[k.Thumbprint] {
			return nil, fmt.Errorf("has key number %d twice, or two keys with one kid", i)
		}
		names[k.kid], names[k.Thumbprint] = true, true
		keys = append(keys, k)
	}
	return keys, nil
}
