package cred_test

import (
	"crypto/ed25519"
	"testing"
	"time"

	"attestd/crypto/cred"
)

// A token of a former key verifies until it expires, never longer than a day after the key's end,
// and not at all once the key was declared compromised, however often it was seen to be good
// before.
func TestTokensOfPreviousKeys(t *testing.T) {
	t.Parallel()
	var shared cred.Verified
	first := cred.NewIssuer(domain, "acme", keyOf("acme"), &shared)
	ended := cred.Former{Key: keyOf("acme").Public().(ed25519.PublicKey), Ended: now.Add(time.Minute)}
	rotated := cred.NewIssuer(domain, "acme", keyOf("second"), &shared, ended)
	twice := cred.NewIssuer(domain, "acme", keyOf("third"), &shared, cred.Former{Key: keyOf("second").Public().(ed25519.PublicKey), Ended: now.Add(time.Hour)}, ended)
	compromised := cred.NewIssuer(domain, "acme", keyOf("second"), &shared)

	// in the moment in which the key ended
	day, _, err := first.Passport("build-bot", []string{"tool:*"}, nil, "", cred.MaxPassportTTL, now.Add(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	svid := first.SVID(agent, now)
	delegation, _, err := first.Delegate(cred.Delegation{Subject: domain.CompanyID("acme")}, agent, "", now)
	if err != nil {
		t.Fatal(err)
	}
	late, _, err := first.Passport("build-bot", []string{"tool:*"}, nil, "", time.Hour, now.Add(61*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	check := func(i *cred.Issuer, token string, at time.Duration) string {
		_, err := i.CheckDelegation(token, now.Add(at))
		if token == day || token == late {
			_, err = i.CheckPassport(token, now.Add(at))
		}
		if e, ok := err.(*cred.Error); ok {
			return e.Code
		}
		return ""
	}
	for _, c := range []struct {
		what   string
		issuer *cred.Issuer
		token  string
		at     time.Duration
		code   string
	}{
		{"before the rotation", first, day, 3 * time.Minute, ""},
		{"a passport after it", rotated, day, 3 * time.Minute, ""},
		{"and after another", twice, day, 2 * time.Hour, ""},
		{"and a day after the key's end", twice, day, 24*time.Hour + time.Minute, cred.CodeSignatureInvalid},
		{"a passport dated a second after the key's end", rotated, late, 3 * time.Minute, cred.CodeSignatureInvalid},
		{"and after another key", twice, late, 3 * time.Minute, cred.CodeSignatureInvalid},
		{"an SVID dated after the key's end", rotated, first.SVID(agent, now.Add(2*time.Minute)), 3 * time.Minute, cred.CodeSignatureInvalid},
		{"an SVID of the moment of the key's end", rotated, first.SVID(agent, now.Add(time.Minute)), 3 * time.Minute, ""},
		{"an SVID", rotated, svid, 10 * time.Minute, ""},
		{"an SVID that has expired", rotated, svid, time.Hour, cred.CodeTokenExpired},
		{"a delegation", twice, delegation, 10 * time.Minute, ""},
		{"a passport of a compromised key", compromised, day, 3 * time.Minute, cred.CodeSignatureInvalid},
		{"an SVID of one", compromised, svid, 10 * time.Minute, cred.CodeSignatureInvalid},
		{"a delegation of one", compromised, delegation, 10 * time.Minute, cred.CodeSignatureInvalid},
		{"a token of a later key", first, rotated.SVID(agent, now), 0, cred.CodeSignatureInvalid},
	} {
		for range 2 { // the second time its signature is remembered
			if code := check(c.issuer, c.token, c.at); code != c.code {
				t.Errorf("%s: %q, want %q", c.what, code, c.code)
			}
		}
	}
	forged := newPassport() // a former kid over a signature of the current key
	forged.key = keyOf("second")
	if _, err := rotated.CheckPassport(forged.sign(), now); err == nil {
		t.Error("a kid of one key passes for a signature of another")
	}
	kids := func(at time.Duration) (list []string) {
		for _, k := range twice.Keys(now.Add(at)) {
			list = append(list, k.KID)
		}
		return list
	}
	if k := kids(2 * time.Hour); len(k) != 3 || k[0] != twice.Public.KID || k[1] != rotated.Public.KID || k[2] != first.Public.KID {
		t.Errorf("keys: %v", k)
	}
	if k := kids(24*time.Hour + time.Minute); len(k) != 2 || k[1] != rotated.Public.KID {
		t.Errorf("keys a day later: %v", k)
	}
}
