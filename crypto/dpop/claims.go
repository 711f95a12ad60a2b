package dpop

import (
	"attestd/crypto/jose"
	"attestd/crypto/strictjson"
)

// claims are those of a proof that are read.
type claims struct {
	id, method, url, ath, nonce string
	iat                         int64
	exp, nbf                    *int64
}

func readClaims(payload []byte) (claims, error) {
	var jti, htm, htu, iat, ath, exp, nbf, nonce []byte
	err := strictjson.EachMember(payload, maxDepth, func(name, value []byte) {
		switch string(name) {
		case "jti":
			jti = value
		case "htm":
			htm = value
		case "htu":
			htu = value
		case "iat":
			iat = value
		case "ath":
			ath = value
		case "exp":
			exp = value
		case "nbf":
			nbf = value
		case "nonce":
			nonce = value
		}
	})
	if err != nil {
		return claims{}, refuse("claims are not a JSON object without duplicate members")
	}
	var c claims
	var ok [8]bool
	c.id, ok[0] = strictjson.AsString(jti)
	c.method, ok[1] = strictjson.AsString(htm)
	c.url, ok[2] = strictjson.AsString(htu)
	c.iat, ok[3] = jose.NumericDate(iat)
	c.ath, ok[4] = strictjson.AsString(ath)
	c.exp, ok[5] = asTimeOrNone(exp)
	c.nbf, ok[6] = asTimeOrNone(nbf)
	c.nonce, ok[7] = strictjson.AsString(nonce)
	switch {
	case !ok[0] || !jose.IsID(c.id):
		return claims{}, refuse("has no jti of 1 to 128 visible ASCII characters")
	case !ok[1] || c.method == "":
		return claims{}, refuse("has no htm, the method of the request")
	case !ok[2]:
		return claims{}, refuse("has no htu, the URL of the request")
	case !ok[3]:
		return claims{}, refuse("has no iat in Unix seconds")
	case ath != nil && !ok[4]:
		return claims{}, refuse("has an ath that is no string")
	case !ok[5] || !ok[6]:
		return claims{}, refuse("has an exp or nbf that is no number of Unix seconds")
	case nonce != nil && (!ok[7] || len(c.nonce) > MaxNonce):
		return claims{}, refuse("has a nonce that is no string of at most 256 bytes")
	}
	return c, nil
}

func asTimeOrNone(value []byte) (*int64, bool) {
	if value == nil {
		return nil, true
	}
	seconds, ok := jose.NumericDate(value)
	return &seconds, ok
}
