package server_test

import (
	"context"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"attestd/crypto/cred"
	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/server"
	"attestd/store"
	"attestd/store/storetest"
)

// writes are requests for every kind of change.
var writes = []string{
	"POST /v1/attest", "POST /v1/agents/register", "POST /v1/agents/bot/disable", "POST /v1/keys", "POST /v1/oauth/clients",
	"POST /v1/agents/bot/passport", "POST /v1/companies",
}

// refusesWrites demands that every write is answered 503 with its own code and without Retry-After,
// and that reads go on.
func (c caller) refusesWrites(t *testing.T, code string) {
	t.Helper()
	for _, call := range writes {
		body := map[string]string{
			"POST /v1/attest":          `{"agentId":"bot","actionType":"b","payload":1}`,
			"POST /v1/agents/register": `{"agentId":"other"}`,
			"POST /v1/companies":       `{"companyId":"other"}`,
		}[call]
		r := c.do(t, call, body).status(503)
		if r.str("code") != code || r.header.Get("Retry-After") != "" {
			t.Errorf("%s: %s, Retry-After %q", call, r.raw, r.header.Get("Retry-After"))
		}
	}
	c.do(t, "GET /v1/health", "").status(200)
	c.do(t, "GET /v1/company", "").status(200)
	c.do(t, "GET /v1/verify", "").gets(200, `{"valid":true,"merkleRoot":"<hash>"}`)
}

// endsAStolenKey demands that a rotation with compromised is carried out although no other write
// is, and that a rotation without it is refused.
func (c caller) endsAStolenKey(t *testing.T, code string) {
	t.Helper()
	rotate := "POST /v1/companies/rotate-keys"
	if r := c.do(t, rotate, "{}").status(503); r.str("code") != code {
		t.Errorf("a rotation: %s", r.raw)
	}
	before := c.logNamed(t, "control").Size
	c.do(t, rotate, `{"compromised":true}`).status(200)
	if n := c.logNamed(t, "control").Size; n != before+1 {
		t.Errorf("%d control records, after %d", n, before)
	}
	c.do(t, "GET /v1/verify?log=control", "").gets(200, `{"valid":true,"merkleRoot":"<hash>"}`)
	c.refusesWrites(t, code)
}

// The database is moved away under a server: no write into the moved file is answered 201, the log
// reports the move, and after a restart the file has every acknowledged record.
func TestNoAcknowledgementAfterDatabaseMoved(t *testing.T) {
	storetest.AboutFile(t)
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("a file that is open cannot be moved")
	}
	s := start(t)
	acme := s.company(t, "acme")
	acme.do(t, "POST /v1/agents/register", `{"agentId":"bot"}`).status(201)
	acme.attestMany(t, 3)
	must.OK(t, os.Rename(s.path, s.path+".moved"))
	acme.refusesWrites(t, "FILE_CHANGED")
	s.anyone().do(t, "GET /readyz", "").gets(503, `{"error":"…","code":"FILE_CHANGED","requestId":"…"}`)
	s.anyone().do(t, "GET /v1/health", "").status(200)
	s.stop()
	text := 0
	for _, line := range s.log.lines(t) {
		if cause, _ := line["error"].(string); line["msg"] != "request" && strings.Contains(cause, s.path+" was moved or deleted") {
			text++
		}
	}
	if text != 1 {
		t.Errorf("the log says %d times what happened", text)
	}
	must.OK(t, os.Rename(s.path+".moved", s.path))
	again := startOn(t, s.path, cred.Domain{})
	acme.service = again
	acme.do(t, "GET /readyz", "").gets(200, `{"status":"ready","headFile":"written"}`)
	acme.attestMany(t, 1)
	if n := len(acme.checkChain(t)); n != 4 {
		t.Errorf("%d records", n)
	}
}

// A server whose clock is decades ahead of the database writes nothing until a start that confirms
// the clock.
func TestClockAheadOfDatabaseStopsWrites(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	path := storetest.New(t)
	schema, err := os.ReadFile("../schema.sql")
	must.OK(t, err)
	db, err := store.Open(t.Context(), path, string(schema), store.Options{Master: master()})
	must.OK(t, err)
	long := time.Now().AddDate(-10, 0, -1)
	go db.Run(context.Background(), store.RunOptions{Now: func() time.Time { return long }})
	company, key, err := db.Companies.Create(t.Context(), "acme", nil, long)
	must.OK(t, err)
	_, err = db.Agents.Register(t.Context(), store.Caller{Company: company, At: long}, "bot", nil, store.AgentBounds{Most: 1})
	must.OK(t, err)
	must.OK(t, db.Close())

	s := startOn(t, path, cred.Domain{})
	caller{s, "acme", key.Key}.refusesWrites(t, "CLOCK")
	caller{s, "acme", key.Key}.endsAStolenKey(t, "CLOCK")
	s.anyone().do(t, "GET /readyz", "").gets(503, `{"error":"…","code":"CLOCK","requestId":"…"}`)
	s.stop()
	s = startOn(t, path, cred.Domain{}, func(c *server.Config) { c.AcceptClock = true })
	acme := caller{s, "acme", key.Key}
	acme.attestMany(t, 1)
	s.stop()
	s = startOn(t, path, cred.Domain{}) // the confirmed time is now stored in the file
	acme.service = s
	acme.attestMany(t, 1)
}
