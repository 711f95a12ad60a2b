package statement_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"attestd/crypto/jose"
	"attestd/crypto/jose/josetest"
	"attestd/crypto/statement"
	"attestd/internal/must"
)

// FuzzParse holds that whatever passes has one spelling.
func FuzzParse(f *testing.F) {
	for _, algorithm := range []string{jose.EdDSA, jose.ES256} {
		for _, fault := range faults[:12] {
			d := sound(f, algorithm)
			f.Add(fault.sign(f, d))
		}
		for _, d := range []draft{sound(f, algorithm), continued(f, algorithm), soundFirst(f, algorithm)} {
			f.Add(d.sign(f))
		}
	}
	f.Fuzz(func(t *testing.T, compact string) {
		s, err := statement.Parse(compact)
		if codeOf(t, err) != "accepted" {
			return
		}
		var again []string
		for _, part := range strings.Split(compact, ".") {
			again = append(again, josetest.Encode(unbase64(t, part)))
		}
		if strings.Join(again, ".") != compact || len(again) != 3 || s.Compact != compact {
			t.Fatalf("another spelling passes: %q", compact)
		}
	})
}

// FuzzClaims signs what it is given. What passes says the same to encoding/json, and Make makes a
// statement of the same claims.
func FuzzClaims(f *testing.F) {
	for _, drafts := range drafts {
		for _, fault := range drafts.faults {
			d := drafts.sound(f, jose.EdDSA)
			if fault.spoil != nil {
				fault.spoil(d)
			}
			f.Add(josetest.Marshal(f, d.header), josetest.Marshal(f, d.claims))
		}
	}
	d := continued(f, jose.EdDSA)
	f.Add(josetest.Marshal(f, d.header), josetest.Marshal(f, d.claims))
	p := josetest.PrivateKey(f, jose.EdDSA)
	f.Fuzz(func(t *testing.T, header, claims []byte) {
		s, err := statement.Parse(josetest.Forge(t, p, header, claims))
		if codeOf(t, err) != "accepted" {
			return
		}
		var read map[string]any
		must.OK(t, json.Unmarshal(claims, &read))
		var text map[string]any
		made, err := statement.Make(t.Context(), p, s.Claims)
		must.OK(t, err)
		must.OK(t, json.Unmarshal(unbase64(t, strings.Split(made.Compact, ".")[1]), &text))
		if !reflect.DeepEqual(read, text) || !reflect.DeepEqual(made.Claims, s.Claims) {
			t.Fatalf("%s becomes %v", claims, text)
		}
		if s.Verify(p.Key()) == nil && s.Algorithm != jose.EdDSA {
			t.Fatalf("%s passes", header)
		}
	})
}
