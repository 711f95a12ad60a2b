package test

import (
	"os"
	"testing"

	"attestd/internal/testenv"
	"attestd/store/storetest"
)

// The TypeScript and Python clients get tokens for others and renew them; jose verifies those of
// each algorithm with the published keys.
func TestOtherClientsGetTokens(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	othersRun(t)
	s := serve(t, storetest.New(t), "--rate-limits", "off")
	c := s.register(t, "acme")
	c.call(t, 201, "POST", "/v1/agents/register", `{"agentId":"bot"}`, nil)
	const bot = " spiffe://attestd.local/company/acme/agent/bot bot\n"
	for script, want := range map[string]string{
		"tokens.mjs": "ES256" + bot + "RS256" + bot + "EdDSA" + bot + "t1 t2 t1 t3 t3 503\n",
		"tokens.py": "ES256 1 urn:ietf:params:oauth:token-type:jwt\nRS256 1 urn:ietf:params:oauth:token-type:jwt\nEdDSA 1 urn:ietf:params:oauth:token-type:jwt\n" +
			"t1 t2 t1 t3 t3 404\n",
	} {
		t.Run(script, func(t *testing.T) {
			cmd := clientScript(t, script, s.URL, c.key)
			cmd.Stderr = os.Stderr
			out, err := cmd.Output()
			must(t, err)
			if string(out) != want {
				t.Errorf("the client says\n%swant\n%s", out, want)
			}
		})
	}
}
