package server_test

import (
	"strings"
	"testing"

	"attestd/crypto/cred"
	"attestd/store/storetest"
)

// Of a database that is older than its head file knows, reads, status and verification answer, and
// nothing is appended or issued: 503 with the code and the reason, which says which log, what was
// known and what is there. Health stays as it is.
func TestReadOnlyWhenBehindHeadFile(t *testing.T) {
	t.Parallel()
	path := storetest.New(t)
	s := startOn(t, path, cred.Domain{})
	acme := s.company(t, "acme")
	acme.do(t, "POST /v1/agents/register", `{"agentId":"bot"}`).status(201)
	acme.attestMany(t, 3)
	passport := acme.do(t, "POST /v1/agents/bot/passport", ``).status(201)
	s.anyone().do(t, "GET /readyz", "").gets(200, `{"status":"ready","headFile":"written"}`)
	s.stop()
	older := storetest.Copy(t, path)
	s = startOn(t, path, cred.Domain{})
	acme.service = s
	acme.attestMany(t, 2)
	s.stop()
	storetest.Replace(t, path, older)

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
	acme.endsAStolenKey(t, "ROLLED_BACK")
	s.stop()
	// what the rotation has added makes the database no newer
	acme.service = startOn(t, path, cred.Domain{})
	acme.refusesWrites(t, "ROLLED_BACK")
}
