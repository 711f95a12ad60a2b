package action

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"

	"attestd/chain/action/mask"
	"attestd/crypto/jcs"
	"attestd/crypto/strictjson"
)

// maxHead is the maximum size in bytes of a recorded beginning.
const maxHead = 1 << 10

// value returns the recorded form of a JSON value, or nil for an absent one.
func (p Policy) value(raw json.RawMessage, hashed bool) []byte {
	if len(raw) == 0 {
		return nil
	}
	canonical, err := jcs.Append(nil, p.Mask.JSON(raw), mask.MaxDepth)
	if err != nil { // it is not JSON, or has no canonical form
		return p.text(string(raw), hashed)
	}
	return p.bound(canonical, hashed)
}

// text returns the recorded form of a text, or nil for an empty one.
func (p Policy) text(s string, hashed bool) []byte {
	if s == "" {
		return nil
	}
	return p.bound(appendText(nil, p.Mask.Text(s)), hashed)
}

// Member returns the recorded form of a JSON value, of which everything is masked if it is below
// the name of a secret. With hashed it is its hash and size.
func (p Policy) Member(raw json.RawMessage, secret, hashed bool) []byte {
	if !secret {
		return p.value(raw, hashed)
	}
	canonical, err := jcs.Append(nil, p.Mask.SecretJSON(raw), mask.MaxDepth)
	if err != nil {
		return appendText(nil, p.Mask.Whole(string(raw)))
	}
	return p.bound(canonical, hashed)
}

// MemberText is Member for a text.
func (p Policy) MemberText(s string, secret, hashed bool) []byte {
	switch {
	case s == "":
		return []byte(`""`)
	case secret:
		return appendText(nil, p.Mask.SecretText(s))
	}
	return p.text(s, hashed)
}

// bound returns the canonical value, or its hash and size if it is too long or redacted.
func (p Policy) bound(canonical []byte, hashed bool) []byte {
	limit := p.Limit
	if limit == 0 {
		limit = DefaultLimit
	}
	if !hashed && len(canonical) <= limit {
		return canonical
	}
	sum := sha256.Sum256(canonical)
	short := []byte(`{"sha256":"` + hex.EncodeToString(sum[:]) + `","bytes":` + strconv.Itoa(len(canonical)))
	if !hashed {
		head, isText := strictjson.AsString(canonical)
		if !isText {
			head = string(canonical)
		}
		short = appendText(append(short, `,"head":`...), cut(head, min(maxHead, limit)))
	}
	return append(short, '}')
}
