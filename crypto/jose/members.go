package jose

import (
	"errors"
	"slices"

	"attestd/crypto/strictjson"
)

// members are those of a JWK that are read, as they are spelt; nil where absent.
type members struct {
	kty, crv, x, y, d []byte
	alg, use, ops     []byte
	private           bool // it has members of another kind of private or secret key
	other             bool // it has public members of another kind of key
}

// readMembers never says what it read: the errors of the parser hold text, which may be secret.
func readMembers(jwk []byte) (members, error) {
	var m members
	if len(jwk) > maxJWK {
		return m, errors.New("is longer than 4096 bytes")
	}
	err := strictjson.EachMember(jwk, maxDepth, func(name, value []byte) {
		switch string(name) {
		case "kty":
			m.kty = value
		case "crv":
			m.crv = value
		case "x":
			m.x = value
		case "y":
			m.y = value
		case "alg":
			m.alg = value
		case "use":
			m.use = value
		case "key_ops":
			m.ops = value
		case "d":
			m.d = value
		case "p", "q", "dp", "dq", "qi", "oth", "k":
			m.private = true
		case "n", "e":
			m.other = true
		}
	})
	if err != nil {
		return m, errors.New("is not a JSON object without duplicate members")
	}
	return m, nil
}

// key makes the public key and checks what the JWK says about its use. operation is the member of
// key_ops that must be there.
func (m members) key(operation string) (*Key, error) {
	var k *Key
	kty, _ := strictjson.AsString(m.kty)
	crv, _ := strictjson.AsString(m.crv)
	x, okX := coordinate(m.x)
	y, okY := coordinate(m.y)
	var err error
	switch {
	case kty == "OKP" && crv == "Ed25519":
		if m.y != nil || m.other || m.private {
			return nil, errors.New("has members of another kind of key")
		}
		if !okX {
			return nil, errors.New("x must be 32 bytes in base64url without padding")
		}
		k, err = newEd25519(x)
	case kty == "EC" && crv == "P-256":
		if m.other || m.private {
			return nil, errors.New("has members of another kind of key")
		}
		if !okX || !okY {
			return nil, errors.New("x and y must be 32 bytes each in base64url without padding")
		}
		k, err = newP256(slices.Concat([]byte{4}, x, y))
	default:
		return nil, errors.New(`must be of kty "OKP" with crv "Ed25519", or of kty "EC" with crv "P-256"`)
	}
	if err != nil {
		return nil, err
	}
	return k, m.fits(k, operation)
}

// fits checks alg, use and key_ops where they are there.
func (m members) fits(k *Key, operation string) error {
	if alg, ok := strictjson.AsString(m.alg); m.alg != nil && (!ok || !k.accepts(alg)) {
		return errors.New("alg is not that of the key")
	}
	if use, ok := strictjson.AsString(m.use); m.use != nil && (!ok || use != "sig") {
		return errors.New(`use must be "sig"`)
	}
	if m.ops == nil {
		return nil
	}
	ops, ok := strictjson.AsStrings(m.ops)
	slices.Sort(ops)
	if !ok || !slices.Contains(ops, operation) || len(slices.Compact(slices.Clone(ops))) != len(ops) {
		return errors.New("key_ops must be distinct and include " + operation)
	}
	return nil
}

// coordinate reads 32 bytes in base64url.
func coordinate(value []byte) ([]byte, bool) {
	text, ok := strictjson.AsString(value)
	if !ok {
		return nil, false
	}
	b, ok := decode(text)
	return b, ok && len(b) == size
}
