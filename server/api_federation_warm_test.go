package server_test

import (
	"net/http"
	"testing"

	"attestd/crypto/cred"
)

// After a restart the keys of an issuer are fetched before a workload needs them, so that its first
// sign-in does not depend on the issuer. An issuer that hangs at that time delays no request.
func TestKeySetsAreWarmAfterRestart(t *testing.T) {
	t.Parallel()
	s := start(t, privateFederation)
	acme, zoo := s.company(t, "acme"), s.company(t, "zoo")
	i, hanging, release := newIssuer(t), newIssuer(t), make(chan struct{})
	acme.do(t, "POST /v1/federation", federationBody("ci", i.URL, "https://attest.example", ciRules)).status(201)
	eventually(t, "the keys are fetched", func() bool { return i.asked.Load() == 1 })
	hang := func(i *otherIssuer) {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.answer = func(http.ResponseWriter, *http.Request) { <-release }
	}
	hang(hanging)
	t.Cleanup(func() { close(release) }) // before the issuers are closed
	zoo.do(t, "POST /v1/federation", federationBody("ci", hanging.URL, "https://attest.example", ciRules)).status(201)
	eventually(t, "the other issuer is asked", func() bool { return hanging.asked.Load() == 1 })
	s.stop()

	again := startOn(t, s.path, cred.Domain{}, privateFederation)
	again.anyone().do(t, "GET /v1/health", "").status(200)
	eventually(t, "the keys are fetched anew", func() bool { return i.asked.Load() == 2 })
	shown := caller{again, acme.id, acme.credential}
	eventually(t, "the keys are there", func() bool {
		return shown.do(t, "GET /v1/federation/ci", "").status(200).at("keys", "count").(float64) == 1
	})
	hang(i)
	workload := again.anyone()
	workload.do(t, "POST /o/acme/token", assertionBody(i.token(t, "https://attest.example", nil)), "Content-Type: application/json").status(200)
	if n := i.asked.Load(); n != 2 {
		t.Errorf("the issuer was asked %d times, want twice", n)
	}
}
