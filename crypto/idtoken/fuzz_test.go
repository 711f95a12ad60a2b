package idtoken_test

import (
	"encoding/json"
	"testing"

	"attestd/crypto/idtoken"
	"attestd/crypto/jose/josetest"
	"attestd/internal/must"
)

// FuzzClaims signs what it is given, to reach the code behind the signature. What passes says the
// same to encoding/json.
func FuzzClaims(f *testing.F) {
	d := sound(f, "ES256")
	f.Add(josetest.Marshal(f, d.header), josetest.Marshal(f, d.claims))
	f.Add([]byte(`{"alg":"ES256"}`), []byte(`{"iss":"`+issuer+`","sub":"s","aud":["`+audience+`"],"exp":1.772367e9,"nbf":0e0,"x":{"exp":1}}`))
	f.Add([]byte(`{"alg":"none"}`), []byte(`{}`))
	keys := keySet(f, d.keys...)
	f.Fuzz(func(t *testing.T, header, claims []byte) {
		token, err := idtoken.Parse(forge(t, "p256", "ES256", header, claims))
		if err == nil {
			err = token.Check(keys, idtoken.Wanted{Issuer: issuer, Audience: audience}, now)
		}
		if refusal(t, err) != "" {
			return
		}
		var read, head object // which have names as they are, unlike a struct
		must.OK(t, json.Unmarshal(claims, &read))
		must.OK(t, json.Unmarshal(header, &head))
		exp, _ := read["exp"].(float64)
		aud := read["aud"]
		if list, ok := aud.([]any); ok && len(list) == 1 {
			aud = list[0]
		}
		if head["alg"] != "ES256" || read["iss"] != issuer || aud != audience || read["sub"] != token.Subject || int64(exp) <= now.Unix() || int64(exp) > now.Unix()+86400 {
			t.Fatalf("%s %s passes", header, claims)
		}
		for name, value := range read {
			if raw, is := token.Claims.At(name); (name == "" || name[0] != '/') && (!is || !json.Valid(raw)) {
				t.Fatalf("claim %q is %q, not %v", name, raw, value)
			}
		}
	})
}

// FuzzParse holds that nothing panics, and whatever passes has an issuer and a subject.
func FuzzParse(f *testing.F) {
	f.Add(sound(f, "ES256").sign(f))
	f.Add("e30.e30.AA")
	f.Fuzz(func(t *testing.T, compact string) {
		token, err := idtoken.Parse(compact)
		if refusal(t, err) == "" && (token.Issuer == "" || token.Subject == "" || len(compact) > idtoken.MaxSize) {
			t.Fatalf("%q passes", compact)
		}
	})
}

// FuzzKeySet holds that nothing panics, and whatever passes has a key.
func FuzzKeySet(f *testing.F) {
	f.Add(document(f, jwk(f, "p256", object{"kid": "k1"}), jwk(f, "ed25519", nil)))
	f.Add([]byte(`{"keys":[{"kty":"RSA","n":"AQ","e":"AQAB"}]}`))
	f.Fuzz(func(t *testing.T, document []byte) {
		set, err := idtoken.ParseKeySet(document)
		if err == nil && (set.Len() == 0 || !json.Valid(document)) {
			t.Fatalf("%s passes", document)
		}
	})
}
