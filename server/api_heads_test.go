package server_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"attestd/crypto/cred"
	"attestd/store"
)

// Of a database that is older than its head file knows, reads, status and verification answer, and nothing is appended or issued: 503 with
// the code and the reason, which says which log, what was known and what is there. Health stays as it is.
func TestADatabaseBehindItsHeadFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "attestd.db")
	s := startOn(t, path, cred.Domain{})
	acme := s.company(t, "acme")
	acme.do(t, "POST /v1/agents/register", `{"agentId":"bot"}`).status(201)
	acme.attestMany(t, 3)
	passport := acme.do(t, "POST /v1/agents/bot/passport", ``).status(201)
	s.anyone().do(t, "GET /readyz", "").gets(200, `{"status":"ready","headFile":"written"}`)
	schema, err := os.ReadFile("../schema.sql")
	must(t, err)
	older := filepath.Join(dir, "older.db")
	must(t, store.Backup(t.Context(), path, older, string(schema), nil))
	acme.attestMany(t, 2)
	s.stop()
	must(t, os.Rename(older, path))

	s = startOn(t, path, cred.Domain{})
	acme.service = s
	acme.refusesWrites(t, "ROLLED_BACK")
	said := s.anyone().do(t, "GET /readyz", "")
	said.gets(503, `{"error":"…","code":"ROLLED_BACK","requestId":"…"}`)
	if why := said.str("error"); !strings.Contains(why, "was known at size 5 with root ") || !strings.Contains(why, "and is at size 3 with root ") || strings.Contains(why, "acme") {
		t.Errorf("the reason: %s", why)
	}
	s.anyone().do(t, "GET /v1/health", "").gets(200, `{"status":"ok"}`)
	if n := len(acme.checkChain(t)); n != 3 {
		t.Errorf("%d records are read", n)
	}
	acme.do(t, "GET /v1/verify", "").status(200)
	acme.do(t, "POST /v1/passport/verify", `{"passport":"`+passport.str("passport")+`"}`).status(200)
}
