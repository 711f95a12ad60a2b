package assertion_test

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"strings"
	"testing"
	"time"

	josev4 "github.com/go-jose/go-jose/v4"
	"github.com/golang-jwt/jwt/v5"

	"attestd/crypto/assertion"
	"attestd/crypto/idtoken"
	"attestd/crypto/jose"
	"attestd/crypto/jose/josetest"
	"attestd/internal/must"
)

const client = "cc_ABCDEFGHIJKLMNOPQRSTUVWXYZ"

// Assertions that golang-jwt signs with an RSA key pass, by both algorithms and however kid names
// the key; what is wrong with one is refused as it is of an agent's, and so is whatever turns the
// public key into another kind.
func TestClientAssertions(t *testing.T) {
	t.Parallel()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	must.OK(t, err)
	other, err := rsa.GenerateKey(rand.Reader, 2048)
	must.OK(t, err)
	agents := josetest.PrivateKey(t, jose.ES256)
	document := josetest.Marshal(t, josev4.JSONWebKeySet{Keys: []josev4.JSONWebKey{{Key: key.Public(), KeyID: "r"}}})
	keys, err := idtoken.ParseKeySet(document)
	must.OK(t, err)
	claims := func(change object) jwt.MapClaims {
		c := jwt.MapClaims{"iss": client, "sub": client, "aud": endpoint, "jti": "j", "iat": now.Unix(), "exp": now.Unix() + 60}
		for name, value := range change {
			if c[name] = value; value == nil {
				delete(c, name)
			}
		}
		return c
	}
	sign := func(method jwt.SigningMethod, with any, kid string, c jwt.MapClaims) string {
		token := jwt.NewWithClaims(method, c)
		if kid != "" {
			token.Header["kid"] = kid
		}
		text, err := token.SignedString(with)
		must.OK(t, err)
		return text
	}
	check := func(text string) error {
		a, err := assertion.Parse(text)
		if err == nil {
			err = a.CheckClient(keys, audiences, now)
		}
		return err
	}
	good := sign(jwt.SigningMethodRS256, key, "r", claims(nil))
	parts := func(text string, n int) string { return strings.Join(strings.Split(text, ".")[:n], ".") }
	salted := &jwt.SigningMethodRSAPSS{SigningMethodRSA: jwt.SigningMethodPS256.SigningMethodRSA, Options: &rsa.PSSOptions{SaltLength: 20}}
	spki, err := x509.MarshalPKIXPublicKey(key.Public())
	must.OK(t, err)
	mac := func(secret []byte) string {
		input := parts(sign(jwt.SigningMethodHS256, secret, "r", claims(nil)), 2)
		m := hmac.New(sha256.New, secret)
		m.Write([]byte(input))
		return input + "." + josetest.Encode(m.Sum(nil))
	}
	for name, test := range map[string]struct{ text, want string }{
		"RS256":                     {good, ""},
		"PS256":                     {sign(jwt.SigningMethodPS256, key, "r", claims(nil)), ""},
		"no kid":                    {sign(jwt.SigningMethodRS256, key, "", claims(nil)), ""},
		"aud a list of one":         {sign(jwt.SigningMethodRS256, key, "r", claims(object{"aud": []string{issuer}})), ""},
		"RS384":                     {sign(jwt.SigningMethodRS384, key, "r", claims(nil)), "no key"},
		"RS512":                     {sign(jwt.SigningMethodRS512, key, "r", claims(nil)), "no key"},
		"PS512":                     {sign(jwt.SigningMethodPS512, key, "r", claims(nil)), "no key"},
		"a salt of another length":  {sign(salted, key, "r", claims(nil)), "no key"},
		"none":                      {sign(jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, "r", claims(nil)), "no key"},
		"HS256 with the modulus":    {mac(key.N.Bytes()), "no key"},
		"HS256 with the public key": {mac(spki), "no key"},
		"HS256 with the key set":    {mac(document), "no key"},
		"another key":               {sign(jwt.SigningMethodRS256, other, "r", claims(nil)), "no key"},
		"another kid":               {sign(jwt.SigningMethodRS256, key, "s", claims(nil)), "no key"},
		"another kind":              {josetest.Forge(t, agents, []byte(`{"alg":"ES256","kid":"r"}`), josetest.Marshal(t, claims(nil))), "no key"},
		"an agent's":                {sign(jwt.SigningMethodRS256, key, agents.Key().Thumbprint, claims(object{"iss": agent, "sub": agent})), "no key"},
		"changed":                   {parts(sign(jwt.SigningMethodRS256, key, "r", claims(object{"jti": "k"})), 2) + good[strings.LastIndexByte(good, '.'):], "no key"},
		"another audience":          {sign(jwt.SigningMethodRS256, key, "r", claims(object{"aud": "https://other.example"})), "aud"},
		"two audiences":             {sign(jwt.SigningMethodRS256, key, "r", claims(object{"aud": audiences})), "one aud"},
		"ended":                     {sign(jwt.SigningMethodRS256, key, "r", claims(object{"exp": now.Unix()})), "ended"},
		"an hour":                   {sign(jwt.SigningMethodRS256, key, "r", claims(object{"exp": now.Add(time.Hour).Unix()})), ""},
		"by a clock that is ahead":  {sign(jwt.SigningMethodRS256, key, "r", claims(object{"iat": now.Unix() + 60, "exp": now.Add(time.Hour + time.Minute).Unix()})), ""},
		"too long":                  {sign(jwt.SigningMethodRS256, key, "r", claims(object{"exp": now.Add(time.Hour + time.Minute + time.Second).Unix()})), "an hour"},
		"not yet":                   {sign(jwt.SigningMethodRS256, key, "r", claims(object{"nbf": now.Unix() + 61})), "not valid yet"},
		"from the future":           {sign(jwt.SigningMethodRS256, key, "r", claims(object{"iat": now.Unix() + 61})), "iat"},
		"no jti":                    {sign(jwt.SigningMethodRS256, key, "r", claims(object{"jti": nil})), "jti"},
		"no exp":                    {sign(jwt.SigningMethodRS256, key, "r", claims(object{"exp": nil})), "exp"},
		"two subjects":              {sign(jwt.SigningMethodRS256, key, "r", claims(object{"iss": client + "A"})), "iss and as sub"},
	} {
		if got := refusal(t, check(test.text)); (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
	// a client's assertion is no agent's, whatever key it names
	text := josetest.Forge(t, agents, josetest.Marshal(t, object{"alg": "ES256", "kid": agents.Key().Thumbprint}), josetest.Marshal(t, claims(nil)))
	a, err := assertion.Parse(text)
	must.OK(t, err)
	if a.Check(agents.Key(), audiences, now) == nil {
		t.Error("a client signs in as an agent")
	}
}
