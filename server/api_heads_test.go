package server_test

import (
	"regexp"
	"strings"
	"testing"

	"attestd/crypto/cred"
	"attestd/store/storetest"
)

// logDetail is an ID, a root or a size of a log.
var logDetail = regexp.MustCompile(`[0-9a-f]{16}|[0-9]`)

// When a database is older than its head file, reads, status and verification still answer. Nothing
// is appended or issued: 503 with the code. Only the company whose log is behind learns which log
// it is, what was known and what is there. Health does not change.
func TestReadOnlyWhenBehindHeadFile(t *testing.T) {
	t.Parallel()
	path := storetest.New(t)
	s := startOn(t, path, cred.Domain{})
	acme := s.company(t, "acme")
	acme.do(t, "POST /v1/agents/register", `{"agentId":"bot"}`).status(201)
	acme.attestMany(t, 3)
	passport := acme.do(t, "POST /v1/agents/bot/passport", ``).status(201)
	globex := s.company(t, "globex")
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
	text := s.anyone().do(t, "GET /readyz", "")
	text.gets(503, `{"error":"…","code":"ROLLED_BACK","requestId":"…"}`)
	// Only the company learns which log it is. Unauthenticated callers and other companies do not.
	const reason = "was known at size 5 with log root "
	why := acme.do(t, "POST /v1/attest", `{"agentId":"bot","actionType":"x","payload":1}`).status(503).str("error")
	if !strings.Contains(why, reason) || !strings.Contains(why, "and is at size 3 with log root ") || strings.Contains(why, "acme") {
		t.Errorf("the reason for the company: %s", why)
	}
	for by, answer := range map[string]*reply{"anybody": text, "a registration": s.anyone().do(t, "POST /v1/companies", `{"companyId":"zoo"}`),
		"another company": globex.on(s).do(t, "POST /v1/attest", `{"agentId":"bot","actionType":"x","payload":1}`)} {
		answer.status(503)
		if text := answer.str("error"); answer.str("code") != "ROLLED_BACK" || logDetail.MatchString(text) || strings.Contains(text, "acme") {
			t.Errorf("the reason for %s: %s", by, text)
		}
	}
	if s.log.says(reason) == 0 {
		t.Error("the log does not say which log it is")
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
