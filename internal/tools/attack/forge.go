package main

import (
	"crypto/ed25519"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"attestd/crypto/keys"
)

type object = map[string]any

// kind is one kind of token: a good one that the service has issued, taken apart, to be put
// together again with something changed.
type kind struct {
	name   string
	good   string
	header object
	claims object
	doors  []string // that take it
}

// thief holds the private key of the company, as read from the file, and two keys that are not its
// own.
type thief struct {
	own, other, fresh ed25519.PrivateKey
	public            keys.Public // of own
	otherKID          string
	namespace         string // of the claims of passports
}

// stolen reads a company's private key out of the database.
func stolen(db, company string) (ed25519.PrivateKey, error) {
	file, err := sql.Open("sqlite", "file:"+db+"?mode=ro")
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var seed []byte
	if err := file.QueryRow(`SELECT seed FROM company_key WHERE ended_at IS NULL AND company = (SELECT id FROM company WHERE company_id = ?)`, company).Scan(&seed); err != nil {
		return nil, fmt.Errorf("read the private key of %s: %w", company, err)
	}
	return ed25519.NewKeyFromSeed(seed), nil
}

// takeApart reads a good token.
func takeApart(name, token string, doors ...string) (kind, error) {
	k := kind{name: name, good: token, doors: doors}
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return k, fmt.Errorf("the %s has %d parts", name, len(parts))
	}
	for i, dest := range []*object{&k.header, &k.claims} {
		text, err := base64.RawURLEncoding.DecodeString(parts[i])
		if err == nil {
			err = json.Unmarshal(text, dest)
		}
		if err != nil {
			return k, fmt.Errorf("the %s: %w", name, err)
		}
	}
	return k, nil
}

// forgery is a token that must not be accepted anywhere.
type forgery struct{ name, token string }

// signed puts a token together of any header and claims.
func signed(key ed25519.PrivateKey, header, claims []byte) string {
	text := encode(header) + "." + encode(claims)
	return text + "." + encode(ed25519.Sign(key, []byte(text)))
}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// raw is JSON that is written as it is.
func raw(text string) json.RawMessage { return json.RawMessage(text) }

// marshal writes JSON. What is raw may be no JSON at all, so the members are put together by hand.
func marshal(v any) []byte {
	switch v := v.(type) {
	case json.RawMessage:
		return v
	case object:
		var members []string
		for _, name := range slices.Sorted(maps.Keys(v)) {
			members = append(members, string(marshal(name))+":"+string(marshal(v[name])))
		}
		return []byte("{" + strings.Join(members, ",") + "}")
	case []any:
		var elements []string
		for _, e := range v {
			elements = append(elements, string(marshal(e)))
		}
		return []byte("[" + strings.Join(elements, ",") + "]")
	}
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // strings, numbers and the like
	}
	return text
}

// with copies an object and sets a member.
func with(o object, name string, value any) object {
	c := without(o, name)
	c[name] = value
	return c
}

// without copies an object and leaves a member out.
func without(o object, name string) object {
	c := object{}
	for n, v := range o {
		if n != name {
			c[n] = v
		}
	}
	return c
}
