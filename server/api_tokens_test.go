package server_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"attestd/internal/must"
	"attestd/store/storetest"
)

// These tests read and write tokens with the standard library alone, so that the server is not
// tested with its own code.

var b64 = base64.RawURLEncoding

// publicKey fetches a company's key from the public endpoint.
func (c caller) publicKey(t testing.TB) ed25519.PublicKey {
	t.Helper()
	return readPEM(t, c.anyone().do(t, "GET /v1/ca/public-key?companyId="+c.id, "").status(200).str("pem"))
}

func readPEM(t testing.TB, text string) ed25519.PublicKey {
	t.Helper()
	block, rest := pem.Decode([]byte(text))
	if block == nil || len(rest) > 0 {
		t.Fatalf("not one PEM block: %q", text)
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	must.OK(t, err)
	return key.(ed25519.PublicKey)
}

// privateKey reads a company's private key from the file.
func (c caller) privateKey(t testing.TB) ed25519.PrivateKey {
	t.Helper()
	file := storetest.Stranger(t, c.path)
	defer file.Close()
	var seed []byte
	var place string
	must.OK(t, file.QueryRow(`SELECT seed, replace('company_key ' || company || ' ' || generation, ' ', '`+"\n"+`')
		FROM company_key WHERE ended_at IS NULL AND company = (SELECT id FROM company WHERE company_id = '`+c.id+`')`).Scan(&seed, &place))
	if master() != nil {
		var salt string
		must.OK(t, file.QueryRow(`SELECT value FROM setting WHERE name = 'seal_salt'`).Scan(&salt))
		raw, err := hex.DecodeString(salt)
		must.OK(t, err)
		seed, err = master().Key(raw).Open(seed, place)
		must.OK(t, err)
	}
	return ed25519.NewKeyFromSeed(seed)
}

func (c caller) kid(t testing.TB) string {
	t.Helper()
	return c.anyone().do(t, "GET /v1/ca/public-key?companyId="+c.id, "").status(200).str("kid")
}

// open checks the signature of a token and returns its claims.
func open(t testing.TB, token string, key ed25519.PublicKey) (header, claims map[string]any) {
	t.Helper()
	part := strings.Split(token, ".")
	if len(part) != 3 {
		t.Fatalf("a token of %d parts", len(part))
	}
	signature, err := b64.DecodeString(part[2])
	must.OK(t, err)
	if !ed25519.Verify(key, []byte(part[0]+"."+part[1]), signature) {
		t.Fatal("the signature of a token is wrong")
	}
	for i, v := range []*map[string]any{&header, &claims} {
		raw, err := b64.DecodeString(part[i])
		must.OK(t, err)
		must.OK(t, json.Unmarshal(raw, v))
	}
	return header, claims
}

// mint signs a token with any header and claims.
func mint(t testing.TB, key ed25519.PrivateKey, header, claims any) string {
	t.Helper()
	h, err := json.Marshal(header)
	must.OK(t, err)
	c, err := json.Marshal(claims)
	must.OK(t, err)
	return signRaw(key, string(h), string(c))
}

func signRaw(key ed25519.PrivateKey, header, claims string) string {
	signed := b64.EncodeToString([]byte(header)) + "." + b64.EncodeToString([]byte(claims))
	return signed + "." + b64.EncodeToString(ed25519.Sign(key, []byte(signed)))
}

// object is a JSON object to be changed.
type object = map[string]any

// but returns an object with other values for some members; nil removes a member.
func but(o object, changes object) object {
	o = maps.Clone(o)
	for name, value := range changes {
		if value == nil {
			delete(o, name)
		} else {
			o[name] = value
		}
	}
	return o
}

// svidHeader and svidClaims are those of a valid SVID or delegation token.
func (c caller) svidHeader(t testing.TB) object {
	return object{"alg": "EdDSA", "kid": c.kid(t), "typ": "JWT"}
}

func svidClaims(sub string) object {
	now := time.Now().Unix()
	return object{
		"iss": "spiffe://attestd.local/ca", "sub": sub, "aud": []string{"service"},
		"iat": now, "nbf": now, "exp": now + 3600, "jti": uuid.NewString(),
	}
}

// checkSVID compares an SVID with the documented decisions: header, claims, lifetime and signature.
func (c caller) checkSVID(t testing.TB, token, sub string) {
	t.Helper()
	header, claims := open(t, token, c.publicKey(t))
	same(t, "header", header, object{"alg": "EdDSA", "kid": c.kid(t), "typ": "JWT"})
	same(t, "claims", claims, `{"iss":"spiffe://attestd.local/ca","sub":"`+sub+`","aud":["service"],"iat":"<number>","nbf":"<number>","exp":"<number>","jti":"<uuid>"}`)
	checkTimes(t, claims, 3600)
}

// checkTimes demands that a token was issued just now and is valid for the given number of seconds.
func checkTimes(t testing.TB, claims map[string]any, seconds float64) {
	t.Helper()
	iat, nbf, exp := claims["iat"].(float64), claims["nbf"].(float64), claims["exp"].(float64)
	if now := float64(time.Now().Unix()); iat > now || iat < now-60 {
		t.Errorf("iat %v is not now, %v", iat, now)
	}
	if nbf != iat || exp != iat+seconds {
		t.Errorf("iat %v, nbf %v and exp %v, want a lifetime of %v", iat, nbf, exp, seconds)
	}
}

// same compares a value with another, or with a shape.
func same(t testing.TB, what string, got, want any) {
	t.Helper()
	shape, isShape := want.(string)
	if !isShape {
		raw, err := json.Marshal(want)
		must.OK(t, err)
		shape = string(raw)
	}
	raw, err := json.Marshal(got)
	must.OK(t, err)
	if err := like(t, shape, raw); err != nil {
		t.Errorf("%s: %v\n%s", what, err, raw)
	}
}

func otherKey(t testing.TB) ed25519.PrivateKey {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	must.OK(t, err)
	return key
}
