package attack

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

// kind is one kind of token: a valid one from the service, decoded, so that it can be encoded with
// changes.
type kind struct {
	name   string
	good   string
	header object
	claims object
	doors  []string // endpoints that accept it
}

// thief has the private key of the company, read from the file, and two other keys.
type thief struct {
	own, other, fresh ed25519.PrivateKey
	public            keys.Public // of own
	otherKID          string
	namespace         string // of the claims of passports
}

// stolen reads a company's private key from the database.
func stolen(db, company string) (ed25519.PrivateKey, error) {
	file, err := sql.Open("sqlite", "file:"+db+"?mode=ro")
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var seed []byte
	if err := file.QueryRow(`SELECT seed FROM company_key WHERE ended_at IS NULL AND company = (SELECT id FROM company
		WHERE company_id = ?)`, company).Scan(&seed); err != nil {
		return nil, fmt.Errorf("read the private key of %s: %w", company, err)
	}
	return ed25519.NewKeyFromSeed(seed), nil
}

// takeApart decodes a valid token.
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

// forgery is a token that no endpoint may accept.
type forgery struct{ name, token string }

// signed makes a token of any header and claims.
func signed(key ed25519.PrivateKey, header, claims []byte) string {
	text := encode(header) + "." + encode(claims)
	return text + "." + encode(ed25519.Sign(key, []byte(text)))
}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// raw is JSON that is written unchanged.
func raw(text string) json.RawMessage { return json.RawMessage(text) }

// marshal encodes JSON. A raw value may be invalid JSON, so marshal writes the members itself.
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

// with returns a copy of an object with a changed member.
func with(o object, name string, value any) object {
	c := without(o, name)
	c[name] = value
	return c
}

// without returns a copy of an object without a member.
func without(o object, name string) object {
	c := object{}
	for n, v := range o {
		if n != name {
			c[n] = v
		}
	}
	return c
}
