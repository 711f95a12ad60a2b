package test

import (
	"encoding/json"
	"os"
	"os/exec"
	"testing"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store/storetest"
)

// The third-party package jose verifies the tokens of old and new keys with its remote JWK set.
// Over three rotations it verifies each until it expires, and a client that holds the old set finds
// the new key by itself. It verifies none from before a key was declared compromised.
func TestJoseFollowsRotations(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	node := testenv.Path(t, "node")
	if _, err := os.Stat("testdata/node_modules/jose"); err != nil {
		testenv.Missing(t, "there is no jose: npm ci --prefix test/testdata")
	}
	s := serve(t, storetest.New(t), "--rate-limits", "off")
	acme := s.register(t, "acme")

	cmd := exec.CommandContext(t.Context(), node, "testdata/jose.mjs", s.URL, acme.key)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("jose does not follow: %v", err)
	}
	var done struct{ Verified, Expired, Found, Refused, Compromised int }
	must.OK(t, json.Unmarshal(out, &done))
	t.Logf("%+v", done)
	if done.Verified < 4+3*(8+12+16) || done.Expired != done.Verified || done.Found != 6 || done.Compromised != 4*16 || done.Refused < 3*done.Verified {
		t.Error("too little was checked")
	}
}
