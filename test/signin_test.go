package test

import (
	"encoding/json"
	"os"
	"os/exec"
	"testing"

	"attestd/internal/testenv"
	"attestd/store/storetest"
)

// Packages that are none of ours sign in and prove as they are, with both kinds of keys: jose makes
// keys, statements and endorsements, dpop makes proofs, oauth4webapi and openid-client sign in and
// call with bound tokens.
func TestStrangersSignInAsAgents(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	node := testenv.Path(t, "node")
	for _, name := range []string{"dpop", "jose", "oauth4webapi", "openid-client"} {
		if _, err := os.Stat("testdata/node_modules/" + name); err != nil {
			testenv.Missing(t, "there is no "+name+": npm ci --prefix test/testdata")
		}
	}
	s := serve(t, storetest.New(t), "--rate-limits", "off")
	acme := s.register(t, "acme")

	cmd := exec.CommandContext(t.Context(), node, "testdata/signin.mjs", s.URL, "acme", acme.key)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("strangers do not sign in: %v", err)
	}
	var done struct{ Enrolled, Bearer, Bound, Attested, Refused int }
	must(t, json.Unmarshal(out, &done))
	t.Logf("%+v", done)
	if done.Enrolled != 4 || done.Bearer != 4 || done.Bound != 4 || done.Attested != 10 || done.Refused != 16 {
		t.Error("too little was checked")
	}
}
