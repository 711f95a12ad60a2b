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

// Unmodified third-party packages sign in and make proofs, with both kinds of keys: jose makes
// keys, statements and endorsements, dpop makes proofs, oauth4webapi and openid-client sign in and
// call with bound tokens.
func TestOtherLibrariesSignInAsAgents(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	node := nodeWith(t, "dpop", "jose", "oauth4webapi", "openid-client")
	s := serve(t, storetest.New(t), "--rate-limits", "off")
	acme := s.register(t, "acme")

	cmd := exec.CommandContext(t.Context(), node, "testdata/signin.mjs", s.URL, "acme", acme.key)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("strangers do not sign in: %v", err)
	}
	var done struct{ Enrolled, Bearer, Bound, Attested, Refused int }
	must.OK(t, json.Unmarshal(out, &done))
	t.Logf("%+v", done)
	if done.Enrolled != 4 || done.Bearer != 4 || done.Bound != 4 || done.Attested != 10 || done.Refused != 16 {
		t.Error("too little was checked")
	}
}

// nodeWith is Node with packages, which are needed.
func nodeWith(t *testing.T, names ...string) string {
	t.Helper()
	node := testenv.Path(t, "node")
	for _, name := range names {
		if _, err := os.Stat("testdata/node_modules/" + name); err != nil {
			testenv.Missing(t, "there is no "+name+": npm ci --prefix test/testdata")
		}
	}
	return node
}

// OAuth clients by unmodified third-party packages: metadata, tokens with a scope and for a
// resource, by a secret and by a key, bound with a nonce, introspection and revocation.
func TestOtherLibrariesAreOAuthClients(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	node := nodeWith(t, "jose", "oauth4webapi", "openid-client")
	s := serve(t, storetest.New(t), "--rate-limits", "off", "--dpop-nonce", "--federation-allow-private")
	acme := s.register(t, "acme")

	cmd := exec.CommandContext(t.Context(), node, "testdata/oauth.mjs", s.URL, "acme", acme.key)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("strangers are no OAuth clients: %v", err)
	}
	var done struct{ Discovered, Issued, Introspected, Revoked, Nonces, Refused, Exchanged int }
	must.OK(t, json.Unmarshal(out, &done))
	t.Logf("%+v", done)
	if done.Discovered != 7 || done.Issued != 35 || done.Introspected != 45 || done.Revoked != 35 || done.Nonces != 5 || done.Refused != 15 || done.Exchanged != 2 {
		t.Error("too little was checked")
	}
}
