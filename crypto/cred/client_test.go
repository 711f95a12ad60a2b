package cred_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"attestd/crypto/cred"
)

func clock() time.Time { return now }

// A standard client that knows nothing but the published JWK reads every kind of token.
func TestStandardClientReadsOurTiles(t *testing.T) {
	t.Parallel()
	i := newIssuer("acme")
	passport, _, err := i.Passport("build-bot", []string{"tool:*"}, nil, "", time.Hour, now)
	if err != nil {
		t.Fatal(err)
	}
	delegation, _, err := i.Delegate(cred.Delegation{Subject: domain.CompanyID("acme")}, agent, "read write", now)
	if err != nil {
		t.Fatal(err)
	}
	fromJWK := func(token *jwt.Token) (any, error) {
		if token.Header["kid"] != i.Public.JWK.Kid {
			t.Errorf("kid %v, want %s", token.Header["kid"], i.Public.JWK.Kid)
		}
		x, err := base64.RawURLEncoding.DecodeString(i.Public.JWK.X)
		return ed25519.PublicKey(x), err
	}
	for _, test := range []struct{ name, token, typ, aud, sub string }{
		{"SVID", i.SVID(agent, now), "JWT", "service", agent},
		{"delegation", delegation, "JWT", "service", domain.CompanyID("acme")},
		{"passport", passport, "CAP+JWT", "service:passport:v1", agent},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			parsed, err := jwt.Parse(test.token, fromJWK,
				jwt.WithStrictDecoding(), jwt.WithTimeFunc(clock), jwt.WithIssuedAt(), jwt.WithExpirationRequired(), jwt.WithNotBeforeRequired(),
				jwt.WithValidMethods([]string{i.Public.JWK.Alg}), jwt.WithIssuer(domain.Issuer()), jwt.WithAudience(test.aud), jwt.WithSubject(test.sub))
			if err != nil {
				t.Fatal(err)
			}
			want := map[string]any{"alg": "EdDSA", "kid": i.Public.KID, "typ": test.typ}
			if !reflect.DeepEqual(parsed.Header, want) {
				t.Errorf("header %v, want exactly %v", parsed.Header, want)
			}
		})
	}
}

// The reverse: what a standard library signs with the same claims is accepted, so nothing hangs on
// our spelling.
func TestReaderAcceptsStandardClient(t *testing.T) {
	t.Parallel()
	for name, check := range checks {
		d := sound(name)
		token := jwt.NewWithClaims(jwt.SigningMethodEdDSA, jwt.MapClaims(d.claims))
		token.Header["typ"], token.Header["kid"] = d.header["typ"], d.header["kid"]
		signed, err := token.SignedString(d.key)
		if err != nil {
			t.Fatal(err)
		}
		if code := codeOf(t, check(signed, now)); code != "accepted" {
			t.Errorf("%s: %s", name, code)
		}
	}
}

// The two kinds that share a key are never taken for each other, nor is a token of another company
// or service.
func TestKindsAndKeysDoNotMix(t *testing.T) {
	t.Parallel()
	i := newIssuer("acme")
	passport, _, err := i.Passport("build-bot", []string{"*"}, nil, "", time.Hour, now)
	if err != nil {
		t.Fatal(err)
	}
	svid := i.SVID(agent, now)

	_, err = i.CheckDelegation(passport, now)
	if code := codeOf(t, err); code != cred.CodeWrongTokenType {
		t.Errorf("a passport as SVID: %s", code)
	}
	_, err = i.CheckPassport(svid, now)
	if code := codeOf(t, err); code != cred.CodeWrongTokenType {
		t.Errorf("an SVID as passport: %s", code)
	}
	other := newIssuer("globex")
	_, err = other.CheckPassport(passport, now)
	if code := codeOf(t, err); code != cred.CodeSignatureInvalid {
		t.Errorf("a passport of another company: %s", code)
	}
	_, err = other.CheckDelegation(svid, now)
	if code := codeOf(t, err); code != cred.CodeSignatureInvalid {
		t.Errorf("an SVID of another company: %s", code)
	}
	renamed := cred.NewIssuer(cred.Domain{TrustDomain: domain.TrustDomain, Service: "acmesvc"}, "acme", keyOf("acme"), nil)
	_, err = renamed.CheckPassport(passport, now)
	if code := codeOf(t, err); code != cred.CodeAudienceMismatch {
		t.Errorf("a passport of a service with another name: %s", code)
	}
	moved := cred.NewIssuer(cred.Domain{TrustDomain: "elsewhere.example", Service: "service"}, "acme", keyOf("acme"), nil)
	_, err = moved.CheckDelegation(svid, now)
	if code := codeOf(t, err); code != cred.CodeInvalidIssuer {
		t.Errorf("an SVID of another trust domain: %s", code)
	}
}

// The claims of an SVID, member by member in their fixed order.
func TestSVID(t *testing.T) {
	t.Parallel()
	token := newIssuer("acme").SVID(agent, now)
	var claims struct {
		ID string `json:"jti"`
	}
	got := payload(t, token)
	if err := json.Unmarshal(got, &claims); err != nil {
		t.Fatal(err)
	}
	want := `{"iss":"spiffe://attestd.local/ca","sub":"spiffe://attestd.local/company/acme/agent/build-bot","aud":["service"],` +
		`"iat":1772366400,"nbf":1772366400,"exp":1772370000,"jti":"` + claims.ID + `"}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if again := newIssuer("acme").SVID(agent, now); again == token {
		t.Error("two SVIDs have the same jti")
	}
}

// Sign signs the raw digest, as a verifier of OCSP answers checks it.
func TestSign(t *testing.T) {
	t.Parallel()
	i := newIssuer("acme")
	digest := [32]byte{1, 2, 3}
	signature, err := base64.RawURLEncoding.Strict().DecodeString(i.Sign(digest))
	if err != nil || !ed25519.Verify(i.Public.Key, digest[:], signature) {
		t.Errorf("%v, or the signature is not over the 32 bytes", err)
	}
}
