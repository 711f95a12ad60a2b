package jose

import (
	"errors"
	"fmt"
	"strings"

	"attestd/crypto/strictjson"
)

// maxDepth is how deep a member of a header may nest.
const maxDepth = 128

// Header has what is read of a JOSE header.
type Header struct {
	Algorithm string // alg; "" where absent or not a string, as the next two
	Type      string // typ
	KeyID     string // kid
	JWK       []byte // jwk as it is spelt; nil where absent
	Others    int    // how many members it has beside these four
}

// Token is a compact JWS of which the form is checked and nothing else.
type Token struct {
	Header    Header
	Payload   []byte
	Signed    string // what the signature covers: the first two parts
	Signature []byte
}

// Parse reads a compact JWS of at most maxSize bytes. It checks form alone: the algorithm is judged
// by [Key.Verify], type and payload by the caller. Its errors read well after the word token and
// contain no part of it.
func Parse(compact string, maxSize int) (Token, error) {
	if len(compact) > maxSize {
		return Token{}, fmt.Errorf("is longer than %d bytes", maxSize)
	}
	head, rest, ok1 := strings.Cut(compact, ".")
	body, sig, ok2 := strings.Cut(rest, ".")
	if !ok1 || !ok2 || strings.Contains(sig, ".") {
		return Token{}, errors.New("does not have three parts")
	}
	header, ok1 := decode(head)
	payload, ok2 := decode(body)
	signature, ok3 := decode(sig)
	if !ok1 || !ok2 || !ok3 {
		return Token{}, errors.New("is not base64url without padding")
	}
	t := Token{Payload: payload, Signed: compact[:len(head)+1+len(body)], Signature: signature}
	forbidden := false
	err := strictjson.EachMember(header, maxDepth, func(name, value []byte) {
		switch string(name) {
		case "alg":
			t.Header.Algorithm, _ = strictjson.AsString(value)
		case "typ":
			t.Header.Type, _ = strictjson.AsString(value)
		case "kid":
			t.Header.KeyID, _ = strictjson.AsString(value)
		case "jwk":
			t.Header.JWK = value
		case "crit", "b64", "jku", "x5u", "x5c":
			forbidden = true
		default:
			t.Header.Others++
		}
	})
	switch {
	case err != nil: // which may hold text of the token
		return Token{}, errors.New("header is not a JSON object without duplicate members")
	case forbidden:
		return Token{}, errors.New("header has a member that is not allowed")
	}
	return t, nil
}
