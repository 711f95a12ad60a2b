package service

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"attestd/crypto/tokenkey"
	"attestd/store"
)

// The issuer takes back what it has signed as the same type for the same company, before it ends,
// and nothing else: no token that a former key has dated after its end.
func TestIssuerChecksItsTokens(t *testing.T) {
	t.Parallel()
	db, company := newCompany(t)
	issuers := &Issuers{Store: db, Agents: &Agents{Store: db}}
	start := time.Now().Add(time.Minute).Truncate(time.Second)
	at := func(after time.Duration) store.Caller { return store.Caller{Company: company, At: start.Add(after)} }
	claims := func(iss string, iat, exp time.Duration) []byte {
		return fmt.Appendf(nil, `{"iss":%q,"iat":%d,"nbf":%[2]d,"exp":%d}`, iss, start.Add(iat).Unix(), start.Add(exp).Unix())
	}
	sign := func(by store.Caller, algorithm, typ string, claims []byte) string {
		token, err := issuers.Sign(t.Context(), by, algorithm, typ, claims)
		fatal(t, err)
		return token
	}
	iss := IssuerOf("https://id.example", company.ID)
	for _, algorithm := range tokenkey.Algorithms {
		good := claims(iss, 0, time.Minute)
		token := sign(at(0), algorithm, TypeAccessToken, good)
		content, err := issuers.Check(t.Context(), at(59*time.Second), token, TypeAccessToken)
		fatal(t, err)
		if string(content) != string(good) {
			t.Errorf("%s: %s", algorithm, content)
		}
		other := store.Caller{Company: &store.Company{ID: company.ID, Chain: company.Chain + 1}, At: start}
		swapped := token[:strings.LastIndexByte(token, '.')] + "." + strings.Repeat("A", 86)
		for what, refused := range map[string]struct {
			by    store.Caller
			token string
			typ   string
		}{
			"another type":       {at(0), token, TypeJWT},
			"ended":              {at(time.Minute), token, TypeAccessToken},
			"of tomorrow":        {at(-time.Second), token, TypeAccessToken},
			"another company":    {other, token, TypeAccessToken},
			"another signature":  {at(0), swapped, TypeAccessToken},
			"another issuer":     {at(0), sign(at(0), algorithm, TypeAccessToken, claims(iss+"e", 0, time.Minute)), TypeAccessToken},
			"without an end":     {at(0), sign(at(0), algorithm, TypeAccessToken, []byte(`{"iss":"`+iss+`"}`)), TypeAccessToken},
			"two ends":           {at(0), sign(at(0), algorithm, TypeAccessToken, []byte(`{"iss":"`+iss+`","exp":9999999999,"exp":9999999999}`)), TypeAccessToken},
			"not even a token":   {at(0), "a.b.c", TypeAccessToken},
			"an SVID of our own": {at(0), company.Issuer.SVID("spiffe://a/b", start), TypeJWT},
		} {
			if _, err := issuers.Check(t.Context(), refused.by, refused.token, refused.typ); !errors.Is(err, ErrNotIssued) {
				t.Errorf("%s, %s: %v", algorithm, what, err)
			}
		}
	}
	late := sign(at(0), tokenkey.ES256, TypeJWT, claims(iss, 20*time.Minute, 50*time.Minute))
	soon := sign(at(0), tokenkey.ES256, TypeJWT, claims(iss, 0, 50*time.Minute))
	// a key signs from when it was made on, which takes a while for RSA
	_, _, err := db.Companies.RotateKey(t.Context(), at(2*time.Minute), false)
	fatal(t, err)
	if _, err := issuers.Check(t.Context(), at(30*time.Minute), soon, TypeJWT); err != nil {
		t.Errorf("a token of a former key: %v", err)
	}
	if _, err := issuers.Check(t.Context(), at(30*time.Minute), late, TypeJWT); !errors.Is(err, ErrNotIssued) {
		t.Errorf("a token that a former key dates after its end: %v", err)
	}
}
