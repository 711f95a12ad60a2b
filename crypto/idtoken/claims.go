package idtoken

import (
	"strings"

	"attestd/crypto/strictjson"
)

// Claims are the claims of a token, as they are spelt.
type Claims struct{ members map[string][]byte }

// ParseClaims reads the payload of a token. Every error is an *Error.
func ParseClaims(payload []byte) (Claims, error) {
	c := Claims{make(map[string][]byte, 16)}
	err := strictjson.EachMember(payload, maxDepth, func(name, value []byte) { c.members[string(name)] = value })
	switch {
	case err == strictjson.ErrKind && len(payload) > 0 && payload[0] == '"':
		return Claims{}, refuse("is one around another: send the inner one")
	case err != nil: // which may hold text of the token
		return Claims{}, refuse("has claims that are not a JSON object without duplicate members")
	}
	return c, nil
}

// At returns the value of a claim as it is spelt. A name that begins with / is a JSON Pointer (RFC
// 6901) into objects, such as /kubernetes.io/namespace; any other is that of a claim itself. A list
// is not entered.
func (c Claims) At(name string) (value []byte, is bool) {
	if !strings.HasPrefix(name, "/") {
		value, is = c.members[name]
		return value, is
	}
	members := c.members
	for parts := strings.Split(name[1:], "/"); ; parts = parts[1:] {
		value, is = members[unescape(parts[0])]
		if !is || len(parts) == 1 {
			return value, is
		}
		members = make(map[string][]byte)
		// an error is that of another kind: duplicates were refused when the claims were read
		if strictjson.EachMember(value, maxDepth, func(name, value []byte) { members[string(name)] = value }) != nil {
			return nil, false
		}
	}
}

var pointerEscapes = strings.NewReplacer("~1", "/", "~0", "~")

func unescape(part string) string { return pointerEscapes.Replace(part) }
