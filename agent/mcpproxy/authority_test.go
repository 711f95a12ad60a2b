package mcpproxy

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"attestd/crypto/cred"
	"attestd/crypto/keys"
	"attestd/sdk/attestd"
)

var domain = cred.Domain{TrustDomain: "attestd.local", Service: "service"}

// issuer returns an issuer for a company, with a key from the seed.
func issuer(company, seed string) *cred.Issuer {
	return cred.NewIssuer(domain, company, ed25519.NewKeyFromSeed([]byte(strings.Repeat(seed, ed25519.SeedSize))), nil)
}

// directory simulates the service's endpoints for keys and revocation.
type directory struct {
	away    bool
	company *cred.Issuer
	former  []attestd.CompanyKey // the oldest first
	status  string               // the status of every passport
	signer  *cred.Issuer         // signs the status
	altered bool                 // report that every passport differs from the issued one
	asked   int
}

func (d *directory) RoundTrip(r *http.Request) (*http.Response, error) {
	if d.asked++; d.away {
		return nil, errors.New("connection refused")
	}
	var answer any
	code := http.StatusOK
	switch path := r.URL.Path; {
	case path == "/v1/company":
		answer = map[string]string{"companyId": d.company.Company}
	case path == "/v1/ca/well-known":
		named := []keys.JWK{d.company.Public.JWK}
		for _, k := range d.former {
			named = append(named, k.JWK)
		}
		answer = map[string]any{
			"company_id": d.company.Company, "trust_domain": domain.TrustDomain, "keys": named,
			"passport_format": map[string]any{"claims_namespace": domain.Service},
		}
	case path == "/v1/ca/public-keys":
		answer = attestd.PublicKeys{CompanyID: d.company.Company, Keys: append(slices.Clone(d.former), attestd.CompanyKey{JWK: d.company.Public.JWK})}
	case strings.HasPrefix(path, "/v1/ocsp/"):
		plain := fmt.Sprintf(`{"checkedAt":"t","companyId":%q,"jti":%q,"status":%q}`, d.company.Company, strings.TrimPrefix(path, "/v1/ocsp/"), d.status)
		var status map[string]string
		_ = json.Unmarshal([]byte(plain), &status)
		status["caPublicKey"], status["signature"] = "", d.signer.Sign(sha256.Sum256([]byte(plain)))
		answer = status
	case path == "/v1/passport/verify" && d.altered:
		code, answer = http.StatusBadRequest, map[string]any{"valid": false, "error": "x", "code": cred.CodeVerificationError}
	case path == "/v1/passport/verify":
		answer = map[string]any{"valid": true}
	}
	text, err := json.Marshal(answer)
	return &http.Response{StatusCode: code, Header: http.Header{"X-Request-Id": {"r"}}, Body: io.NopCloser(strings.NewReader(string(text))), Request: r}, err
}

func (d *directory) client(t *testing.T) *attestd.Client {
	t.Helper()
	c, err := attestd.New(attestd.Config{URL: "http://attestd.test", Credential: attestd.Key("k"), HTTP: &http.Client{Transport: d}, Retry: &attestd.Retry{}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func passport(t *testing.T, i *cred.Issuer) string {
	t.Helper()
	token, _, err := i.Passport("bot", []string{"*"}, nil, "", time.Hour, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// A passport is verified with the keys of the credential's company only. They are cached for a
// start without the service.
func TestAuthority(t *testing.T) {
	own := issuer("acme", "a")
	stranger := issuer("other", "b")
	forged := issuer("acme", "c")
	d := &directory{company: own, status: "valid", signer: own}
	cache := filepath.Join(t.TempDir(), "sub", "issuer.json")
	check := func(s *Service) {
		t.Helper()
		if c, err := s.CheckPassport(passport(t, own), time.Now()); err != nil || c.AgentID != "bot" {
			t.Error(err)
		}
		for _, i := range []*cred.Issuer{stranger, forged} {
			if _, err := s.CheckPassport(passport(t, i), time.Now()); err == nil {
				t.Errorf("a passport of %s was accepted", i.Company)
			}
		}
		if _, err := s.CheckPassport(passport(t, own), time.Now().Add(2*time.Hour)); err == nil || err.Error() != "token has expired" {
			t.Error(err)
		}
	}
	s, err := NewService(t.Context(), d.client(t), "", cache, pinned(""))
	if err != nil {
		t.Fatal(err)
	}
	check(s)
	d.away = true
	if s, err = NewService(t.Context(), d.client(t), "", cache, pinned("")); err != nil {
		t.Fatal(err)
	}
	check(s)
	if _, err := NewService(t.Context(), d.client(t), "", cache, pinned(own.Public.Fingerprint)); err == nil {
		t.Error("cached keys were accepted that had not been verified with the pinned one")
	}
	if _, err := NewService(t.Context(), d.client(t), "", cache+"x", pinned("")); err == nil {
		t.Error("no error without keys")
	}
}

// A status counts only with a signature of the company's key. Every status but valid means revoked.
func TestAuthorityStatus(t *testing.T) {
	own := issuer("acme", "a")
	forged := issuer("acme", "c")
	d := &directory{company: own, signer: own}
	s, err := NewService(t.Context(), d.client(t), "", filepath.Join(t.TempDir(), "issuer.json"), pinned(""))
	if err != nil {
		t.Fatal(err)
	}
	for status, want := range map[string]bool{"valid": false, "revoked": true, "unknown": true} {
		d.status = status
		if revoked, err := s.Revoked(t.Context(), "token", "1"); revoked != want || err != nil {
			t.Error(status, revoked, err)
		}
	}
	d.status, d.altered = "valid", true
	if revoked, err := s.Revoked(t.Context(), "token", "1"); !revoked || err != nil {
		t.Error("a passport that differs from the issued one was accepted", revoked, err)
	}
	d.status, d.signer = "valid", forged
	if _, err := s.Revoked(t.Context(), "token", "1"); err == nil {
		t.Error("a forged status was accepted")
	}
}

// After a key rotation, a passport of the new key is accepted: the keys are fetched again, at most
// every 30 s. A passport of an old key that the service no longer lists is refused.
func TestAuthorityRotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := issuer("acme", "a")
		after := issuer("acme", "c")
		d := &directory{company: before, status: "valid", signer: before}
		s, err := NewService(t.Context(), d.client(t), "", filepath.Join(t.TempDir(), "issuer.json"), pinned(""))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(statusLife)
		d.company, d.signer = after, after
		if _, err := s.CheckPassport(passport(t, after), time.Now()); err != nil {
			t.Error(err)
		}
		asked := d.asked
		for range 10 {
			if _, err := s.CheckPassport(passport(t, before), time.Now()); err == nil {
				t.Error("a passport of the old key was accepted")
			}
		}
		if d.asked != asked {
			t.Errorf("the keys were fetched %d more times", d.asked-asked)
		}
	})
}

// A passport of a former key is valid if it was issued before the key's end, also with cached keys.
func TestAuthorityPreviousKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before, after := issuer("acme", "a"), issuer("acme", "c")
		old := passport(t, before)
		ended := attestd.CompanyKey{JWK: before.Public.JWK, EndedAt: time.Now().UTC().Format("2006-01-02T15:04:05.000Z")}
		d := &directory{company: after, signer: after, former: []attestd.CompanyKey{ended}}
		cache := filepath.Join(t.TempDir(), "issuer.json")
		time.Sleep(time.Minute)
		late := passport(t, before)
		for _, away := range []bool{false, true} {
			d.away = away
			s, err := NewService(t.Context(), d.client(t), "", cache, pinned(""))
			if err != nil {
				t.Fatal(err)
			}
			for _, genuine := range []string{old, passport(t, after)} {
				if _, err := s.CheckPassport(genuine, time.Now()); err != nil {
					t.Errorf("away %v: %v", away, err)
				}
			}
			if _, err := s.CheckPassport(late, time.Now()); err == nil {
				t.Errorf("away %v: a passport dated after its key's end was accepted", away)
			}
		}
		d.away, d.former[0].CompromisedAt = false, ended.EndedAt
		s, err := NewService(t.Context(), d.client(t), "", cache, pinned(""))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.CheckPassport(old, time.Now()); err == nil {
			t.Error("a passport of a compromised key was accepted")
		}
	})
}

// pinned returns a fingerprint for every company.
func pinned(fingerprint string) func(string) (string, error) {
	return func(string) (string, error) { return fingerprint, nil }
}
