package test

import (
	"encoding/json"
	"os"
	"os/exec"
	"testing"

	"attestd/internal/testenv"
	"attestd/store/storetest"
)

// oidc-provider and attestd take each other's tokens: its access tokens become an agent by a
// federation, by both grants, and the agent's tokens, of each algorithm, are redeemed there.
func TestOIDCProviderFederatesBothWays(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	node := nodeWith(t, "jose", "oidc-provider")
	s := serve(t, storetest.New(t), "--rate-limits", "off", "--federation-allow-private")
	acme := s.register(t, "acme")

	cmd := exec.CommandContext(t.Context(), node, "testdata/provider.mjs", s.URL, "acme", acme.key)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("the two do not take each other's tokens: %v", err)
	}
	var done struct{ Federated, Redeemed, Refused int }
	if err := json.Unmarshal(out, &done); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if done.Federated != 2 || done.Redeemed != 3 || done.Refused != 9 {
		t.Errorf("too little was checked: %+v", done)
	}
}
