package server_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"attestd/crypto/cred"
	"attestd/crypto/jose"
	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/server"
	"attestd/server/internal/pipes"
	"attestd/store"
	"attestd/store/ledger"
	"attestd/store/storetest"
)

// The service deletes a passport after its end. It then says of that what it says of one that was
// never issued. Another passport, the control log, and its comparison with the tables are as
// before.
func TestPassportThatWasDeleted(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	_, err := document() // outside of the bubble, because other tests share it
	must.OK(t, err)
	path := storetest.New(t)
	synctest.Test(t, func(t *testing.T) {
		network := pipes.New()
		s := startBehind(t, network, network.Dial, path, cred.Domain{}, func(c *server.Config) {
			c.Retention = store.Retention{Passports: 10 * 24 * time.Hour, Tokens: 24 * time.Hour, Sessions: 30 * 24 * time.Hour, RetryKeys: ledger.KeyLifetime}
		})
		acme := s.company(t, "acme")
		acme.agent(t, "bot")
		c, err := s.store.Companies.Get(t.Context(), "acme")
		must.OK(t, err)
		issue := func(jti string, days int) {
			t.Helper()
			at := time.Now().AddDate(0, 0, -days)
			p := store.Passport{JTI: jti, AgentID: "bot", Scopes: []string{"*"}, IssuedAt: at.Unix(), ExpiresAt: at.Unix() + 3600}
			must.OK(t, s.store.Passports.Record(t.Context(), store.Caller{Company: c, At: at}, p))
		}
		const old, revoked, recent = "00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002", "00000000-0000-4000-8000-000000000003"
		issue(old, 12)
		issue(revoked, 12)
		issue(recent, 9)
		acme.do(t, "POST /v1/passports/"+revoked+"/revoke", "").status(200)
		must.OK(t, s.store.Credentials.Use(t.Context(), store.UsedProof{Name: [32]byte{1}, Ends: time.Now().Add(-time.Hour)}, time.Now().Add(-2*time.Hour)))
		status := func(jti string) string { return acme.do(t, "GET /v1/ocsp/"+jti, "").status(200).str("status") }
		if before := []string{status(old), status(revoked), status(recent)}; strings.Join(before, " ") != "valid revoked valid" {
			t.Errorf("before: %q", before)
		}
		controls := acme.do(t, "GET /v1/chain?log=control", "").status(200).at("records").([]any)

		for range 74 {
			// writes go on, or the clock would leap, as the monotonic one is not the bubble's
			time.Sleep(50 * time.Second)
			acme.do(t, "POST /v1/attest", `{"agentId":"bot","actionType":"x","payload":1}`).status(201)
		}
		if after := []string{status(old), status(revoked), status(recent)}; strings.Join(after, " ") != "unknown unknown valid" {
			t.Errorf("after: %q", after)
		}
		for _, jti := range []string{old, revoked} {
			acme.do(t, "POST /v1/passports/"+jti+"/revoke", "").gets(404, `{"error":"…","code":"PASSPORT_NOT_FOUND"}`)
		}
		acme.do(t, "GET /v1/passports/revoked", "").gets(200, `{"revoked":[]}`)
		acme.do(t, "POST /v1/passports/"+recent+"/revoke", "").status(200)
		acme.do(t, "GET /v1/verify?log=control", "").gets(200, `{"valid":true,"merkleRoot":"…"}`)
		if now := acme.do(t, "GET /v1/chain?log=control", "").status(200).at("records").([]any); len(now) != len(controls)+1 {
			t.Errorf("%d control records, and %d before", len(now), len(controls))
		}
		const deleted = `"msg":"rows that have ended were deleted",`
		if s.log.says(deleted+`"used_proof":1}`) != 1 || s.log.says(deleted+`"passport":2}`) != 1 {
			t.Error("the log does not say what was deleted")
		}
		s.stop()
	})
}

// A server that was away for a month deletes what has ended meanwhile, of each kind, and retains
// what must stay: whatever is younger, signed sessions, and all records with what proves them.
func TestServerDeletesWhatHasEndedAlone(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	_, err := document() // outside of the bubble, because other tests share it
	must.OK(t, err)
	path := storetest.New(t)
	synctest.Test(t, func(t *testing.T) {
		const day = 24 * time.Hour
		serve := func() *service {
			network := pipes.New()
			return startBehind(t, network, network.Dial, path, cred.Domain{}, func(c *server.Config) {
				c.Retention = store.Retention{Passports: 10 * day, Tokens: day, Sessions: 30 * day, RetryKeys: ledger.KeyLifetime}
				c.AcceptClock = true // the month is no leap of the clock
				c.BaseURL = "http://" + network.Addr().String()
			})
		}
		const record = `{"agentId":"bot","actionType":"x","payload":1}`
		leaves := func(c caller, when string) {
			t.Helper()
			c.do(t, "POST /v1/attest", called("bot", "tool.requested", "mcp", "sessionId", when)).status(201)
			c.do(t, "POST /v1/attest", record, "Idempotency-Key: "+when).status(201)
			c.passport(t, "bot", "")
			c.oauthToken(t)
		}
		s := serve()
		acme := s.company(t, "acme")
		acme.agent(t, "bot")
		leaves(acme, "old")
		signed := acme.signer(t, "signing", jose.EdDSA)
		for i, step := range signed.run(t, "signed", 2, true) {
			signed.attests(t, fmt.Sprint(i), step.Compact).status(201)
		}
		s.stop()
		time.Sleep(40 * day)

		s = serve()
		acme = caller{s, "acme", acme.credential}
		leaves(acme, "recent")
		records := func(log string) int {
			return len(acme.do(t, "GET /v1/chain?limit=1000&log="+log, "").status(200).at("records").([]any))
		}
		actions, controls := records("actions"), records("control")
		const steps = 74 // of less than a leap of the clock
		for range steps {
			time.Sleep(50 * time.Second)
			acme.do(t, "POST /v1/attest", record).status(201)
		}
		const deleted = `"msg":"rows that have ended were deleted",`
		if s.log.says(deleted+`"access_token":1,"used_proof":1}`) != 1 || s.log.says(deleted+`"passport":1,"session":1,"retry_key":1}`) != 1 || s.log.says(deleted) != 2 {
			t.Error("the log says that something else was deleted")
		}
		wantSids(t, acme.do(t, "GET /v1/sessions", ""), "recent mcp mcp 1 unproven false", "signed statement  2 sealed true")
		// a key that counts makes no second record, and one that has ended does
		acme.do(t, "POST /v1/attest", record, "Idempotency-Key: recent").status(201)
		acme.do(t, "POST /v1/attest", record, "Idempotency-Key: old").status(201)
		if actions += steps + 1; records("actions") != actions || records("control") != controls {
			t.Errorf("%d and %d records, want %d and %d", records("actions"), records("control"), actions, controls)
		}
		for _, log := range []string{"", "?log=control"} {
			acme.do(t, "GET /v1/verify"+log, "").gets(200, `{"valid":true,"merkleRoot":"…"}`)
		}
		s.stop()
	})
}
