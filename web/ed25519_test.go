package web_test

import (
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"os"
	"testing"

	"attestd/internal/must"
)

// The odd signatures with which the console's Ed25519 is tested are judged as Go judges them: keys
// of low order and odd spellings of a key are taken, S above the order of the group is not, nor R
// in another spelling, nor what holds only after a multiplication by the cofactor.
func TestNonCanonicalSignatures(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("testdata/ed25519_odd.json")
	must.OK(t, err)
	var cases []struct {
		Name, Key, Signature, Message string
		Valid                         bool
	}
	must.OK(t, json.Unmarshal(data, &cases))
	unhex := func(s string) []byte {
		b, err := hex.DecodeString(s)
		must.OK(t, err)
		return b
	}
	for _, c := range cases {
		if ed25519.Verify(unhex(c.Key), unhex(c.Message), unhex(c.Signature)) != c.Valid {
			t.Errorf("%s: not %v", c.Name, c.Valid)
		}
	}
	if len(cases) < 20 {
		t.Errorf("only %d cases", len(cases))
	}
}
