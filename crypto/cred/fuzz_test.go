package cred_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"

	"attestd/crypto/cred"
)

// FuzzToken holds that whatever passes is signed by the company in the one spelling that its bytes
// have.
func FuzzToken(f *testing.F) {
	f.Fuzz(func(t *testing.T, token string) {
		domain.UnverifiedOrg(token)
		for name, check := range checks {
			if codeOf(t, check(token, now)) != "accepted" {
				continue
			}
			parts := strings.Split(token, ".")
			var again []string
			var signature []byte
			for _, part := range parts {
				b, err := base64.RawURLEncoding.DecodeString(part)
				if err != nil {
					t.Fatalf("%s accepts %q", name, token)
				}
				again, signature = append(again, encode(b)), b
			}
			if strings.Join(again, ".") != token || len(parts) != 3 {
				t.Fatalf("%s accepts another spelling: %q", name, token)
			}
			if !ed25519.Verify(newIssuer("acme").Public.Key, []byte(parts[0]+"."+parts[1]), signature) {
				t.Fatalf("%s accepts an unsigned token: %q", name, token)
			}
		}
	})
}

// FuzzPassportClaims signs what it is given, to reach the code behind the signature. What passes
// must mean the same to a standard client, and keep every promise that the claims make.
func FuzzPassportClaims(f *testing.F) {
	f.Fuzz(func(t *testing.T, header, claims []byte) {
		token := forge(keyOf("acme"), header, claims)
		c, err := newIssuer("acme").CheckPassport(token, now)
		if codeOf(t, err) != "accepted" {
			return
		}
		sameToStandardClient(t, token, marshal(c))
		if err := cred.CheckScopes(c.Scopes); err != nil {
			t.Fatal(err)
		}
		if c.Subject != domain.AgentID("acme", c.AgentID) || c.Org != "acme" || c.DelegationChain[len(c.DelegationChain)-1] != c.Subject {
			t.Fatalf("%+v", c)
		}
		if c.NotBefore > now.Unix() || c.ExpiresAt <= now.Unix() || c.IssuedAt >= c.ExpiresAt {
			t.Fatalf("%+v", c)
		}
	})
}

// FuzzDelegationClaims does the same for SVIDs and delegation tokens.
func FuzzDelegationClaims(f *testing.F) {
	f.Fuzz(func(t *testing.T, header, claims []byte) {
		token := forge(keyOf("acme"), header, claims)
		d, err := newIssuer("acme").CheckDelegation(token, now)
		if codeOf(t, err) != "accepted" {
			return
		}
		members := object{"sub": d.Subject, "jti": d.TokenID}
		if d.Act != nil {
			members["act"] = d.Act
		}
		if d.Scope != "" {
			members["scope"] = d.Scope
		}
		sameToStandardClient(t, token, marshal(members))
		if n := len(d.Chain); n < 1 || n > 1+cred.MaxActors || d.Chain[0] != d.Subject || (d.Act == nil) != (n == 1) {
			t.Fatalf("%+v", d)
		}
		for _, principal := range d.Chain {
			if !strings.HasPrefix(principal, "spiffe://attestd.local/company/") {
				t.Fatalf("%+v", d)
			}
		}
		checkCanonical(t, d)
		if read, err := cred.ReadDelegation(token); err != nil || read.Hash() != d.Hash() {
			t.Fatalf("unverified it is %+v, %v", read, err)
		}
		// Whatever is accepted can be delegated further, up to the limit.
		if _, _, err := newIssuer("acme").Delegate(d, agent, "", now); (err == nil) != (len(d.Chain) <= cred.MaxActors) {
			t.Fatalf("%d principals: %v", len(d.Chain), err)
		}
	})
}

// sameToStandardClient holds that golang-jwt accepts the token too and reads there all the claims
// of the text.
func sameToStandardClient(t *testing.T, token string, text []byte) {
	t.Helper()
	parsed, err := jwt.Parse(token, keyFunc, jwt.WithValidMethods([]string{"EdDSA"}), jwt.WithTimeFunc(clock), jwt.WithStrictDecoding())
	if err != nil {
		t.Fatalf("golang-jwt refuses %q: %v", token, err)
	}
	var own map[string]any
	if err := json.NewDecoder(bytes.NewReader(text)).Decode(&own); err != nil {
		t.Fatal(err)
	}
	theirs := parsed.Claims.(jwt.MapClaims)
	for name, value := range own {
		want := theirs[name]
		if ns, ok := want.(map[string]any); ok && name == domain.Service {
			want = onlyKnown(ns) // members that this version does not know are not carried on
		}
		if !reflect.DeepEqual(value, want) {
			t.Fatalf("%s is %v to us and %v to golang-jwt", name, value, want)
		}
	}
}

func onlyKnown(ns map[string]any) map[string]any {
	known := map[string]any{}
	for _, name := range []string{"v", "agentId", "org", "orgSpiffeId", "scopes", "delegationChain"} {
		known[name] = ns[name]
	}
	return known
}
