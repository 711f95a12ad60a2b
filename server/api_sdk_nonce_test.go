package server_test

import (
	"testing"

	"attestd/crypto/jose"
	"attestd/internal/must"
	"attestd/sdk/attestd"
)

// The Go client repeats the nonce that the service demands, at sign-in and with each token.
func TestGoClientRepeatsNonces(t *testing.T) {
	t.Parallel()
	s := start(t, demandsNonces)
	acme := s.company(t, "acme")
	bot := acme.signer(t, "bot", jose.ES256)
	key, err := attestd.ParseAgentKey(bot.key.JWK())
	must.OK(t, err)
	identity, err := attestd.NewIdentity(attestd.IdentityConfig{Key: key, SPIFFEID: bot.spiffe(), DPoP: true})
	must.OK(t, err)
	c, err := attestd.New(attestd.Config{URL: s.url, Credential: identity})
	must.OK(t, err)
	for range 2 {
		_, err := c.Attest(t.Context(), attestd.Attestation{AgentID: "bot", ActionType: "note", Payload: []byte("1")})
		must.OK(t, err)
	}
}

// The Go client enrols keys with a proof that repeats the nonce: by an admin, by an enrolment
// token, and by an agent itself, whose access token is bound or not.
func TestGoClientEnrolsWithNonces(t *testing.T) {
	t.Parallel()
	s := start(t, demandsNonces)
	acme := s.company(t, "acme")
	acme.agent(t, "bot")
	client := func(credential attestd.Credential) *attestd.Client {
		c, err := attestd.New(attestd.Config{URL: s.url, Credential: credential})
		must.OK(t, err)
		t.Cleanup(c.Close)
		return c
	}
	enrols := func(c *attestd.Client) *attestd.AgentKey {
		t.Helper()
		key, err := attestd.NewAgentKey(attestd.ES256)
		must.OK(t, err)
		made, err := c.EnrolKey(t.Context(), "bot", key, attestd.NewEnrolledKey{})
		must.OK(t, err)
		if made.Thumbprint != key.Thumbprint() {
			t.Errorf("%s was enrolled, not %s", made.Thumbprint, key.Thumbprint())
		}
		return key
	}
	enrols(client(attestd.Key(acme.credential)))
	key := enrols(client(attestd.Key(acme.enrolling(t, "bot").credential)))
	for _, bound := range []bool{false, true} {
		identity, err := attestd.NewIdentity(attestd.IdentityConfig{Key: key, SPIFFEID: acme.companySPIFFE() + "/agent/bot", DPoP: bound, Alarm: func(error) {}})
		must.OK(t, err)
		c := client(identity)
		enrols(c)
		enrols(c)
	}
	if keys := acme.do(t, "GET /v1/agents/bot/keys", "").status(200).at("keys").([]any); len(keys) != 6 {
		t.Errorf("%d keys", len(keys))
	}
}
