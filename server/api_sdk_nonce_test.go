package server_test

import (
	"testing"

	"attestd/crypto/jose"
	"attestd/sdk/attestd"
)

// The Go client repeats the nonce that the service demands, at sign-in and beside each token.
func TestGoClientRepeatsNonces(t *testing.T) {
	t.Parallel()
	s := start(t, demandsNonces)
	acme := s.company(t, "acme")
	bot := acme.signer(t, "bot", jose.ES256)
	key, err := attestd.ParseAgentKey(bot.key.JWK())
	must(t, err)
	identity, err := attestd.NewIdentity(attestd.IdentityConfig{Key: key, SPIFFEID: bot.spiffe(), DPoP: true})
	must(t, err)
	c, err := attestd.New(attestd.Config{URL: s.url, Credential: identity})
	must(t, err)
	for range 2 {
		_, err := c.Attest(t.Context(), attestd.Attestation{AgentID: "bot", ActionType: "note", Payload: []byte("1")})
		must(t, err)
	}
}
