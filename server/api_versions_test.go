package server_test

import (
	"testing"
	"time"

	"attestd/internal/must"
	"attestd/internal/testenv"
)

// Two servers of one database have each a version and settings of their own, as during a rolling
// upgrade. Companies register at both, whichever started last, can be changed at both, and their
// control logs verify.
func TestCompaniesRegisterWithAnotherVersion(t *testing.T) {
	testenv.Needs(t, testenv.NotQuick)
	testenv.Concurrent(t)
	t.Parallel()
	a, b := startTwo(t)
	for i, id := range []string{"first", "second", "third"} {
		c := []*service{a, b}[i%2].company(t, id)
		for _, s := range []*service{a, b} {
			there := c.on(s)
			there.attestMany(t, 1)
			for _, log := range []string{"", "?log=control"} {
				there.do(t, "GET /v1/verify"+log, "").has(`{"valid":true}`)
			}
		}
		c.agent(t, "bot")
		c.on(b).do(t, "POST /v1/keys", "").status(201)
	}
}

// A company that a server of an older version has registered is locked at no server for long: one
// of them records what its log lacks, and those that have found the difference compare it again.
func TestCompanyOfAnOlderServerIsUnlocked(t *testing.T) {
	testenv.Needs(t, testenv.NotQuick)
	testenv.Concurrent(t)
	t.Parallel()
	a, b := startTwo(t)
	a.company(t, "first") // with which the log of the companies begins
	db := a.database(t, "")
	execute(t, db, `CREATE TABLE stored AS SELECT value FROM setting WHERE name = 'trust_settings'`,
		`UPDATE setting SET value = replace(value, '"program":"', '"program":"older ') WHERE name = 'trust_settings'`)
	acme := a.company(t, "acme")
	execute(t, db, `UPDATE setting SET value = (SELECT value FROM stored) WHERE name = 'trust_settings'`)
	for _, s := range []*service{a, b} {
		_ = s.store.Tables.Check(t.Context(), 2) // which finds it, unless it was mended before
	}
	for _, s := range []*service{a, b} {
		there := acme.on(s)
		for deadline := time.Now().Add(30 * time.Second); len(s.store.Tables.Changed()) > 0; time.Sleep(50 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("the company is locked: %v", s.store.Tables.Changed())
			}
		}
		there.do(t, "POST /v1/keys", "").status(201)
		there.do(t, "GET /v1/verify?log=control", "").has(`{"valid":true}`)
	}
	must.OK(t, a.store.VerifyAll(t.Context(), "", 2, nil, nil))
}
