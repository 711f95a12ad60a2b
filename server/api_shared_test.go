package server_test

import (
	"sync"
	"testing"
	"time"

	"attestd/crypto/cred"
	"attestd/crypto/jose"
	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/server"
	"attestd/server/limit"
	"attestd/store/postgres/pgtest"
)

// startTwo runs two services on one new database.
func startTwo(t *testing.T, change ...func(*server.Config)) (a, b *service) {
	t.Helper()
	url := pgtest.Database(t)
	a, b = startOn(t, url, cred.Domain{}, change...), startOn(t, url, cred.Domain{}, change...)
	for _, s := range []*service{a, b} {
		// From then on it is notified of the other one's appends.
		s.anyone().do(t, "GET /readyz", "").status(200)
	}
	return a, b
}

// on returns the same caller at another service.
func (c caller) on(s *service) caller { c.service = s; return c }

// The stream of one server delivers records that were attested on another, resumed or not, and ends
// when its credential is deleted there.
func TestStreamAcrossServers(t *testing.T) {
	testenv.Needs(t, testenv.NotQuick)
	testenv.Concurrent(t)
	t.Parallel()
	a, b := startTwo(t)
	acme := a.company(t, "acme")
	second := acme.with(acme.do(t, "POST /v1/keys", "").status(201).str("key"))
	all, mine := b.anyone().listen(t), second.on(b).listen(t)
	acme.attestMany(t, 3)
	resumed := acme.on(b).listenFrom(t, 1)
	for i := range 3 {
		all.valid("acme", i)
		mine.valid("acme", i)
	}
	for i := 3; i < 10; i++ {
		acme.on([]*service{a, b}[i%2]).attestMany(t, 1)
		all.valid("acme", i)
		mine.valid("acme", i)
	}
	for i := 1; i < 10; i++ {
		resumed.valid("acme", i)
	}
	acme.do(t, "DELETE /v1/keys/"+second.credential, "").status(200)
	second.on(b).do(t, "GET /v1/keys", "").status(401)
	mine.ended()
	acme.attestMany(t, 1)
	all.valid("acme", 10)
	resumed.valid("acme", 10)
}

// Both servers count the sensitive tier together, and the headers agree with that.
func TestServersCountTheSensitiveTierTogether(t *testing.T) {
	testenv.Concurrent(t)
	testenv.Needs(t, testenv.NotQuick, testenv.Plain)
	t.Parallel()
	a, b := startTwo(t, func(c *server.Config) { c.Limits = limit.Limits{Standard: 1000, Sensitive: 10, Attest: 100, Log: 1000} })
	const call, body = "POST /v1/oauth/token", `{"grant_type":"client_credentials","client_id":"x","client_secret":"y"}`
	for i := range 10 {
		r := []*service{a, b}[i%2].anyone().do(t, call, body)
		if r.code == 429 {
			t.Fatalf("call %d is refused", i)
		}
		r.limited(10, 9-i)
	}
	for i := range 4 {
		[]*service{a, b}[i%2].anyone().do(t, call, body).status(429).limited(10, 0)
	}
}

// Each record is sent to a webhook once, whichever of two servers received it and whichever created
// the webhook. A webhook that was deleted on one server gets nothing from the other. If the server
// with the duty stops, the other continues with the remaining records.
func TestWebhooksOfTwoServers(t *testing.T) {
	testenv.Concurrent(t)
	testenv.Needs(t, testenv.NotQuick, testenv.Plain)
	t.Parallel()
	a, b := startTwo(t, private)
	acme := a.company(t, "acme")
	stored, deleted := newEndpoint(t), newEndpoint(t)
	acme.webhook(t, stored.URL, "")
	id, _ := acme.on(b).webhook(t, deleted.URL, "")
	for i := range 6 {
		acme.on([]*service{a, b}[i%2]).attestMany(t, 1)
	}
	for i := range 6 {
		stored.record(t, "acme", i)
		deleted.record(t, "acme", i)
	}
	acme.on(b).do(t, "DELETE /v1/webhooks/"+id, "").status(200)
	acme.attestMany(t, 1)
	stored.record(t, "acme", 6)
	bot := acme.signer(t, "bot", jose.EdDSA)
	stored.keyEvent(t, "agent-key.enrolled", "bot")
	a.stop() // whether or not the first one had the duty
	acme.on(b).attestMany(t, 1)
	stored.record(t, "acme", 7)
	signer{acme.on(b), "bot", bot.key}.revokeKey(t, bot.key)
	stored.keyEvent(t, "agent-key.revoked", "bot")
	select {
	case d := <-deleted.arrived:
		t.Errorf("%s arrives at a webhook that is deleted", d.body)
	case d := <-stored.arrived:
		t.Errorf("%s arrives once more", d.body)
	case <-time.After(300 * time.Millisecond):
	}
}

// A server opens at most 12 connections to its database under any load, which is the number in the
// operators' documentation.
func TestConnectionsToTheDatabase(t *testing.T) {
	testenv.Needs(t, testenv.NotQuick, testenv.Plain)
	t.Parallel()
	s := startOn(t, pgtest.Database(t), cred.Domain{}, private, func(c *server.Config) {
		c.Limits = limit.Limits{Standard: 1_000_000, Sensitive: 100, Attest: 1_000_000, Log: 1_000_000}
	})
	acme := s.company(t, "acme")
	acme.webhook(t, newEndpoint(t).URL, "")
	acme.attestMany(t, 20)
	db := s.database(t, "")
	var most int
	for range 5 {
		var all sync.WaitGroup
		for range 32 {
			all.Go(func() {
				acme.do(t, "GET /v1/chain", "").status(200)
				acme.do(t, "POST /v1/oauth/token", `{"grant_type":"client_credentials","client_id":"x","client_secret":"y"}`)
				acme.attestMany(t, 1)
			})
		}
		all.Wait()
		var n int
		must.OK(t, db.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'attestd'").Scan(&n))
		most = max(most, n)
	}
	if most != 12 {
		t.Errorf("%d connections", most)
	}
}
