package test

import (
	"os"
	"testing"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store/storetest"
)

// The TypeScript and Python clients repeat the nonce that the service demands, at sign-in and with
// each token, for reads and long answers too. Every request that is refused for its nonce is sent
// once more, and an answer with the next nonce saves that. A client gives up on a service that
// accepts no nonce.
func TestOtherClientsRepeatNonces(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	othersRun(t)
	s := serve(t, storetest.New(t), "--rate-limits", "off", "--dpop-nonce")
	for company, script := range map[string]string{"acme": "nonce.mjs", "zoo": "nonce.py"} {
		t.Run(script, func(t *testing.T) {
			c := s.register(t, company)
			c.call(t, 201, "POST", "/v1/agents/register", `{"agentId":"bot"}`, nil)
			cmd := clientScript(t, script, s.URL, c.key, "spiffe://attestd.local/company/"+company+"/agent/bot")
			cmd.Stderr = os.Stderr
			out, err := cmd.Output()
			must.OK(t, err)
			const want = "sign-in 2, keys 1, attest 1\nattest 1\nstale: attest 2\nstale: sign-in 2\nstale: lines 2\nnever content: 2 at most\n"
			if string(out) != want {
				t.Errorf("the client says\n%swant\n%s", out, want)
			}
			c.call(t, 200, "GET", "/v1/verify", "", nil)
			var chain struct{ Records []any }
			c.call(t, 200, "GET", "/v1/chain", "", &chain)
			if len(chain.Records) != 4 {
				t.Errorf("%d records, want 4", len(chain.Records))
			}
		})
	}
}

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
			must.OK(t, err)
			if string(out) != want {
				t.Errorf("the client says\n%swant\n%s", out, want)
			}
		})
	}
}
