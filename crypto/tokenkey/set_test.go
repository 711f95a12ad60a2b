package tokenkey_test

import (
	"fmt"
	"testing"
	"time"

	"attestd/crypto/tokenkey"
)

// A set has its keys in their order in the JWK set, and in the bundle those that a JWT-SVID may
// have. Each text is made once.
func TestSetTexts(t *testing.T) {
	t.Parallel()
	var keys []*tokenkey.Public
	for _, algorithm := range tokenkey.Algorithms {
		p, err := tokenkey.Generate(algorithm)
		must(t, err)
		keys = append(keys, p.Public())
	}
	at := time.UnixMilli(1767355200123)
	set := tokenkey.NewSet(keys, at)
	want := fmt.Sprintf(`{"keys":[%s,%s,%s]}`, keys[0].Published("sig"), keys[1].Published("sig"), keys[2].Published("sig"))
	if got := set.JWKS(); string(got) != want || &set.JWKS()[0] != &got[0] {
		t.Errorf("%s, want %s", got, want)
	}
	want = fmt.Sprintf(`{"keys":[%s,%s],"spiffe_sequence":1767355200123,"spiffe_refresh_hint":300}`, keys[0].Published("jwt-svid"), keys[1].Published("jwt-svid"))
	if got := set.Bundle(); string(got) != want || &set.Bundle()[0] != &got[0] {
		t.Errorf("%s, want %s", got, want)
	}
	if !set.Changed.Equal(at) {
		t.Errorf("changed at %v", set.Changed)
	}
	empty := tokenkey.NewSet(nil, time.Time{})
	if jwks, bundle := string(empty.JWKS()), string(empty.Bundle()); jwks != `{"keys":[]}` || bundle != `{"keys":[],"spiffe_sequence":0,"spiffe_refresh_hint":300}` {
		t.Errorf("%s and %s", jwks, bundle)
	}
}
