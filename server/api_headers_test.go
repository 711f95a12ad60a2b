package server_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"attestd/internal/must"
	"attestd/internal/testenv"
)

// A header that identifies the caller or the request comes once: of two, different readers use
// different ones.
func TestHeadersThatComeTwice(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	s := start(t)
	acme, globex := s.company(t, "acme"), s.company(t, "globex")
	acme.agent(t, "bot")
	passport := acme.passport(t, "bot", "")
	twice := func(name string) string { return `{"error":"Invalid header: ` + name + ` is given more than once"}` }
	const record = `{"agentId":"a","actionType":"b","payload":1}`
	table(t, []row{
		{does: "two keys", as: acme, call: "POST /v1/attest", body: record, headers: []string{"Idempotency-Key: a", "Idempotency-Key: b"}, status: 400, gets: twice("Idempotency-Key")},
		{does: "one key twice", as: acme, call: "POST /v1/attest", body: record, headers: []string{"Idempotency-Key: a", "Idempotency-Key: a"}, status: 400, gets: twice("Idempotency-Key")},
		{does: "an empty key first", as: acme, call: "POST /v1/attest", body: record, headers: []string{"Idempotency-Key:", "Idempotency-Key: a"}, status: 400, gets: twice("Idempotency-Key")},
		{does: "two credentials", as: acme, call: "GET /v1/company", headers: []string{"Authorization: Bearer " + globex.credential}, status: 400, gets: twice("Authorization")},
		{does: "two credentials where none is needed", as: acme, call: "GET /v1/health", headers: []string{"Authorization: Bearer x"}, status: 400, gets: twice("Authorization")},
		{does: "two passports", as: acme, call: "POST /v1/agents/bot/passport/rotate", headers: []string{"Service-Passport: " + passport, "Service-Passport: x"}, status: 400, gets: twice("Service-Passport")},
		{does: "two passports by two names", as: acme, call: "POST /v1/agents/bot/passport/rotate", headers: []string{"Service-Passport: " + passport, "Attestd-Passport: x"}, status: 400,
			gets: twice("Service-Passport")},
		{does: "two forms of a body", as: acme, call: "POST /v1/token/exchange", body: `{}`, headers: []string{"Content-Type: application/json", "Content-Type: application/x-www-form-urlencoded"}, status: 400,
			gets: twice("Content-Type")},
		{does: "two origins", as: acme, call: "GET /v1/company", headers: []string{"Origin: http://localhost", "Origin: https://evil.example"}, status: 400, gets: twice("Origin")},
	})
	if n := len(acme.checkChain(t)); n != 0 {
		t.Errorf("%d records, want none", n)
	}
	acme.do(t, "POST /v1/agents/bot/passport/rotate", "", "Service-Passport: "+passport).status(200)
}

// After a request that says its length in two ways the connection is closed: what follows may begin
// elsewhere for a proxy.
func TestTwoLengthsEndTheConnection(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	s := start(t)
	for name, test := range map[string]struct {
		head  string
		close bool
	}{
		"both":          {"Content-Length: 21\r\nTransfer-Encoding: chunked\r\n\r\n15\r\n{\"companyId\":\"acme-1\"}\r\n0\r\n\r\n", true},
		"the other way": {"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n15\r\n{\"companyId\":\"acme-2\"}\r\n0\r\n\r\n", true},
		"one":           {"Content-Length: 22\r\n\r\n{\"companyId\":\"acme-3\"}", false},
	} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		must.OK(t, err)
		defer conn.Close()
		_, err = io.WriteString(conn, "POST /v1/companies HTTP/1.1\r\nHost: localhost\r\n"+strings.Replace(test.head, "15\r\n", "16\r\n", 1)+
			"GET /v1/health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
		must.OK(t, err)
		in := bufio.NewReader(conn)
		res, err := http.ReadResponse(in, nil)
		must.OK(t, err)
		_, err = io.Copy(io.Discard, res.Body)
		must.OK(t, err)
		_, next := http.ReadResponse(in, nil)
		if res.StatusCode != 201 || res.Close != test.close || (next != nil) != test.close {
			t.Errorf("%s: %d, closes: %v, then %v", name, res.StatusCode, res.Close, next)
		}
	}
}

// What an agent says about a call is read in one way or refused: two readers of one body must not
// see a request and an outcome, and no passport be asked for.
func TestAmbiguousHookBodyIsRefused(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	acme := start(t).company(t, "acme")
	const asks = `"tool_name":"Bash","tool_use_id":"t1","tool_input":{}`
	for _, body := range []string{
		`{"hook_event_name":"PreToolUse","hook_event_name":"PostToolUse",` + asks + `}`,
		`{"hook_event_name":"PostToolUse","hook_event_name":"PreToolUse",` + asks + `}`,
		`{"hook_event_name":"PreToolUse","Hook_Event_Name":"PostToolUse",` + asks + `}`,
		`{"HOOK_EVENT_NAME":"PreToolUse",` + asks + `}`,
		`{"hook_event_name":"PreToolUse","hook_event_nam\u0065":"SessionStart",` + asks + `}`,
		// the Kelvin sign is a k in another case
		`{"hoo\u212a_event_name":"PostToolUse","hook_event_name":"PreToolUse",` + asks + `}`,
		`{"hook_event_name":"PreToolUse","tool_name":"Read",` + asks + `}`,
		`{"hook_event_name":"PreToolUse","Tool_Name":"Read",` + asks + `}`,
		`{"hook_event_name":"PreToolUse","tool_use_id":"t0",` + asks + `}`,
		`{"hook_event_name":"PreToolUse","tool_input":{"a":1},` + asks + `}`,
		`{"hook_event_name":"PreToolUse","mcp_server":{"name":"a","name":"b"},` + asks + `}`,
		`{"hook_event_name":"PostToolBatch","tool_calls":[{"tool_use_id":"t2","tool_name":"Read",` + asks + `}]}`,
		`{"hook_event_name":"PostToolBatch","tool_calls":[{` + asks + `}],"tool_calls":[]}`,
	} {
		for _, address := range []string{hook + "?require=passport", hook} {
			acme.do(t, address, body).gets(400, `{"error":"Malformed hook event: …"}`)
		}
	}
	acme.do(t, hook, `{"hook_event_name":"PreToolUse","effort":"a","effort":"b","Effort":"c",`+asks+`}`).gets(200, `{}`)
	if got := acme.hooked(t); len(got) != 1 {
		t.Errorf("%q", got)
	}
}
