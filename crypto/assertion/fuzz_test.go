package assertion_test

import (
	"encoding/base64"
	"encoding/json"
	"testing"

	"attestd/crypto/assertion"
	"attestd/crypto/jose/josetest"
	"attestd/internal/must"
)

// FuzzParse holds that whatever passes has a subject, a key and an ID, and nothing else panics.
func FuzzParse(f *testing.F) {
	for _, algorithm := range algorithms {
		compact, err := assertion.Make(f.Context(), josetest.PrivateKey(f, algorithm), agent, endpoint, now)
		must.OK(f, err)
		f.Add(compact)
	}
	f.Add("e30.e30.AA")
	f.Fuzz(func(t *testing.T, compact string) {
		a, err := assertion.Parse(compact)
		if refusal(t, err) == "" && (a.Subject == "" || a.KeyID == "" || a.ID == "" || len(compact) > assertion.MaxSize) {
			t.Fatalf("%q passes as %+v", compact, a)
		}
	})
}

// FuzzClaims signs what it is given, to reach the code behind the signature. What passes says the
// same to encoding/json.
func FuzzClaims(f *testing.F) {
	for _, algorithm := range algorithms {
		d := sound(f, algorithm)
		f.Add(algorithm == algorithms[0], josetest.Marshal(f, d.header), josetest.Marshal(f, d.claims))
	}
	d := sound(f, algorithms[0])
	f.Add(true, josetest.Marshal(f, d.header), []byte(`{"iss":"`+agent+`","sub":"`+agent+`","aud":["`+issuer+`"],"jti":"a","exp":1.77236646e9,"iat":0.5,"nbf":0e0,"x":{"exp":1}}`))
	f.Add(true, []byte(`{"alg":"none"}`), []byte(`{}`))
	f.Fuzz(func(t *testing.T, first bool, header, claims []byte) {
		key := josetest.PrivateKey(t, algorithms[0])
		if !first {
			key = josetest.PrivateKey(t, algorithms[1])
		}
		a, err := check(josetest.Forge(t, key, header, claims), key.Key())
		if refusal(t, err) != "" {
			return
		}
		var read, head map[string]any // which have names as they are, unlike a struct
		must.OK(t, json.Unmarshal(claims, &read))
		must.OK(t, json.Unmarshal(header, &head))
		exp, _ := read["exp"].(float64)
		if a.Ends.Unix() != int64(exp) || !a.Ends.After(now) || a.Ends.Sub(now) > assertion.MaxLifetime {
			t.Fatalf("%s ends at %s", claims, a.Ends)
		}
		for _, name := range []string{"iat", "nbf"} {
			if at, _ := read[name].(float64); int64(at) > now.Add(assertion.MaxAhead).Unix() {
				t.Fatalf("%s passes", claims)
			}
		}
		audience := read["aud"]
		if list, ok := audience.([]any); ok && len(list) == 1 {
			audience = list[0]
		}
		if read["iss"] != a.Subject || read["sub"] != a.Subject || read["jti"] != a.ID || audience != endpoint && audience != issuer {
			t.Fatalf("%s passes", claims)
		}
		if head["kid"] != key.Key().Thumbprint || head["alg"] == "none" {
			t.Fatalf("%s passes", header)
		}
	})
}

func undo(t testing.TB, s string) []byte {
	t.Helper()
	b, err := base64.RawURLEncoding.DecodeString(s)
	must.OK(t, err)
	return b
}
