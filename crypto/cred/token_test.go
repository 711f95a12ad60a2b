package cred_test

import (
	"testing"
	"time"

	"attestd/crypto/cred"
)

// A signature that was seen to be good is not computed again. That must change no answer.
func TestVerifiedChangesNoAnswer(t *testing.T) {
	t.Parallel()
	var shared cred.Verified
	acme := cred.NewIssuer(domain, "acme", keyOf("acme"), &shared)
	rival := cred.NewIssuer(domain, "acme", keyOf("rival"), &shared) // even one of the same name
	token, claims, err := acme.Passport("build-bot", []string{"tool:*"}, nil, "", time.Hour, now)
	if err != nil {
		t.Fatal(err)
	}
	// of another jti
	other, _, err := acme.Passport("build-bot", []string{"tool:*"}, nil, "", time.Hour, now)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the first time it is computed, the second time remembered
		if got, err := acme.CheckPassport(token, now); err != nil || got.ID != claims.ID {
			t.Errorf("a good passport: %+v, %v", got, err)
		}
	}
	for what, test := range map[string]struct {
		issuer *cred.Issuer
		token  string
		at     time.Time
		code   string
	}{
		"it has expired since":             {acme, token, now.Add(time.Hour), cred.CodeTokenExpired},
		"the clock was set back":           {acme, token, now.Add(-time.Minute), cred.CodeTokenNotYetValid},
		"the key is another company's":     {rival, token, now, cred.CodeSignatureInvalid},
		"its signature is another token's": {acme, token[:len(token)-86] + other[len(other)-86:], now, cred.CodeSignatureInvalid},
	} {
		_, err := test.issuer.CheckPassport(test.token, test.at)
		if e, ok := err.(*cred.Error); !ok || e.Code != test.code {
			t.Errorf("%s: %v, want %s", what, err, test.code)
		}
	}
	if _, err := acme.CheckDelegation(token, now); err == nil {
		t.Error("a remembered passport passes for an SVID")
	}
}
